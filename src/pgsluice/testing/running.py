"""Test handlers: with a single message and no server, or with all messages of a database."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack, cast

from psycopg import AsyncConnection, Connection

from pgsluice.client import AsyncEventLog
from pgsluice.client.calls import Call
from pgsluice.client.calls.arguments import require_options
from pgsluice.client.calls.call import no_change
from pgsluice.client.sources import AsyncConnectable, Connectable
from pgsluice.connection import resolve
from pgsluice.errors import ArgumentError, RetryableError
from pgsluice.frameworks import AsyncScope, Scope, adapter_of, async_adapter_of
from pgsluice.sessions import AsyncSluiceConnection
from pgsluice.worker.app.app import App
from pgsluice.worker.app.startup import store_schedules
from pgsluice.worker.engine.claim.row_locks import LockWaits
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.connections._async.scope import AsyncConnectionScope
from pgsluice.worker.engine.connections._sync.scope import ConnectionScope
from pgsluice.worker.engine.connections.connections import Connections
from pgsluice.worker.engine.delivery import Counts, Delivery, Result, Settlement
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.engine.run.executor import Executor
from pgsluice.worker.handlers.handler import HandlerSpec, QueueRoute
from pgsluice.worker.handlers.middleware import ThreadCall
from pgsluice.worker.handlers.sendable import Handler
from pgsluice.worker.wakeups import listener
from pgsluice.worker.wakeups.listener_state import ListenerState

_SOURCE_NAME = "a test"
_TICK_S = 0.05


class MessageOptions(TypedDict, total=False):
    """The message of `run_handler`.

    Attributes:
        stored: Take the payload as stored in the database: the JSON value in a queue, the text in a log. Default: as
            passed to `send`.
        attempt: The number of the attempt, 1 or more. Default: 1.
        headers: `context.headers`.
        key: `context.key`.
        message_id: `context.message_id`. Default: 1.
        connection: Connection for `context.transaction()`; nothing is acknowledged in it. For transactions of
            SQLAlchemy or Django, the test's session or `django.db.connection`: the handler's writes are a savepoint of
            it. Default: none, for handlers without a transaction.
        lost: Simulate an expired lease, detected by a heartbeat or at the end of the handler's transaction.
    """

    stored: bool
    attempt: int
    headers: dict[str, Any] | None
    key: str | None
    message_id: int
    connection: Connectable | AsyncConnectable | None
    lost: bool


def run_handler(
    handler: Handler[Any, ..., Any],
    payload: Any,
    **options: Unpack[MessageOptions],
) -> Settlement:
    """Run a handler for one message as a worker does: with JSON conversion, middleware, timeout and execution mode.

    Args:
        handler: Made by `App.handler`.
        payload: As passed to `send`.
        **options: See `MessageOptions`.

    Returns:
        Its outcome and, if it failed, the error. The result is `done` if its own transaction acknowledged the message,
        `lost` if the lease had expired, else None.

    Raises:
        PayloadError: The payload could not be sent.
        ArgumentError: An event loop is running: await `run_handler_async`. Or the handler is for batches, or an option
            is unknown, or `connection` is not of the kind that the handler's transaction needs.
    """
    _require_no_loop("run_handler_async")
    # Before the event loop, in which a connection of Django would be another one.
    given = _Given(options.get("connection"), "run_handler")
    return asyncio.run(_run_handler(handler, payload, given, options))


async def run_handler_async(
    handler: Handler[Any, ..., Any],
    payload: Any,
    **options: Unpack[MessageOptions],
) -> Settlement:
    """Like `run_handler`, in an event loop."""
    return await _run_handler(
        handler, payload, _Given(options.get("connection"), "run_handler"), options
    )


async def _run_handler(
    handler: Handler[Any, ..., Any], payload: Any, given: _Given, options: MessageOptions
) -> Settlement:
    spec = _spec_of(handler)
    if spec.batch is not None:
        raise ArgumentError(f"handler {spec.name!r} is a batch handler; use run_batch")
    require_options(options, MessageOptions.__annotations__, "run_handler")
    delivery = _delivery(
        payload if options.get("stored") else handler.encode(payload),
        options.get("message_id", 1),
        options.get("attempt", 1),
        options.get("headers"),
        options.get("key"),
    )
    source = _NoSource(lost=options.get("lost", False))
    async with _executor(handler, given) as executor:
        context = executor.context(spec, delivery, cast("Source", source))
        settlement = await executor.handle(spec, context)
    given.require_accepted()
    return settlement


def run_batch(
    handler: Handler[Any, ..., Any],
    payloads: Sequence[Any],
    *,
    stored: bool = False,
    attempt: int = 1,
    connection: Connectable | AsyncConnectable | None = None,
) -> list[Settlement]:
    """Run a batch handler for some messages; return their settlements in order.

    Args:
        handler: Made by `App.handler`.
        payloads: One or more, as passed to `send`; their message ids are 1, 2, 3 and so on.
        stored: As in `MessageOptions`, like the rest.

    Raises:
        PayloadError: As for `run_handler`.
        ArgumentError: An event loop is running: await `run_batch_async`. Or the handler is not for batches, or
            `connection` is not of the kind that its transaction needs.
    """
    _require_no_loop("run_batch_async")
    given = _Given(connection, "run_batch")  # as in run_handler
    return asyncio.run(_run_batch(handler, payloads, given, stored=stored, attempt=attempt))


async def run_batch_async(
    handler: Handler[Any, ..., Any],
    payloads: Sequence[Any],
    *,
    stored: bool = False,
    attempt: int = 1,
    connection: Connectable | AsyncConnectable | None = None,
) -> list[Settlement]:
    """Like `run_batch`, in an event loop."""
    given = _Given(connection, "run_batch")
    return await _run_batch(handler, payloads, given, stored=stored, attempt=attempt)


async def _run_batch(
    handler: Handler[Any, ..., Any],
    payloads: Sequence[Any],
    given: _Given,
    *,
    stored: bool,
    attempt: int,
) -> list[Settlement]:
    spec = _spec_of(handler)
    if spec.batch is None:
        raise ArgumentError(f"handler {spec.name!r} is not a batch handler; use run_handler")
    deliveries = [
        _delivery(payload if stored else handler.encode(payload), message_id, attempt, None, None)
        for message_id, payload in zip(itertools.count(1), payloads, strict=False)
    ]
    source = cast("Source", _NoSource())
    async with _executor(handler, given) as executor:
        contexts = [executor.context(spec, delivery, source) for delivery in deliveries]
        settlements = await executor.handle_batch(spec, contexts)
    given.require_accepted()
    return settlements


def drain(
    app: App,
    *,
    handlers: Iterable[str] | None = None,
    queues: Iterable[str] | None = None,
    dsn: str | None = None,
    idle_s: float = 0.2,
) -> dict[str, Counts]:
    """Run the handlers of an app in a worker until their sources are empty.

    First stores the schedules that the app declares, as a worker does at its start. Logs are ticked meanwhile. Delayed
    messages, such as those to be retried, and slots of schedules are not waited for: see `advance_time`.

    Args:
        app: The app.
        handlers: Names of handlers to run; None: all.
        queues: Queues whose handlers to run; None: all handlers, including those of logs.
        dsn: Connection string, also used by the app to send meanwhile; None: the app's.
        idle_s: Idle seconds before exit.

    Returns:
        Message counts by result, by name of the handler, which is that of its function, not of its queue.

    Raises:
        ArgumentError: An event loop is running: await `drain_async`. Or the app has no such handler.
        SluiceError: A queue or log, also of a schedule, cannot be used; the message gives the reason.
    """
    _require_no_loop("drain_async")
    return asyncio.run(drain_async(app, handlers=handlers, queues=queues, dsn=dsn, idle_s=idle_s))


async def drain_async(
    app: App,
    *,
    handlers: Iterable[str] | None = None,
    queues: Iterable[str] | None = None,
    dsn: str | None = None,
    idle_s: float = 0.2,
) -> dict[str, Counts]:
    """Like `drain`, in an event loop."""
    before, app.dsn = app.dsn, app.dsn if dsn is None else dsn
    try:
        return await _drain(app, handlers, queues, idle_s)
    finally:
        app.dsn = before


async def _drain(
    app: App, handlers: Iterable[str] | None, queues: Iterable[str] | None, idle_s: float
) -> dict[str, Counts]:
    target = await asyncio.to_thread(resolve, app.dsn)
    await store_schedules(app, target)
    worker = Worker(app, handlers=handlers, queues=queues, conninfo=target.conninfo)
    logs = {
        spec.route.log_name
        for spec in app.handlers.values()
        if not isinstance(spec.route, QueueRoute)
    }
    ticking = asyncio.create_task(_tick(target.conninfo, sorted(logs)))
    try:
        with _no_advice_on_maintenance():
            return await worker.run_until_empty(idle_s=idle_s)
    finally:
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking


@contextlib.contextmanager
def _no_advice_on_maintenance() -> Iterator[None]:
    """Drop the listener's warning that no maintenance runs, which tests do not need."""

    def is_other(record: logging.LogRecord) -> bool:
        state = record.args[0] if isinstance(record.args, tuple) and record.args else None
        return state not in (ListenerState.NO_NOTIFIER, ListenerState.NO_TICKER)

    log = logging.getLogger(listener.__name__)
    log.addFilter(is_other)
    try:
        yield
    finally:
        log.removeFilter(is_other)


async def _tick(conninfo: str, log_names: Sequence[str]) -> None:
    if not log_names:
        return
    async with await AsyncSluiceConnection.connect(conninfo, autocommit=True) as connection:
        while True:
            for log_name in log_names:
                with contextlib.suppress(RetryableError):  # retried in the next round
                    await AsyncEventLog(connection).log_tick(log_name)
            await asyncio.sleep(_TICK_S)


def _spec_of(handler: Any) -> HandlerSpec:
    if not isinstance(handler, Handler):
        raise ArgumentError(f"{handler!r} is not a handler; decorate it with app.handler()")
    return handler.spec


def _require_no_loop(instead: str) -> None:
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise ArgumentError(f"an event loop is already running; await {instead}()")


def _delivery(
    payload: Any, message_id: int, attempt: int, headers: dict[str, Any] | None, key: str | None
) -> Delivery:
    return Delivery(
        source_name=_SOURCE_NAME,
        message_id=message_id,
        fence=attempt,
        attempt=attempt,
        payload=payload,
        headers=headers or {},
        sent_at=datetime.now(UTC),
        key=key,
        raw=None,
        lease_end_s=time.monotonic() + 3600,
    )


@contextlib.asynccontextmanager
async def _executor(handler: Handler[Any, ..., Any], given: _Given) -> AsyncIterator[Executor]:
    executor = Executor(cast("Connections", given), [given.share, *handler.middlewares])
    await executor.prepare(handler.spec)
    try:
        yield executor
    finally:
        await executor.close()


class _NoSource:
    """Stub of a queue or group."""

    name = _SOURCE_NAME

    def __init__(self, *, lost: bool = False) -> None:
        self._lost = lost
        self.lock_waits = LockWaits(1)

    async def extend(
        self, deliveries: Sequence[Delivery], _lease_s: float, **_options: Any
    ) -> list[Delivery]:
        return list(deliveries) if self._lost else []

    def acknowledgement(self, _delivery: Delivery) -> Call[Result]:
        return no_change("lost" if self._lost else "done")

    def storing(self, _delivery: Delivery, _returned: str) -> Call[None] | None:
        return None


class _Given:
    """Lends the connection that the test passed, and leaves it open."""

    def __init__(
        self, connection: Connectable | AsyncConnectable | None, function_name: str
    ) -> None:
        self._connection = connection
        self._function_name = function_name
        self._refusal: ArgumentError | None = None
        adapter = adapter_of(connection)
        self._sharing = contextlib.nullcontext if adapter is None else adapter.sharing(connection)

    def require_accepted(self) -> None:
        """Raise the error of a test that passed the wrong connection: it is no failure of the handler."""
        if self._refusal is not None:
            raise self._refusal

    @contextlib.asynccontextmanager
    async def lend(self, on: Any = None) -> AsyncIterator[AsyncScope]:
        with self._noting_refusal():
            scope = await self._async_scope(on)
        yield scope

    @contextlib.contextmanager
    def lend_sync(self, on: Any = None) -> Iterator[Scope]:
        with self._noting_refusal():
            scope = self._scope(on)
        yield scope

    def share(self, call: ThreadCall, payload: Any, context: Any) -> Any:
        """Middleware that lets the handler's thread use the test's connection."""
        with self._sharing():
            return call(payload, context)

    async def _async_scope(self, on: Any) -> AsyncScope:
        if isinstance(self._connection, AsyncConnection) and on is None:
            return AsyncConnectionScope(self._connection)
        if (adapter := async_adapter_of(self._connection)) is None:
            raise self._unsuitable("an `async def` handler", "Async", on, "_async")
        if on is None:
            return AsyncConnectionScope(await adapter.connection(self._connection))
        return await adapter.join(self._connection)

    def _scope(self, on: Any) -> Scope:
        if isinstance(self._connection, Connection) and on is None:
            return ConnectionScope(self._connection)
        if (adapter := adapter_of(self._connection)) is None:
            raise self._unsuitable("a `def` handler", "", on, "")
        if on is None:
            return ConnectionScope(adapter.connection(self._connection))
        return adapter.join(self._connection)

    @contextlib.contextmanager
    def _noting_refusal(self) -> Iterator[None]:
        try:
            yield
        except ArgumentError as error:
            self._refusal = error
            raise

    def _unsuitable(self, who: str, kind: str, on: Any, suffix: str) -> ArgumentError:
        article = "an" if kind else "a"
        if on is None:
            needed = f"{article} {kind}Connection"
        elif type(on).__module__.startswith("django."):
            needed = "django.db.connection"
        else:
            needed = f"{article} {kind}Session"
        if self._connection is None:
            given = "no connection"
        elif isinstance(self._connection, Connection):
            given = "a psycopg Connection"
        elif isinstance(self._connection, AsyncConnection):
            given = "a psycopg AsyncConnection"
        else:
            given = f"an object of type {type(self._connection).__name__}"
        call = "context.transaction()" if on is None else "context.transaction(Session)"
        return ArgumentError(
            f"{who} with {call} needs {needed}, got {given}; pass {needed} to "
            f"{self._function_name}{suffix} with connection="
        )
