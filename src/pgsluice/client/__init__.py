"""Clients: one Python method per SQL function, sync and async.

A client works on a pool, where each call is a transaction of its own, or on a connection of the caller's, where it
runs in the caller's transaction and never commits.
"""

from pgsluice.client._async.event_log import AsyncEventLog
from pgsluice.client._async.table_queue import AsyncTableQueue
from pgsluice.client._async.work_queue import AsyncWorkQueue
from pgsluice.client._sync.event_log import EventLog
from pgsluice.client._sync.table_queue import TableQueue
from pgsluice.client._sync.work_queue import WorkQueue
from pgsluice.client.log_records import (
    BatchInfo,
    Capture,
    ConsumerInfo,
    ConsumerState,
    DeadEvent,
    DelayedEvent,
    Event,
    LogInfo,
    LogPolicy,
    LogTick,
    NewEvent,
    OpenBatch,
    RedrivenEvent,
    RestoredLog,
    RotationStep,
    Segment,
)
from pgsluice.client.records import (
    ArchiveRetention,
    ClaimOutcome,
    DeadLetter,
    MaintenanceStep,
    Message,
    NotifyThrottle,
    Partition,
    QueueInfo,
    QueueMetrics,
    Redriven,
    Replay,
    Replayed,
    ReplayStep,
    RoutingMatch,
    StoredMessage,
    TopicBinding,
)

__all__ = [
    "ArchiveRetention",
    "AsyncEventLog",
    "AsyncTableQueue",
    "AsyncWorkQueue",
    "BatchInfo",
    "Capture",
    "ClaimOutcome",
    "ConsumerInfo",
    "ConsumerState",
    "DeadEvent",
    "DeadLetter",
    "DelayedEvent",
    "Event",
    "EventLog",
    "LogInfo",
    "LogPolicy",
    "LogTick",
    "MaintenanceStep",
    "Message",
    "NewEvent",
    "NotifyThrottle",
    "OpenBatch",
    "Partition",
    "QueueInfo",
    "QueueMetrics",
    "Redriven",
    "RedrivenEvent",
    "Replay",
    "ReplayStep",
    "Replayed",
    "RestoredLog",
    "RotationStep",
    "RoutingMatch",
    "Segment",
    "StoredMessage",
    "TableQueue",
    "TopicBinding",
    "WorkQueue",
]
