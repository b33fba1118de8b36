"""Message queues and event logs inside PostgreSQL, and an exact way from them into the lake."""

from pgsluice.client import (
    ArchiveRetention,
    AsyncEventLog,
    AsyncWorkQueue,
    ConsumerInfo,
    DeadLetter,
    Event,
    EventLog,
    LogInfo,
    Message,
    NotifyThrottle,
    QueueInfo,
    QueueMetrics,
    Redriven,
    Replay,
    Replayed,
    ReplayStep,
    RoutingMatch,
    StoredMessage,
    TopicBinding,
    WorkQueue,
)
from pgsluice.connection import Target, connect, resolve
from pgsluice.errors import SluiceError
from pgsluice.settings import Settings
from pgsluice.worker import QueueWorker, Retry, Ticker

__all__ = [
    "ArchiveRetention",
    "AsyncEventLog",
    "AsyncWorkQueue",
    "ConsumerInfo",
    "DeadLetter",
    "Event",
    "EventLog",
    "LogInfo",
    "Message",
    "NotifyThrottle",
    "QueueInfo",
    "QueueMetrics",
    "QueueWorker",
    "Redriven",
    "Replay",
    "ReplayStep",
    "Replayed",
    "Retry",
    "RoutingMatch",
    "Settings",
    "SluiceError",
    "StoredMessage",
    "Target",
    "Ticker",
    "TopicBinding",
    "WorkQueue",
    "connect",
    "resolve",
]
