"""Processes and threads that run your code, the one that ticks, and those that wake and are woken."""

from pgsluice.outcome import Done, Outcome, Reject, Release, Retry
from pgsluice.worker.app.app import App
from pgsluice.worker.engine._async.event_batch import AsyncEventBatch
from pgsluice.worker.engine._async.event_consumer import AsyncEventConsumer
from pgsluice.worker.engine._sync.event_batch import EventBatch
from pgsluice.worker.engine._sync.event_consumer import EventConsumer
from pgsluice.worker.engine.consumed_batch import ConsumedBatch
from pgsluice.worker.engine.context import Context, SyncContext
from pgsluice.worker.engine.worker import Worker, WorkerOptions
from pgsluice.worker.handlers.handler import Batch, Execution, Mode
from pgsluice.worker.handlers.retry import RetryPolicy
from pgsluice.worker.handlers.sendable import Handler
from pgsluice.worker.upkeep.maintainer import Maintainer, Pace
from pgsluice.worker.upkeep.maintenance import Maintenance
from pgsluice.worker.upkeep.schedules import Scheduler, ScheduleSpec
from pgsluice.worker.upkeep.ticker import Ticker
from pgsluice.worker.wakeups.listener import AsyncListener, Listener, ListenerState
from pgsluice.worker.wakeups.notifier import Notifier
from pgsluice.worker.wakeups.subscription import AsyncSubscription, Subscription

__all__ = [
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
    "Outcome",
    "Pace",
    "Reject",
    "Release",
    "Retry",
    "RetryPolicy",
    "ScheduleSpec",
    "Scheduler",
    "Subscription",
    "SyncContext",
    "Ticker",
    "Worker",
    "WorkerOptions",
]
