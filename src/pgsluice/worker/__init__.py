"""Workers, event consumers, and the background processes: ticker, notifier, maintenance, scheduler, listeners."""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    from pgsluice.outcome import Done as Done
    from pgsluice.outcome import Outcome as Outcome
    from pgsluice.outcome import Reject as Reject
    from pgsluice.outcome import Release as Release
    from pgsluice.outcome import Retry as Retry
    from pgsluice.worker.app.app import App as App
    from pgsluice.worker.engine.consume._async.event_batch import AsyncEventBatch as AsyncEventBatch
    from pgsluice.worker.engine.consume._async.event_consumer import (
        AsyncEventConsumer as AsyncEventConsumer,
    )
    from pgsluice.worker.engine.consume._sync.event_batch import EventBatch as EventBatch
    from pgsluice.worker.engine.consume._sync.event_consumer import EventConsumer as EventConsumer
    from pgsluice.worker.engine.consume.consumed_batch import ConsumedBatch as ConsumedBatch
    from pgsluice.worker.engine.flow.options import WorkerOptions as WorkerOptions
    from pgsluice.worker.engine.flow.worker import Worker as Worker
    from pgsluice.worker.engine.run.context import Context as Context
    from pgsluice.worker.engine.run.context import SyncContext as SyncContext
    from pgsluice.worker.handlers.handler import Batch as Batch
    from pgsluice.worker.handlers.handler import Execution as Execution
    from pgsluice.worker.handlers.handler import Mode as Mode
    from pgsluice.worker.handlers.options import HandlerOptions as HandlerOptions
    from pgsluice.worker.handlers.options import SendManyOptions as SendManyOptions
    from pgsluice.worker.handlers.options import SendOptions as SendOptions
    from pgsluice.worker.handlers.retry import RetryPolicy as RetryPolicy
    from pgsluice.worker.handlers.sendable import Handler as Handler
    from pgsluice.worker.upkeep.maintainer import Maintainer as Maintainer
    from pgsluice.worker.upkeep.maintainer import Pace as Pace
    from pgsluice.worker.upkeep.maintenance import Maintenance as Maintenance
    from pgsluice.worker.upkeep.schedules import Scheduler as Scheduler
    from pgsluice.worker.upkeep.schedules import ScheduleSpec as ScheduleSpec
    from pgsluice.worker.upkeep.ticker import Ticker as Ticker
    from pgsluice.worker.wakeups.listener import AsyncListener as AsyncListener
    from pgsluice.worker.wakeups.listener import Listener as Listener
    from pgsluice.worker.wakeups.listener import ListenerState as ListenerState
    from pgsluice.worker.wakeups.notifier import Notifier as Notifier
    from pgsluice.worker.wakeups.subscription import AsyncSubscription as AsyncSubscription
    from pgsluice.worker.wakeups.subscription import Subscription as Subscription
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
