"""Run the handlers of an app in a process until stopped."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from psycopg_pool import AsyncConnectionPool

from pgsluice.backoff import Backoff, Complaints
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import retries, settings
from pgsluice.connection import for_writing, resolve
from pgsluice.errors import ArgumentError, SluiceError
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.claim.sources import Feed, make_feeds
from pgsluice.worker.engine.connections.connections import Connections
from pgsluice.worker.engine.connections.pools import given
from pgsluice.worker.engine.connections.sessions import unhurried
from pgsluice.worker.engine.delivery import Counts
from pgsluice.worker.engine.flow.consumer_lane import ConsumerLane, make_consumer_lanes
from pgsluice.worker.engine.flow.fair_share import FairShare
from pgsluice.worker.engine.flow.lane import Lane
from pgsluice.worker.engine.flow.options import Application, WorkerOptions
from pgsluice.worker.engine.flow.registration import identity, registered
from pgsluice.worker.engine.flow.shared import IDLE_S, Peers, Shared
from pgsluice.worker.engine.flow.status import HandlerStatus, SourceStatus, WorkerStatus
from pgsluice.worker.engine.run.executor import Executor
from pgsluice.worker.engine.run.traced import WorkerTracing
from pgsluice.worker.engine.settle.failure_log import FailureLog
from pgsluice.worker.forks import end_in_forks
from pgsluice.worker.handlers.choosing import choose
from pgsluice.worker.handlers.handler import Execution, QueueRoute
from pgsluice.worker.wakeups.listener import AsyncListener

_log = logging.getLogger(__name__)
_EMPTY_LOOK_S = 0.02
_EMPTY_POLL_S = 0.1
# A process is replaced when all threads of a handler hang this long, or any thread hangs _HUNG_S.
_STALLED_S = 1.0
_HUNG_S = 60.0


class Worker:
    """Run the handlers of an app in this process.

    It claims messages, runs their handlers, renews their leases and settles them; it reconnects after a lost
    connection. It installs no signal handlers, and is stopped by `stop`.
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
        peers: Peers | None = None,
    ) -> None:
        """Prepare a worker without connecting.

        Args:
            app: The app.
            handlers: Names of handlers to run; None: all.
            queues: Work queues and logs whose handlers to run; None: all.
            options: Process-wide options.
            conninfo: Connection string; None: that of the pool, else of the app.
            pool: Connection pool for `async def` handlers; it is not closed. None: a pool of the worker's own. The
                worker's own calls use other connections, so that handlers never block them.
            connection_options: Options of each connection, as for `psycopg.connect`.
            make_feeds: Makes the sources; for tests without a server.
            ends_when_hung: Stop when threads hang, so that the process is replaced. False if the process is not the
                worker's: it continues without these threads, and reports them in its status.
            peers: Parts shared with the workers of other databases; None: this is the only worker.

        Raises:
            ArgumentError: The handlers need more connections than `max_connections`.
            ConfigurationError: The app has no such handler, or no handler for a queue or log; a consumer's handlers
                are chosen in part; or `PGSLUICE_MAX_CONNECTIONS` is invalid.
        """
        self._app = app
        self._options = options or WorkerOptions()
        self._specs = list(choose(app, handlers, queues).values())
        if (lease_s := self._options.lease_s) is not None:
            self._specs = [replace(spec, lease_s=lease_s) for spec in self._specs]
        self._shares = self._options.shares(self._specs, has_pool=pool is not None)
        self._conninfo = conninfo
        self._pool = pool
        self._connection_options = dict(connection_options or {})
        self._make_feeds = make_feeds
        self._ends_when_hung = ends_when_hung
        self._peers = peers
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
        self._retrying = 0
        self._pending: Callable[[], Awaitable[int]] | None = None

    # Status ----------------------------------------------------------------------------------------------------------

    def status(self) -> WorkerStatus:
        """Return the current status. Thread-safe."""
        handlers: list[HandlerStatus] = []
        sources: list[SourceStatus] = []
        for lane in self._lanes:
            source, of_lane = lane.status()
            sources.append(source)
            handlers += of_lane
        begun = {handler.name for handler in handlers}
        rest = (spec.name for spec in self._specs if spec.name not in begun)
        handlers += [HandlerStatus(name, 0, 0, Counts(), None) for name in rest]
        if self._executor is not None:
            handlers = [_with_calls(each, self._executor) for each in handlers]
        return WorkerStatus(
            state=self._state,
            handlers=tuple(handlers),
            sources=tuple(sources),
            listener=None if self._listener is None else str(self._listener.state),
            hung_threads=0 if self._executor is None else self._executor.threads.hung,
            wants_replacement=self._wants_replacement,
            retrying=self._retrying,
        )

    def counts(self) -> dict[str, Counts]:
        """Return settled messages by result since start, per handler."""
        return {handler.name: handler.counts for handler in self.status().handlers}

    @property
    def lanes(self) -> Sequence[Lane | ConsumerLane]:
        """Its lanes: one for each source."""
        return self._lanes

    @property
    def is_starting(self) -> bool:
        """True until it claims."""
        return self._state == "starting"

    @property
    def is_up(self) -> bool:
        """True if it works and reaches all its sources."""
        is_running = self._state in ("running", "stopping")
        return is_running and all(lane.status()[0].is_reachable for lane in self._lanes)

    # Lifecycle -------------------------------------------------------------------------------------------------------

    def stop(self, *, now: bool = False) -> None:
        """Request a graceful shutdown: stop claiming, release unstarted messages uncounted, drain running ones.

        Must be called from the worker's event loop.

        Args:
            now: Also cancel running messages and release them: an `async def` is cancelled, a process is killed. A
                thread continues; its message is redelivered after lease expiry.
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
        """Work until `stop`. A worker runs only once.

        If cancelled, it stops as by `stop(now=True)`.

        Raises:
            SluiceError: A permanent error, such as a queue or log that cannot be used; nothing was claimed.
        """
        if self._stopping is not None:
            raise ArgumentError("this worker has already run; create a new one")
        end_in_forks(asyncio.get_running_loop())
        self._stopping = asyncio.Event()
        self._tracing = WorkerTracing(is_enabled=self._app.tracing)
        if self._is_stopped:
            self._stopping.set()
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(self._tracing.quiet())
                await self._open(stack)
                if not self._stopping.is_set():
                    self._state = "running"
                    await self._work()
                    if self._idle_s is not None and self._pending is not None:
                        self._retrying = await self._pending()
        finally:
            self._failures.flush()
            self._state = "stopped"

    async def run_until_empty(self, *, idle_s: float = 0.5) -> dict[str, Counts]:
        """Work until the sources are empty, or until `stop`; return the counts of each handler.

        Delayed messages and retries are not waited for; `status().retrying` has the number of messages that wait for a
        retry.

        Args:
            idle_s: Idle seconds before exit, 0 or more.

        Raises:
            SluiceError: As for `run`.
        """
        self._idle_s = idle_s
        await self.run()
        return self.counts()

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        connections = await self._connect(stack)
        if self._make_feeds is None:
            await self._prepare("connections", connections.detect_pooler)
        executor = self._executor = self._tracing.executor(
            connections,
            self._app.middlewares,
            max_memory_mb=self._options.max_memory_mb,
            processes=None if self._peers is None else self._peers.processes,
            on_hung=self._on_hung,
        )
        stack.push_async_callback(executor.close)
        for spec in self._specs:
            await executor.prepare(spec)
        worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(2)}"
        app = (self._app.name, self._app.handlers.values())
        make = self._make_feeds or functools.partial(make_feeds, app=app)
        feeds = make(self._specs, connections.engine, self._listener, worker_id)
        shared = Shared(
            executor,
            FairShare(self._options.concurrency) if self._peers is None else self._peers.turns,
            self._complaints,
            self._failures,
            prefetch=self._options.prefetch,
            idle_s=IDLE_S if self._idle_s is None else _EMPTY_POLL_S,
        )
        for feed in self._tracing.feeds(feeds):
            stack.push_async_callback(feed.source.close)
            await self._prepare(feed.source.name, feed.source.prepare)
            lane = Lane(feed, shared)
            stack.callback(lane.leave)
            self._lanes.append(lane)
        for consumer in make_consumer_lanes(
            self._specs, connections.consumers, self._listener, shared
        ):
            stack.push_async_callback(consumer.close)
            await self._prepare(consumer.name, consumer.prepare)
            self._lanes.append(consumer)
        if self._make_feeds is None:
            routes = (spec.route for spec in self._specs)
            queues = sorted(
                {each.queue_name.lower() for each in routes if isinstance(each, QueueRoute)}
            )
            self._pending = lambda: _count_retrying(connections.engine, queues)
            me = identity(worker_id, self._app.name, self._specs, self._options.concurrency)
            calls = lambda: [call for lane in self._lanes for call in lane.running_calls()]  # noqa: E731
            pid = lambda: None if self._listener is None else self._listener.backend_pid  # noqa: E731
            requested = None if self._listener is None else self._listener.report_requested
            times = lambda: [  # noqa: E731
                (spec, executor.times[spec.name].recent(time.monotonic()))
                for spec in self._specs
                if spec.name in executor.times
            ]
            await stack.enter_async_context(
                registered(
                    connections.engine,
                    me,
                    calls,
                    lambda: self.status().handlers,
                    times,
                    pid,
                    requested,
                )
            )

    async def _connect(self, stack: contextlib.AsyncExitStack) -> Connections:
        conninfo: str | None = self._conninfo
        options = dict(self._connection_options)
        if self._pool is not None:
            conninfo = conninfo or await given(self._pool.conninfo)
            options = {**(await given(self._pool.kwargs) or {}), **options}
            options.pop("autocommit", None)
        if self._make_feeds is not None and conninfo is None:
            conninfo = ""
        if conninfo is None:
            # resolve() may start the embedded server.
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
        """Prepare a source; retry until the server is reachable."""
        assert self._stopping is not None  # noqa: S101 - set by `run`
        backoff = Backoff(name, self._complaints.log)
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
            if any(not task.done() for task in tasks):  # a lane failed unexpectedly
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
            # Every lane polled an empty source after the last message of any lane ended, which may have sent more.
            lanes = [*self._lanes, *(() if self._peers is None else self._peers.lanes())]
            since_s = max(lane.active_s for lane in lanes) + idle_s
            threads = self._executor.threads if self._executor is not None else None
            if threads is not None and 0 < threads.hung_s < _STALLED_S:
                continue
            if all(
                not lane.is_holding and lane.empty_s is not None and lane.empty_s > since_s
                for lane in lanes
            ):
                # Messages of hung threads are left to the next process.
                self._wants_replacement |= threads is not None and threads.hung > 0
                self.stop()
                return

    def _on_hung(self) -> None:
        assert self._executor is not None  # noqa: S101 - the executor is the caller
        threads = sum(
            spec.limits.concurrency for spec in self._specs if spec.execution is Execution.THREAD
        )
        self._complaints.log(
            logging.WARNING,
            'handler threads hung hung=%d threads=%d reason="a thread cannot be stopped at its timeout"',
            *(self._executor.threads.hung, min(threads, self._options.concurrency or threads)),
        )
        for lane in self._lanes:
            lane.check_hung()
        loop = asyncio.get_running_loop()
        loop.call_later(_STALLED_S, self._check_hung)
        loop.call_later(_HUNG_S, self._check_hung)

    def _check_hung(self) -> None:
        """Replace this process if its threads hang so long that messages are held up."""
        if self._is_stopped:
            return
        why = self._replacement_reason()
        if why is not None and self._ends_when_hung:
            self._replace(why)
            return
        if why is not None and not self._wants_replacement:
            _log.error(
                'restart required reason="%s" hint="restart the process to stop its threads"', why
            )
        self._wants_replacement = why is not None
        if why is not None:  # check again in case it returns
            asyncio.get_running_loop().call_later(_STALLED_S, self._check_hung)

    def _replacement_reason(self) -> str | None:
        assert self._executor is not None  # noqa: S101 - set when a thread hangs
        stalled = [name for lane in self._lanes for name in lane.stalled]
        hung, hung_s = self._executor.threads.hung, self._executor.threads.hung_s
        if stalled:
            return f"all threads of handler {stalled[0]} hang"
        if self._options.concurrency is not None and hung >= self._options.concurrency:
            return "hung threads reached the concurrency limit"
        if hung_s >= _HUNG_S - _STALLED_S:
            return f"a thread has hung for {hung_s:.0f} s"
        return None

    def _replace(self, why: str) -> None:
        """Stop this process so that another one replaces it; other handlers have `grace_s` to finish."""
        _log.error(
            'process stopping to be replaced reason="%s" grace_s=%g', why, self._options.grace_s
        )
        self._wants_replacement = True
        self.stop()
        loop = asyncio.get_running_loop()
        loop.call_later(self._options.grace_s, lambda: self.stop(now=True))


def _with_calls(handler: HandlerStatus, executor: Executor) -> HandlerStatus:
    """Return the status of a handler with what the executor knows of its calls."""
    times = executor.times.get(handler.name)
    return replace(
        handler,
        unstarted=executor.unstarted.get(handler.name),
        call_counts=() if times is None else tuple(times.counts),
        call_sum_s=0.0 if times is None else times.sum_s,
    )


async def _count_retrying(pool: AsyncConnectionPool[Any], queue_names: Iterable[str]) -> int:
    """Count the messages of queues that wait for a retry; log their number and the next time, and paused queues.

    Zero if a query fails: an older schema, or a lost connection.
    """
    runner = AsyncRunner(pool)
    retrying = 0
    try:
        for queue_name in queue_names:
            options = await runner.run(settings.queue_options(queue_name))
            if options.paused_at is not None:
                _log.warning(
                    'queue is paused queue=%s hint="pgsluice queue set %s paused=false"',
                    queue_name,
                    queue_name,
                )
            failing = await runner.run(retries.list_failing(queue_name))
            if not failing:
                continue
            count = sum(each.messages for each in failing)
            times = [each.next_retry_at for each in failing if each.next_retry_at is not None]
            retrying += count
            _log.warning(
                "messages wait for a retry queue=%s count=%d next_retry_at=%s error_type=%s "
                'hint="pgsluice queue failing %s"',
                *(queue_name, count, min(times).isoformat() if times else "now"),
                *(failing[0].error_type, queue_name),
            )
    except SluiceError as error:
        _log.info('retries not counted error="%s"', error)
    return retrying
