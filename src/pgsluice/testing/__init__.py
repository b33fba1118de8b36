"""Test helpers: run handlers, look at what was sent, and let time pass, in the test's own transaction if it has one.

`run_handler`, `run_batch`: one call of a handler, without a queue; `drain`: a worker until all queues are empty.
`sent`, `assert_sent`: messages that wait for a handler. `advance_time`: let delays and schedules become due.
Each `…_async` is the same in an event loop.

The pytest plugin has the fixtures `pgsluice_database`, `pgsluice_connection` and `pgsluice_async_connection`.
"""

from typing import TYPE_CHECKING

from pgsluice.lazily import lazily

if TYPE_CHECKING:
    from pgsluice.testing.running import MessageOptions as MessageOptions
    from pgsluice.testing.running import drain as drain
    from pgsluice.testing.running import drain_async as drain_async
    from pgsluice.testing.running import run_batch as run_batch
    from pgsluice.testing.running import run_batch_async as run_batch_async
    from pgsluice.testing.running import run_handler as run_handler
    from pgsluice.testing.running import run_handler_async as run_handler_async
    from pgsluice.testing.time_travel import advance_time as advance_time
    from pgsluice.testing.time_travel import advance_time_async as advance_time_async
    from pgsluice.testing.waiting_messages import SentFilter as SentFilter
    from pgsluice.testing.waiting_messages import SentMessage as SentMessage
    from pgsluice.testing.waiting_messages import assert_sent as assert_sent
    from pgsluice.testing.waiting_messages import assert_sent_async as assert_sent_async
    from pgsluice.testing.waiting_messages import sent as sent
    from pgsluice.testing.waiting_messages import sent_async as sent_async
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
