"""Run the handlers of an app on several databases: a worker for each, with one concurrency."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from pgsluice.backoff import Backoff, async_pause, described
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import shards as calls
from pgsluice.client.headers import KEY_HEADER
from pgsluice.connection import for_writing, resolve
from pgsluice.errors import TRANSIENT, ArgumentError, SluiceError
from pgsluice.settings import Settings
from pgsluice.shards import Shards
from pgsluice.shards.router import Router
from pgsluice.worker.app.startup import ScheduledApplication, connected, start_up
from pgsluice.worker.engine.delivery import Counts
from pgsluice.worker.engine.flow.fair_share import FairShare
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.shared import AnyLane, Peers
from pgsluice.worker.engine.flow.status import HandlerStatus, ShardStatus, WorkerStatus
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.engine.run.process_pool import ProcessPool
from pgsluice.worker.handlers.choosing import choose
from pgsluice.worker.handlers.middleware import close
from pgsluice.worker.upkeep.schedules import ScheduleSpec

_log = logging.getLogger(__name__)


class _Starting:
    """A lane that is never empty: of a shard whose first start has neither succeeded nor failed."""

    active_s = 0.0
    empty_s: float | None = None
    is_holding = True


class ShardedWorker:
    """Run handlers on several databases, with the interface of `Worker`.

    Each database has a worker with connections, a listener and a registration of its own. A handler's concurrency and
    that of the process are limits for all of them, and databases with messages take turns. A database that cannot be
    used is retried with back-off, and the others continue.

    Attributes:
        targets: The databases by the name of their shard.
    """

    def __init__(
        self,
        app: ScheduledApplication,
        shards: Shards,
        *,
        handlers: Iterable[str] | None = None,
        queues: Iterable[str] | None = None,
        options: WorkerOptions | None = None,
        creates: bool = False,
        ends_when_hung: bool = True,
    ) -> None:
        """Prepare workers without connecting.

        Args:
            app: The app.
            shards: The databases.
            handlers: As for `Worker`, as are `queues` and `ends_when_hung`.
            options: Process-wide options; `max_connections` is divided among the databases.
            creates: Create the queues and logs that do not exist.

        Raises:
            ArgumentError: The handlers need more connections than a database's part of `max_connections`.
            ConfigurationError: As for `Worker`, or a shard has no DSN.
        """
        self._app = app
        self._router = Router(shards)
        self._specs = choose(app, handlers, queues)
        self.targets = {name: for_writing(resolve(shards.dsn(name))) for name in shards.names}
        self._options = _divided(options or WorkerOptions(), len(self.targets))
        try:
            self._connections = self._options.shares(self._specs.values()).total
        except ArgumentError as error:
            raise ArgumentError(
                f"max_connections is divided among {len(self.targets)} shards: {error}"
            ) from error
        self._creates = creates
        self._ends_when_hung = ends_when_hung
        self._workers: dict[str, Worker] = {}
        # The last failure of a start, by shard; None: it has started.
        self._errors: dict[str, SluiceError | None] = {}
        self._peers: Peers | None = None
        self._stopping: asyncio.Event | None = None
        self._is_stopped = self._is_finished = False

    # Status ----------------------------------------------------------------------------------------------------------

    def status(self) -> WorkerStatus:
        """Return the status of all databases together, and of each. Thread-safe."""
        started = dict(self._workers)
        each = {name: started[name].status() for name in self.targets if name in started}
        states = [status.state for status in each.values()]
        listeners = sorted(
            (status.listener for status in each.values() if status.listener is not None),
            key=lambda state: state == "listening",
        )
        return WorkerStatus(
            state=self._state(states),
            handlers=tuple(
                _joined(name, [_of(name, status) for status in each.values()])
                for name in self._specs
            ),
            sources=tuple(
                replace(source, name=f"{source.name} of shard {name}")
                for name, status in each.items()
                for source in status.sources
            ),
            listener=listeners[0] if listeners else None,
            hung_threads=sum(status.hung_threads for status in each.values()),
            wants_replacement=any(status.wants_replacement for status in each.values()),
            retrying=sum(status.retrying for status in each.values()),
            shards=tuple(self._shard_status(name) for name in self.targets),
        )

    def _state(self, states: Sequence[str]) -> str:
        if self._is_finished:
            return "stopped"
        if self._is_stopped:
            return "stopping"
        return "running" if "running" in states else "starting"

    def _shard_status(self, name: str) -> ShardStatus:
        worker, error = self._workers.get(name), self._errors.get(name)
        if error is not None or worker is None:
            reason = None if error is None else described(error)
            return ShardStatus(name, is_up=False, error=reason)
        failures = (source.last_error for source in worker.status().sources)
        return ShardStatus(name, worker.is_up, next((one for one in failures if one), None))

    # Lifecycle -------------------------------------------------------------------------------------------------------

    def stop(self, *, now: bool = False) -> None:
        """Request a graceful shutdown of all databases; as `Worker.stop`."""
        self._is_stopped = True
        if self._stopping is not None:
            self._stopping.set()
        for worker in self._workers.values():
            worker.stop(now=now)

    async def run(self) -> None:
        """Work until `stop`; as `Worker.run`.

        Raises:
            SluiceError: No database can be used, and a retry would not help.
        """
        await self._run(None)

    async def run_until_empty(self, *, idle_s: float = 0.5) -> dict[str, Counts]:
        """Work until all databases that can be used are empty; as `Worker.run_until_empty`.

        Raises:
            SluiceError: As for `run`.
        """
        await self._run(idle_s)
        return {handler.name: handler.counts for handler in self.status().handlers}

    async def _run(self, idle_s: float | None) -> None:
        self._stopping = asyncio.Event()
        if self._is_stopped:
            self._stopping.set()
        options = self._options
        processes = ProcessPool(max_memory_mb=options.max_memory_mb)
        self._peers = Peers(FairShare(options.concurrency), processes, self._lanes)
        tasks = {
            asyncio.create_task(self._work(name, idle_s), name=f"shard {name}"): name
            for name in self.targets
        }
        try:
            while tasks:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del tasks[task]
                    task.result()
                if any(worker.status().wants_replacement for worker in self._workers.values()):
                    self._replace()
                elif idle_s is not None and not any(self._is_working(n) for n in tasks.values()):
                    self.stop()  # the rest is down
        finally:
            self.stop(now=bool(tasks))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await processes.close()
            await close(self._app.middlewares)
            self._is_finished = True

    async def _work(self, name: str, idle_s: float | None) -> None:
        """Work on one database; start again after an error."""
        assert self._stopping is not None  # noqa: S101 - set by `_run`
        backoff = Backoff(f"shard {name}", _log.log)
        while not self._stopping.is_set():
            try:
                await self._unless_stopped(self._start(name))
                if not self._stopping.is_set():
                    worker = self._workers[name]
                    await (
                        worker.run() if idle_s is None else worker.run_until_empty(idle_s=idle_s)
                    )
                    return
            except SluiceError as error:
                self._errors[name] = error.with_traceback(None)
                if (final := self._final_error(is_waiting=idle_s is None)) is not None:
                    raise final from None
                await async_pause(self._stopping, backoff.failed(error))

    async def _start(self, name: str) -> None:
        """Run the preflight checks of a database, and make its worker."""
        target = self.targets[name]
        async with await connected(target) as connection:
            state = await AsyncRunner(connection).run(calls.shard())
        if state is None:
            _log.warning(
                'database has no directory of shards shard=%s hint="sends by key are refused until: pgsluice shards '
                'apply --shards %s"',
                *(name, self._router.shards.place),
            )
        else:
            self._router.adopt(name, state)
        connection_options = await start_up(
            self._app,
            self._specs.values(),
            target,
            connections=self._connections,
            creates=self._creates,
            owns=lambda spec: self._router.home(_key_of(spec)) == name,
        )
        self._workers[name] = Worker(
            self._app,
            handlers=list(self._specs),
            options=self._options,
            conninfo=target.conninfo,
            connection_options=connection_options,
            ends_when_hung=self._ends_when_hung,
            peers=self._peers,
        )
        if self._errors.get(name) is not None:
            _log.info("shard is used again shard=%s", name)
        self._errors[name] = None

    async def _unless_stopped(self, starting: Coroutine[Any, Any, None]) -> None:
        """Await a start, which may take as long as a connection attempt, or a stop."""
        assert self._stopping is not None  # noqa: S101 - set by `_run`
        task = asyncio.create_task(starting)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            stopping.cancel()
            task.cancel()

    def _is_working(self, name: str) -> bool:
        """True if its worker has started, or is starting after its checks."""
        worker = self._workers.get(name)
        if worker is None or self._errors[name] is not None:
            return False
        return worker.is_starting or worker.is_up

    def _final_error(self, *, is_waiting: bool) -> SluiceError | None:
        """Return a permanent error if the last start of every database failed and a retry would not help.

        If the worker does not wait for messages, one such error is enough, and the others are not waited for.
        """
        errors = [self._errors.get(name) for name in self.targets]
        permanent = [one for one in errors if one is not None and not isinstance(one, TRANSIENT)]
        if None in errors or not permanent or (is_waiting and len(permanent) < len(errors)):
            return None
        return permanent[0]

    def _lanes(self) -> Sequence[AnyLane]:
        """Return the lanes of the databases that can be used, and one for each that may start."""
        lanes: list[AnyLane] = []
        for name in self.targets:
            if name not in self._errors:
                lanes.append(_Starting())
            elif self._is_working(name):
                worker = self._workers[name]
                lanes += [_Starting()] if worker.is_starting else worker.lanes
        return lanes

    def _replace(self) -> None:
        """Stop all databases, as threads of one hang and the process must be replaced."""
        if self._is_stopped:
            return
        self.stop()
        asyncio.get_running_loop().call_later(self._options.grace_s, lambda: self.stop(now=True))


def _divided(options: WorkerOptions, number: int) -> WorkerOptions:
    """Return the options of the worker of one database."""
    most = options.max_connections or Settings.load().max_connections
    return replace(options, max_connections=max(1, most // number))


def _key_of(spec: ScheduleSpec) -> str:
    """Return the key that chooses the only database that fires a schedule: that of its message, else its name."""
    key = (spec.headers or {}).get(KEY_HEADER)
    if spec.event is not None:
        key = spec.event.ev_extra1
    return key if isinstance(key, str) else spec.name


def _of(name: str, status: WorkerStatus) -> HandlerStatus:
    return next(handler for handler in status.handlers if handler.name == name)


def _joined(name: str, each: Sequence[HandlerStatus]) -> HandlerStatus:
    """Return the status of a handler on all databases."""
    counts = Counts()
    types: Counter[str] = Counter()
    for handler in each:
        for field in ("done", "retry", "released", "dead", "lost"):
            setattr(counts, field, getattr(counts, field) + getattr(handler.counts, field))
        types.update(handler.counts.by_error_type)
    counts.by_error_type = dict(types)
    buckets = zip_longest(*(handler.call_counts for handler in each), fillvalue=0)
    return HandlerStatus(
        name,
        running=sum(handler.running for handler in each),
        waiting=sum(handler.waiting for handler in each),
        counts=counts,
        last_error=next((one.last_error for one in each if one.last_error), None),
        unstarted=next((one.unstarted for one in each if one.unstarted), None),
        call_counts=tuple(map(sum, buckets)),
        call_sum_s=sum(handler.call_sum_s for handler in each),
    )
