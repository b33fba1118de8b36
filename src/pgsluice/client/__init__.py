"""Clients: one Python method per SQL function, sync and async.

A client works on a pool, where each call is a transaction of its own, or on a connection of the caller's, where it
runs in the caller's transaction and never commits.
"""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    from pgsluice.client._async.event_log import AsyncEventLog
    from pgsluice.client._async.inbox import AsyncInbox
    from pgsluice.client._async.schedules import AsyncSchedules
    from pgsluice.client._async.share_group import AsyncShareGroup
    from pgsluice.client._async.table_queue import AsyncTableQueue
    from pgsluice.client._async.work_queue import AsyncWorkQueue
    from pgsluice.client._sync.event_log import EventLog
    from pgsluice.client._sync.inbox import Inbox
    from pgsluice.client._sync.schedules import Schedules
    from pgsluice.client._sync.share_group import ShareGroup
    from pgsluice.client._sync.table_queue import TableQueue
    from pgsluice.client._sync.work_queue import WorkQueue
    from pgsluice.client.group_records import (
        BlockedKey,
        ClaimedEvent,
        GroupInfo,
        GroupOptions,
        OpenClaim,
    )
    from pgsluice.client.limit_records import BlockedMessages, QueueLimits
    from pgsluice.client.log_records import (
        BatchInfo,
        Capture,
        ConsumerInfo,
        ConsumerState,
        DeadEvent,
        DelayedEvent,
        Event,
        GroupStep,
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
        Export,
        MaintenanceFailure,
        MaintenanceStep,
        Message,
        NotifyThrottle,
        Partition,
        QueueInfo,
        QueueMetrics,
        QueueStream,
        Redriven,
        Replay,
        Replayed,
        ReplayStep,
        RoutingMatch,
        StoredMessage,
        TopicBinding,
    )
    from pgsluice.client.retry_records import (
        BegunAttempt,
        FailedMessage,
        QueueRetryPolicy,
    )
    from pgsluice.client.schedule_records import FiredSlot, Schedule, ScheduleOptions

__all__ = [
    "ArchiveRetention",
    "AsyncEventLog",
    "AsyncInbox",
    "AsyncSchedules",
    "AsyncShareGroup",
    "AsyncTableQueue",
    "AsyncWorkQueue",
    "BatchInfo",
    "BegunAttempt",
    "BlockedKey",
    "BlockedMessages",
    "Capture",
    "ClaimOutcome",
    "ClaimedEvent",
    "ConsumerInfo",
    "ConsumerState",
    "DeadEvent",
    "DeadLetter",
    "DelayedEvent",
    "Event",
    "EventLog",
    "Export",
    "FailedMessage",
    "FiredSlot",
    "GroupInfo",
    "GroupOptions",
    "GroupStep",
    "Inbox",
    "LogInfo",
    "LogPolicy",
    "LogTick",
    "MaintenanceFailure",
    "MaintenanceStep",
    "Message",
    "NewEvent",
    "NotifyThrottle",
    "OpenBatch",
    "OpenClaim",
    "Partition",
    "QueueInfo",
    "QueueLimits",
    "QueueMetrics",
    "QueueRetryPolicy",
    "QueueStream",
    "Redriven",
    "RedrivenEvent",
    "Replay",
    "ReplayStep",
    "Replayed",
    "RestoredLog",
    "RotationStep",
    "RoutingMatch",
    "Schedule",
    "ScheduleOptions",
    "Schedules",
    "Segment",
    "ShareGroup",
    "StoredMessage",
    "TableQueue",
    "TopicBinding",
    "WorkQueue",
]

_MODULES = (
    "group_records",
    "limit_records",
    "log_records",
    "records",
    "retry_records",
    "schedule_records",
    "_sync.event_log",
    "_sync.inbox",
    "_sync.schedules",
    "_sync.share_group",
    "_sync.table_queue",
    "_sync.work_queue",
    "_async.event_log",
    "_async.inbox",
    "_async.schedules",
    "_async.share_group",
    "_async.table_queue",
    "_async.work_queue",
)
if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, __all__, _MODULES)
