"""A process's worker: the handlers of an app, run until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from psycopg_pool import AsyncConnectionPool

from pgsluice.backoff import Backoff, Complaints
from pgsluice.connection import for_writing, resolve
from pgsluice.errors import ArgumentError
from pgsluice.settings import Settings
from pgsluice.worker.engine.connection_shares import Shares, shares
from pgsluice.worker.engine.connections import Connections, unhurried
from pgsluice.worker.engine.consumer_lane import ConsumerLane, make_consumer_lanes
from pgsluice.worker.engine.executor import Executor
from pgsluice.worker.engine.failure_log import FailureLog
from pgsluice.worker.engine.lane import IDLE_S, Lane
from pgsluice.worker.engine.settlement import Counts
from pgsluice.worker.engine.source import Source
from pgsluice.worker.engine.sources import Feed, make_feeds
from pgsluice.worker.engine.status import HandlerStatus, SourceStatus, WorkerStatus
from pgsluice.worker.engine.turns import Turns
from pgsluice.worker.forks import end_in_forks
from pgsluice.worker.handlers.handler import Execution, HandlerSpec, QueueRoute
from pgsluice.worker.handlers.middleware import Middleware
from pgsluice.worker.wakeups.listener import AsyncListener

_log = logging.getLogger(__name__)
_EMPTY_LOOK_S = 0.02
_EMPTY_POLL_S = 0.1
# A process is replaced when all threads of a handler hang for so long, or when one of them does.
_STALLED_S = 1.0
_HUNG_S = 60.0


class Application(Protocol):
    """What a worker needs of an app."""

    name: str
    dsn: str | None
    handlers: dict[str, HandlerSpec]
    middlewares: list[Middleware]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works, beside what each handler says.

    Attributes:
        concurrency: How many calls of handlers may run at once in the process, 1 or more; None: as many as each
            handler allows. When it is reached, handlers take turns by their weights.
        prefetch: How many messages each handler may claim beyond those that run, 0 or more. More keeps fast handlers
            busy; of slow ones it keeps messages from other workers. None: as many as it starts in a tenth of a second.
        lease_s: How long a claim lasts without a heartbeat, for all handlers, more than 1 second; None: as each says.
        max_memory_mb: As much address space as a process for handlers may use; None: no limit.
        max_connections: The most connections of the process for claims, handlers and its listener; None:
            `PGSLUICE_MAX_CONNECTIONS`, else 30.
        grace_s: How long a worker whose threads hang lets other handlers finish, before it ends to be replaced; 0 or
            more seconds.
    """

    concurrency: int | None = None
    prefetch: int | None = None
    lease_s: float | None = None
    max_memory_mb: int | None = None
    max_connections: int | None = None
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what could not be followed."""
        if self.concurrency is not None and self.concurrency < 1:
            raise ArgumentError(f"concurrency is {self.concurrency}; use 1 or more")
        if self.prefetch is not None and self.prefetch < 0:
            raise ArgumentError(f"prefetch is {self.prefetch}; use 0 or more")
        if self.lease_s is not None and not self.lease_s > 1:
            raise ArgumentError(f"lease_s is {self.lease_s}; use more than 1 second")
        if self.max_memory_mb is not None and self.max_memory_mb < 1:
            raise ArgumentError(f"max_memory_mb is {self.max_memory_mb}; use 1 or more")
        if not self.grace_s >= 0:
            raise ArgumentError(f"grace_s is {self.grace_s}; use 0 or more seconds")
        if self.max_connections is not None and self.max_connections < 1:
            raise ArgumentError(f"max_connections is {self.max_connections}; use 1 or more")

    def shares(self, specs: Iterable[HandlerSpec], *, has_pool: bool = False) -> Shares:
        """Divide the connections of a process that runs these handlers.

        Args:
            specs: The handlers.
            has_pool: Whether `async def` handlers use a pool of the caller's.

        Raises:
            ArgumentError: The handlers need more.
        """
        most = self.max_connections
        return shares(
            specs,
            max_connections=Settings.load().max_connections if most is None else most,
            concurrency=self.concurrency,
            has_pool=has_pool,
        )


class Worker:
    """Run the handlers of an app in this process.

    It claims messages, runs their handlers, keeps their claims meanwhile, and says what became of them; a lost
    connection is waited out and never ends it. It installs no signal handlers, and is stopped by `stop`.
    """

    def __init__(
        self,
        app: Application,
        *,
        handlers: Iterable[str] | None = None,
        queues: Iterable[str] | None = None,
        options: WorkerOptions | None = None,
        conninfo: str | None = None,
        pool: AsyncConnectionPool[Any] | None = None,
        connection_options: Mapping[str, Any] | None = None,
        make_feeds: Callable[..., Sequence[Feed]] | None = None,
        ends_when_hung: bool = True,
    ) -> None:
        """Prepare a worker; nothing is connected yet.

        Args:
            app: Whose handlers.
            handlers: Only those of these names; None: all.
            queues: Only those of these queues; None: all, also those of logs.
            options: How it works.
            conninfo: Where to connect; None: where the pool does, else as the app says.
            pool: Gives `async def` handlers their connections; it stays open. None: a pool of the worker's own. The
                worker itself uses others, so that handlers never keep it waiting.
            connection_options: For each connection, as `psycopg.connect` takes them.
            make_feeds: What makes the sources; for tests without a server.
            ends_when_hung: Stop when threads hang, as the process is then to be replaced. False where the process is
                not the worker's: it goes on without these threads, and its status tells.

        Raises:
            ArgumentError: The app has no such handler, or none for such a queue, or none at all; or the handlers need
                more connections than `max_connections`.
            ConfigurationError: `PGSLUICE_MAX_CONNECTIONS` is no whole number.
        """
        self._app = app
        self._options = options or WorkerOptions()
        self._specs = _chosen(app, handlers, queues, self._options)
        self._shares = self._options.shares(self._specs, has_pool=pool is not None)
        self._conninfo = conninfo
        self._pool = pool
        self._connection_options = dict(connection_options or {})
        self._make_feeds = make_feeds
        self._ends_when_hung = ends_when_hung
        self._complaints = Complaints(_log)
        self._failures = FailureLog()
        self._state = "starting"
        self._lanes: list[Lane | ConsumerLane] = []
        self._sources: list[Source] = []
        self._listener: AsyncListener | None = None
        self._executor: Executor | None = None
        self._stopping: asyncio.Event | None = None
        self._is_stopped = self._is_stopped_now = False
        self._wants_replacement = False
        self._idle_s: float | None = None

    # How it fares ----------------------------------------------------------------------------------------------------

    def status(self) -> WorkerStatus:
        """How it fares now. From any thread."""
        handlers: list[HandlerStatus] = []
        sources: list[SourceStatus] = []
        for lane in self._lanes:
            source, of_lane = lane.status()
            sources.append(source)
            handlers += of_lane
        begun = {handler.name for handler in handlers}
        handlers += [
            HandlerStatus(spec.name, 0, 0, Counts(), None)
            for spec in self._specs
            if spec.name not in begun
        ]
        return WorkerStatus(
            state=self._state,
            handlers=tuple(handlers),
            sources=tuple(sources),
            listener=None if self._listener is None else str(self._listener.state),
            hung_threads=0 if self._executor is None else self._executor.threads.hung,
            wants_replacement=self._wants_replacement,
        )

    def counts(self) -> dict[str, Counts]:
        """What became of the messages of each handler since the start."""
        return {handler.name: handler.counts for handler in self.status().handlers}

    # Its life --------------------------------------------------------------------------------------------------------

    def stop(self, *, now: bool = False) -> None:
        """Let it end: claim no more, give back what was not started, uncounted, and let end what runs.

        To be called from its own event loop.

        Args:
            now: Also cancel what runs, and give it back: an `async def` is cancelled, a process is killed. A thread
                goes on; its message comes again when its claim is over.
        """
        self._is_stopped = True
        self._is_stopped_now = self._is_stopped_now or now
        if self._state == "running":
            self._state = "stopping"
        if self._stopping is not None:
            self._stopping.set()
        for lane in self._lanes:
            lane.stop(now=now)

    async def run(self) -> None:
        """Work until `stop`. Once: a worker is not started again.

        Cancelled, it stops at once.

        Raises:
            SluiceError: A queue or log cannot be used, which waiting does not mend; nothing was claimed.
        """
        if self._stopping is not None:
            raise ArgumentError("this worker ran already; make a new one")
        end_in_forks(asyncio.get_running_loop())
        self._stopping = asyncio.Event()
        if self._is_stopped:
            self._stopping.set()
        try:
            async with contextlib.AsyncExitStack() as stack:
                await self._open(stack)
                if not self._stopping.is_set():
                    self._state = "running"
                    await self._work()
        finally:
            self._failures.flush()
            self._state = "stopped"

    async def run_until_empty(self, *, idle_s: float = 0.5) -> dict[str, Counts]:
        """Work until there is nothing left to do, or until `stop`; what became of the messages of each handler.

        Messages that are due later are not waited for.

        Args:
            idle_s: For how long there must have been nothing, seconds, 0 or more.

        Raises:
            SluiceError: As for `run`.
        """
        self._idle_s = idle_s
        await self.run()
        return self.counts()

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        connections = await self._connect(stack)
        if self._make_feeds is None:
            await self._prepare("connections", connections.look_for_pooler)
        executor = self._executor = Executor(
            connections,
            self._app.middlewares,
            max_memory_mb=self._options.max_memory_mb,
            on_hung=self._on_hung,
        )
        stack.push_async_callback(executor.close)
        for spec in self._specs:
            await executor.prepare(spec)
        worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"
        make = self._make_feeds or make_feeds
        feeds = make(self._specs, connections.engine, self._listener, worker_id)
        turns = Turns(self._options.concurrency)
        idle_s = IDLE_S if self._idle_s is None else _EMPTY_POLL_S
        for feed in feeds:
            stack.push_async_callback(feed.source.close)
            await self._prepare(feed.source.name, feed.source.prepare)
            self._lanes.append(
                Lane(
                    feed.source,
                    feed.specs,
                    feed.spec_of,
                    executor,
                    turns,
                    self._complaints,
                    self._failures,
                    prefetch=self._options.prefetch,
                    idle_s=idle_s,
                )
            )
        for lane in make_consumer_lanes(
            self._specs,
            connections.consumers,
            executor,
            self._listener,
            self._complaints,
            self._failures,
            idle_s=idle_s,
        ):
            stack.push_async_callback(lane.close)
            await self._prepare(lane.name, lane.prepare)
            self._lanes.append(lane)

    async def _connect(self, stack: contextlib.AsyncExitStack) -> Connections:
        conninfo: str | None = self._conninfo
        options = dict(self._connection_options)
        if self._pool is not None:
            conninfo = conninfo or await _given(self._pool.conninfo)
            options = {**(await _given(self._pool.kwargs) or {}), **options}
            options.pop("autocommit", None)
        if self._make_feeds is not None and conninfo is None:
            conninfo = ""
        if conninfo is None:
            # It may start the embedded server.
            conninfo = for_writing(await asyncio.to_thread(resolve, self._app.dsn)).conninfo
        options.setdefault("application_name", f"pgsluice {self._app.name}")
        connections = Connections(
            conninfo,
            engine_size=self._shares.engine,
            handlers_size=max(1, self._shares.loop),
            threads_size=max(1, self._shares.threads),
            consumers_size=max(1, self._shares.consumers),
            handlers=self._pool,
            options=options,
        )
        stack.push_async_callback(connections.close)
        await connections.open()
        if self._make_feeds is None:
            self._listener = await stack.enter_async_context(AsyncListener(conninfo))
        return connections

    async def _prepare(self, name: str, prepare: Callable[[], Awaitable[None]]) -> None:
        """Let a source make itself ready, when the server is there."""
        assert self._stopping is not None  # noqa: S101 - made by `run`
        backoff = Backoff(name, self._complaints.say)
        while not self._stopping.is_set():
            async with backoff.async_attempt(self._stopping, doing="prepare"):
                with unhurried():
                    await prepare()
                return

    async def _work(self) -> None:
        tasks = [asyncio.create_task(lane.run()) for lane in self._lanes]
        if self._idle_s is not None:
            looking = asyncio.create_task(self._stop_when_empty(self._idle_s))
        try:
            if not tasks and self._stopping is not None:
                await self._stopping.wait()
                return
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            if any(not task.done() for task in tasks):  # one broke, which none should
                self.stop()
                await asyncio.wait(tasks)
        except asyncio.CancelledError:
            self.stop(now=True)
            await asyncio.wait(tasks)
            raise
        finally:
            if self._idle_s is not None:
                looking.cancel()
        for task in tasks:
            task.result()

    async def _stop_when_empty(self, idle_s: float) -> None:
        while True:
            await asyncio.sleep(_EMPTY_LOOK_S)
            # Each has looked and found nothing after the last message of any of them ended, which may have sent more.
            since_s = max(lane.active_s for lane in self._lanes) + idle_s
            threads = self._executor.threads if self._executor is not None else None
            if threads is not None and 0 < threads.hung_s < _STALLED_S:
                continue
            if all(
                not lane.is_holding and lane.empty_s is not None and lane.empty_s > since_s
                for lane in self._lanes
            ):
                # The messages of threads that hang are left to the next process.
                self._wants_replacement |= threads is not None and threads.hung > 0
                self.stop()
                return

    def _on_hung(self) -> None:
        assert self._executor is not None  # noqa: S101 - it calls
        threads = sum(
            spec.limits.concurrency for spec in self._specs if spec.execution is Execution.THREAD
        )
        self._complaints.say(
            logging.WARNING,
            "a handler runs longer than it may, and a thread cannot be stopped: %d of %d threads hang",
            *(self._executor.threads.hung, min(threads, self._options.concurrency or threads)),
        )
        for lane in self._lanes:
            lane.look()
        loop = asyncio.get_running_loop()
        loop.call_later(_STALLED_S, self._look_at_hung)
        loop.call_later(_HUNG_S, self._look_at_hung)

    def _look_at_hung(self) -> None:
        """Replace this process if its threads hang for so long that messages wait for it."""
        if self._is_stopped:
            return
        why = self._why_replace()
        if why is not None and self._ends_when_hung:
            self._replace(why)
            return
        if why is not None and not self._wants_replacement:
            _log.error("%s: restart the process, as a thread cannot be stopped", why)
        self._wants_replacement = why is not None
        if why is not None:  # until it returns
            asyncio.get_running_loop().call_later(_STALLED_S, self._look_at_hung)

    def _why_replace(self) -> str | None:
        assert self._executor is not None  # noqa: S101 - as above
        stalled = [name for lane in self._lanes for name in lane.stalled]
        hung, hung_s = self._executor.threads.hung, self._executor.threads.hung_s
        if stalled:
            return f"all threads of handler {stalled[0]} hang"
        if self._options.concurrency is not None and hung >= self._options.concurrency:
            return "as many threads hang as may run at once"
        if hung_s >= _HUNG_S - _STALLED_S:
            return f"a thread has hung for {hung_s:.0f} s"
        return None

    def _replace(self, why: str) -> None:
        """Let this process end, so that another one takes its place: the others finish, but not for ever."""
        _log.error("%s: this process ends within %g s, to be replaced", why, self._options.grace_s)
        self._wants_replacement = True
        self.stop()
        loop = asyncio.get_running_loop()
        loop.call_later(self._options.grace_s, lambda: self.stop(now=True))


def _chosen(
    app: Application,
    handlers: Iterable[str] | None,
    queues: Iterable[str] | None,
    options: WorkerOptions,
) -> list[HandlerSpec]:
    names = None if handlers is None else set(handlers)
    queue_names = None if queues is None else {name.lower() for name in queues}
    unknown = sorted((names or set()) - set(app.handlers))
    if unknown:
        raise ArgumentError(
            f"app {app.name!r} has no handler {unknown[0]!r}; it has {', '.join(sorted(app.handlers)) or 'none'}"
        )
    specs = [
        spec
        for spec in app.handlers.values()
        if (names is None or spec.name in names)
        and (queue_names is None or _queue_of(spec) in queue_names)
    ]
    missing = sorted((queue_names or set()) - {_queue_of(spec) for spec in specs})
    if missing:
        raise ArgumentError(f"app {app.name!r} has no handler for queue {missing[0]!r}")
    if not specs:
        raise ArgumentError(
            f"app {app.name!r} has no handlers; decorate functions with its handler()"
        )
    if options.lease_s is not None:
        specs = [replace(spec, lease_s=options.lease_s) for spec in specs]
    return specs


def _queue_of(spec: HandlerSpec) -> str:
    return spec.route.queue_name.lower() if isinstance(spec.route, QueueRoute) else ""


async def _given(value: Any) -> Any:
    """What a pool was given: a value, or a function that makes one."""
    made = value() if callable(value) else value
    return await made if inspect.isawaitable(made) else made
