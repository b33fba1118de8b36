"""Processes and threads that run your code, the one that ticks, and those that wake and are woken."""

from pgsluice.worker._async.event_batch import AsyncEventBatch
from pgsluice.worker._async.event_consumer import AsyncEventConsumer
from pgsluice.worker._sync.event_batch import EventBatch
from pgsluice.worker._sync.event_consumer import EventConsumer
from pgsluice.worker.answer import Answer, Done, Reject, Release, RetryAfter
from pgsluice.worker.app import App
from pgsluice.worker.handler import Batch, Execution, Mode
from pgsluice.worker.listener import AsyncListener, Listener, ListenerState
from pgsluice.worker.maintainer import Maintainer, Pace
from pgsluice.worker.maintenance import Maintenance
from pgsluice.worker.notifier import Notifier
from pgsluice.worker.outcome import ConsumedBatch, RetryEventError, RetryIn
from pgsluice.worker.queue_worker import QueueWorker
from pgsluice.worker.retry import Retry
from pgsluice.worker.runtime.context import Context, SyncContext
from pgsluice.worker.schedules import Scheduler, ScheduleSpec
from pgsluice.worker.sendable import Handler
from pgsluice.worker.subscription import AsyncSubscription, Subscription
from pgsluice.worker.ticker import Ticker
from pgsluice.worker.worker import Worker, WorkerOptions

__all__ = [
    "Answer",
    "App",
    "AsyncEventBatch",
    "AsyncEventConsumer",
    "AsyncListener",
    "AsyncSubscription",
    "Batch",
    "ConsumedBatch",
    "Context",
    "Done",
    "EventBatch",
    "EventConsumer",
    "Execution",
    "Handler",
    "Listener",
    "ListenerState",
    "Maintainer",
    "Maintenance",
    "Mode",
    "Notifier",
    "Pace",
    "QueueWorker",
    "Reject",
    "Release",
    "Retry",
    "RetryAfter",
    "RetryEventError",
    "RetryIn",
    "ScheduleSpec",
    "Scheduler",
    "Subscription",
    "SyncContext",
    "Ticker",
    "Worker",
    "WorkerOptions",
]
