"""Message queues and event logs inside PostgreSQL, and an exact way from them into the lake."""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    from pgsluice.client import *  # noqa: F403
    from pgsluice.connection import Target as Target
    from pgsluice.connection import connect as connect
    from pgsluice.connection import resolve as resolve
    from pgsluice.errors import SluiceError as SluiceError
    from pgsluice.outcome import Done as Done
    from pgsluice.outcome import Outcome as Outcome
    from pgsluice.outcome import Reject as Reject
    from pgsluice.outcome import Release as Release
    from pgsluice.outcome import Retry as Retry
    from pgsluice.settings import Settings as Settings
    from pgsluice.worker import App as App
    from pgsluice.worker import AsyncEventBatch as AsyncEventBatch
    from pgsluice.worker import AsyncEventConsumer as AsyncEventConsumer
    from pgsluice.worker import AsyncListener as AsyncListener
    from pgsluice.worker import AsyncSubscription as AsyncSubscription
    from pgsluice.worker import Batch as Batch
    from pgsluice.worker import ConsumedBatch as ConsumedBatch
    from pgsluice.worker import Context as Context
    from pgsluice.worker import EventBatch as EventBatch
    from pgsluice.worker import EventConsumer as EventConsumer
    from pgsluice.worker import Execution as Execution
    from pgsluice.worker import Handler as Handler
    from pgsluice.worker import Listener as Listener
    from pgsluice.worker import ListenerState as ListenerState
    from pgsluice.worker import Maintenance as Maintenance
    from pgsluice.worker import Mode as Mode
    from pgsluice.worker import Notifier as Notifier
    from pgsluice.worker import RetryPolicy as RetryPolicy
    from pgsluice.worker import Scheduler as Scheduler
    from pgsluice.worker import ScheduleSpec as ScheduleSpec
    from pgsluice.worker import Subscription as Subscription
    from pgsluice.worker import SyncContext as SyncContext
    from pgsluice.worker import Ticker as Ticker
    from pgsluice.worker import Worker as Worker
    from pgsluice.worker import WorkerOptions as WorkerOptions
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
