"""Message queues and event logs inside PostgreSQL, and an exact way from them into the lake."""

from pgsluice.client import (
    AsyncEventLog,
    AsyncWorkQueue,
    ConsumerInfo,
    Event,
    EventLog,
    LogInfo,
    Message,
    NotifyThrottle,
    QueueInfo,
    QueueMetrics,
    RoutingMatch,
    TopicBinding,
    WorkQueue,
)
from pgsluice.connection import Target, connect, resolve
from pgsluice.errors import SluiceError
from pgsluice.settings import Settings
from pgsluice.worker import QueueWorker, Retry, Ticker

__all__ = [
    "AsyncEventLog",
    "AsyncWorkQueue",
    "ConsumerInfo",
    "Event",
    "EventLog",
    "LogInfo",
    "Message",
    "NotifyThrottle",
    "QueueInfo",
    "QueueMetrics",
    "QueueWorker",
    "Retry",
    "RoutingMatch",
    "Settings",
    "SluiceError",
    "Target",
    "Ticker",
    "TopicBinding",
    "WorkQueue",
    "connect",
    "resolve",
]
