"""Message queues and event logs in PostgreSQL, with exactly-once export to a data lake.

Connect: `resolve`, `connect`, `Target`, `Settings`.
Clients: `WorkQueue`, `TableQueue`, `EventLog`, `ShareGroup`, `DeadLetters`, `Archive`, `Schedules`, `Operations`,
`Inbox`; asyncio: `AsyncWorkQueue`, ...
Several servers: `Shards`, `ShardPool`.
Workers: `App`, `Worker`, `WorkerOptions`, `RetryPolicy`, `Context`, `SyncContext`, `Batch`, `Unique`.
Outcomes of a message: `Done`, `Retry`, `Release`, `Reject`.
Consumers of an event log: `EventConsumer`, `AsyncEventConsumer`, `Subscription`.
Background processes: `Ticker`, `Maintenance`, `Notifier`, `Scheduler`; wake-ups: `Listener`, `AsyncListener`.
Errors: `SluiceError` and its subclasses, all in `pgsluice.errors` too.
Install the schemas: `pgsluice.schema`.
"""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    __version__: str

    from pgsluice.client import *  # noqa: F403
    from pgsluice.connection import Target as Target
    from pgsluice.connection import connect as connect
    from pgsluice.connection import resolve as resolve
    from pgsluice.errors import ArgumentError as ArgumentError
    from pgsluice.errors import BatchNotFoundError as BatchNotFoundError
    from pgsluice.errors import CaptureError as CaptureError
    from pgsluice.errors import ChangeError as ChangeError
    from pgsluice.errors import ClaimNotFoundError as ClaimNotFoundError
    from pgsluice.errors import CommitUnknownError as CommitUnknownError
    from pgsluice.errors import ConfigurationError as ConfigurationError
    from pgsluice.errors import ConnectionFailedError as ConnectionFailedError
    from pgsluice.errors import ConsumerInUseError as ConsumerInUseError
    from pgsluice.errors import ConsumerNotFoundError as ConsumerNotFoundError
    from pgsluice.errors import DeduplicationOffError as DeduplicationOffError
    from pgsluice.errors import DirectoryChangedError as DirectoryChangedError
    from pgsluice.errors import DiskFullError as DiskFullError
    from pgsluice.errors import EmbeddedServerError as EmbeddedServerError
    from pgsluice.errors import ExportError as ExportError
    from pgsluice.errors import GroupBusyError as GroupBusyError
    from pgsluice.errors import GroupNotFoundError as GroupNotFoundError
    from pgsluice.errors import GroupStateError as GroupStateError
    from pgsluice.errors import HandlerError as HandlerError
    from pgsluice.errors import LeaseLostError as LeaseLostError
    from pgsluice.errors import LogInUseError as LogInUseError
    from pgsluice.errors import LogNotFoundError as LogNotFoundError
    from pgsluice.errors import LogStateError as LogStateError
    from pgsluice.errors import MessageFailedError as MessageFailedError
    from pgsluice.errors import MissingExtraError as MissingExtraError
    from pgsluice.errors import MissingJavaError as MissingJavaError
    from pgsluice.errors import NotInstalledError as NotInstalledError
    from pgsluice.errors import PayloadError as PayloadError
    from pgsluice.errors import PositionLostError as PositionLostError
    from pgsluice.errors import PrivilegeError as PrivilegeError
    from pgsluice.errors import QueueNameError as QueueNameError
    from pgsluice.errors import QueueNotFoundError as QueueNotFoundError
    from pgsluice.errors import ReadOnlyError as ReadOnlyError
    from pgsluice.errors import ResultError as ResultError
    from pgsluice.errors import ResultNotKeptError as ResultNotKeptError
    from pgsluice.errors import ResultTimeoutError as ResultTimeoutError
    from pgsluice.errors import RetryableError as RetryableError
    from pgsluice.errors import ScheduleNotFoundError as ScheduleNotFoundError
    from pgsluice.errors import SchemaChangeError as SchemaChangeError
    from pgsluice.errors import SchemaError as SchemaError
    from pgsluice.errors import ServerError as ServerError
    from pgsluice.errors import ShardError as ShardError
    from pgsluice.errors import SluiceError as SluiceError
    from pgsluice.errors import StoreError as StoreError
    from pgsluice.errors import UnsupportedReaderError as UnsupportedReaderError
    from pgsluice.outcome import Done as Done
    from pgsluice.outcome import Outcome as Outcome
    from pgsluice.outcome import Reject as Reject
    from pgsluice.outcome import Release as Release
    from pgsluice.outcome import Retry as Retry
    from pgsluice.settings import Settings as Settings
    from pgsluice.shards import ShardPool as ShardPool
    from pgsluice.shards import Shards as Shards
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
    from pgsluice.worker import HandlerOptions as HandlerOptions
    from pgsluice.worker import Listener as Listener
    from pgsluice.worker import ListenerState as ListenerState
    from pgsluice.worker import Maintenance as Maintenance
    from pgsluice.worker import Mode as Mode
    from pgsluice.worker import Notifier as Notifier
    from pgsluice.worker import RetryPolicy as RetryPolicy
    from pgsluice.worker import Scheduler as Scheduler
    from pgsluice.worker import ScheduleSpec as ScheduleSpec
    from pgsluice.worker import SendManyOptions as SendManyOptions
    from pgsluice.worker import SendOptions as SendOptions
    from pgsluice.worker import Subscription as Subscription
    from pgsluice.worker import SyncContext as SyncContext
    from pgsluice.worker import Ticker as Ticker
    from pgsluice.worker import Worker as Worker
    from pgsluice.worker import WorkerOptions as WorkerOptions
else:
    __all__, _find, __dir__ = lazily(__name__)

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version

            return version(__name__)
        return _find(name)
