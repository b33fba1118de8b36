"""Clients: one Python method per SQL function, sync and async.

On a pool, each call of a client is a transaction of its own. On a connection, it runs in the caller's transaction and
never commits.
"""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    from pgsluice.client._async.archive import AsyncArchive as AsyncArchive
    from pgsluice.client._async.dead_letters import AsyncDeadLetters as AsyncDeadLetters
    from pgsluice.client._async.event_log import AsyncEventLog as AsyncEventLog
    from pgsluice.client._async.inbox import AsyncInbox as AsyncInbox
    from pgsluice.client._async.operations import AsyncOperations as AsyncOperations
    from pgsluice.client._async.schedules import AsyncSchedules as AsyncSchedules
    from pgsluice.client._async.share_group import AsyncShareGroup as AsyncShareGroup
    from pgsluice.client._async.table_queue import AsyncTableQueue as AsyncTableQueue
    from pgsluice.client._async.work_queue import AsyncWorkQueue as AsyncWorkQueue
    from pgsluice.client._sync.archive import Archive as Archive
    from pgsluice.client._sync.dead_letters import DeadLetters as DeadLetters
    from pgsluice.client._sync.event_log import EventLog as EventLog
    from pgsluice.client._sync.inbox import Inbox as Inbox
    from pgsluice.client._sync.operations import Operations as Operations
    from pgsluice.client._sync.schedules import Schedules as Schedules
    from pgsluice.client._sync.share_group import ShareGroup as ShareGroup
    from pgsluice.client._sync.table_queue import TableQueue as TableQueue
    from pgsluice.client._sync.work_queue import WorkQueue as WorkQueue
    from pgsluice.client.dead_letter_records import DeadLetter as DeadLetter
    from pgsluice.client.dead_letter_records import DeadLetterFilter as DeadLetterFilter
    from pgsluice.client.dead_letter_records import DeadLetterGroup as DeadLetterGroup
    from pgsluice.client.dead_letter_records import FailedEvent as FailedEvent
    from pgsluice.client.dead_letter_records import FoundDeadLetters as FoundDeadLetters
    from pgsluice.client.dead_letter_records import Redriven as Redriven
    from pgsluice.client.explain_records import ExplainedFact as ExplainedFact
    from pgsluice.client.group_records import BlockedKey as BlockedKey
    from pgsluice.client.group_records import ClaimedEvent as ClaimedEvent
    from pgsluice.client.group_records import GroupInfo as GroupInfo
    from pgsluice.client.group_records import GroupOptions as GroupOptions
    from pgsluice.client.group_records import OpenClaim as OpenClaim
    from pgsluice.client.limit_records import BlockedMessages as BlockedMessages
    from pgsluice.client.limit_records import LimitUsage as LimitUsage
    from pgsluice.client.log_records import BatchInfo as BatchInfo
    from pgsluice.client.log_records import BrowsedEvent as BrowsedEvent
    from pgsluice.client.log_records import Capture as Capture
    from pgsluice.client.log_records import CaptureProblem as CaptureProblem
    from pgsluice.client.log_records import ConsumerInfo as ConsumerInfo
    from pgsluice.client.log_records import ConsumerState as ConsumerState
    from pgsluice.client.log_records import DelayedEvent as DelayedEvent
    from pgsluice.client.log_records import Event as Event
    from pgsluice.client.log_records import EventPosition as EventPosition
    from pgsluice.client.log_records import LogInfo as LogInfo
    from pgsluice.client.log_records import LogState as LogState
    from pgsluice.client.log_records import LogTick as LogTick
    from pgsluice.client.log_records import NewEvent as NewEvent
    from pgsluice.client.log_records import OpenBatch as OpenBatch
    from pgsluice.client.log_records import RestoredLog as RestoredLog
    from pgsluice.client.log_records import RotationStep as RotationStep
    from pgsluice.client.log_records import Segment as Segment
    from pgsluice.client.operation_records import HandlerPolicy as HandlerPolicy
    from pgsluice.client.operation_records import HandlerTimes as HandlerTimes
    from pgsluice.client.operation_records import OperatorAction as OperatorAction
    from pgsluice.client.operation_records import PurgedMessages as PurgedMessages
    from pgsluice.client.operation_records import QueueExtent as QueueExtent
    from pgsluice.client.operation_records import WorkerProcess as WorkerProcess
    from pgsluice.client.records import ClaimOutcome as ClaimOutcome
    from pgsluice.client.records import Export as Export
    from pgsluice.client.records import MaintenanceFailure as MaintenanceFailure
    from pgsluice.client.records import MaintenanceStep as MaintenanceStep
    from pgsluice.client.records import Message as Message
    from pgsluice.client.records import NotifyThrottle as NotifyThrottle
    from pgsluice.client.records import Partition as Partition
    from pgsluice.client.records import QueueInfo as QueueInfo
    from pgsluice.client.records import QueueMetrics as QueueMetrics
    from pgsluice.client.records import QueueStream as QueueStream
    from pgsluice.client.records import Replay as Replay
    from pgsluice.client.records import Replayed as Replayed
    from pgsluice.client.records import ReplayStep as ReplayStep
    from pgsluice.client.records import RoutingMatch as RoutingMatch
    from pgsluice.client.records import StoredMessage as StoredMessage
    from pgsluice.client.records import TopicBinding as TopicBinding
    from pgsluice.client.result_records import MessageResult as MessageResult
    from pgsluice.client.retry_records import BegunAttempt as BegunAttempt
    from pgsluice.client.retry_records import FailedMessage as FailedMessage
    from pgsluice.client.retry_records import FailingMessages as FailingMessages
    from pgsluice.client.retry_records import MessageAttempts as MessageAttempts
    from pgsluice.client.sample_records import NewestSample as NewestSample
    from pgsluice.client.sample_records import QueueState as QueueState
    from pgsluice.client.sample_records import Sample as Sample
    from pgsluice.client.schedule_records import FiredSlot as FiredSlot
    from pgsluice.client.schedule_records import Schedule as Schedule
    from pgsluice.client.schedule_records import ScheduleOptions as ScheduleOptions
    from pgsluice.client.search_records import FoundMessages as FoundMessages
    from pgsluice.client.settings_records import LogOptions as LogOptions
    from pgsluice.client.settings_records import LogSettings as LogSettings
    from pgsluice.client.settings_records import QueueOptions as QueueOptions
    from pgsluice.client.settings_records import QueueSettings as QueueSettings
    from pgsluice.client.unique import Unique as Unique
    from pgsluice.client.unloadable import UnloadableJson as UnloadableJson
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
