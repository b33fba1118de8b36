"""Run a worker inside another program, such as a web application, in its event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager

from pgsluice.backoff import Backoff
from pgsluice.connection import Target, for_writing, resolve
from pgsluice.errors import TRANSIENT, SluiceError
from pgsluice.shards import Shards
from pgsluice.worker.app.sharded import ShardedWorker
from pgsluice.worker.app.startup import ScheduledApplication, start_up
from pgsluice.worker.engine.claim import start_checks
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.status import WorkerStatus
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.handlers.choosing import choose
from pgsluice.worker.upkeep.maintainer import Maintainer

_log = logging.getLogger(__name__)
_AT_ONCE_S = 3.0


class BackgroundWorker:
    """A worker in the background of an event loop: restarted when it fails, stopped with the program.

    Hung threads are not replaced: they keep their slots and messages, so their number never exceeds the handlers'
    `concurrency`. Other handlers continue.
    """

    def __init__(
        self,
        app: ScheduledApplication,
        *,
        handlers: Sequence[str] | None,
        queues: Sequence[str] | None,
        options: WorkerOptions | None,
    ) -> None:
        """Prepare a worker; see `lifespan`."""
        self._app = app
        self._specs = choose(app, handlers, queues)
        self._options = options or WorkerOptions()
        self._shards = None if app.shards is None else Shards.given(app.shards)
        self._target = for_writing(resolve(app.dsn)) if self._shards is None else None
        self._connection_options = start_checks.UNKNOWN
        self._worker = self._make()
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def targets(self) -> list[Target]:
        """The servers that it works on."""
        if isinstance(self._worker, ShardedWorker):
            return list(self._worker.targets.values())
        return [] if self._target is None else [self._target]

    def status(self) -> WorkerStatus:
        """Return the worker's status. Thread-safe.

        `wants_replacement` is True while threads hang, as only a restart of the program ends them.
        """
        return self._worker.status()

    async def start(self) -> None:
        """Run preflight checks and start. If the server is unreachable, retry in the background.

        Raises:
            SluiceError: A permanent error, such as a database without the schemas.
        """
        try:
            # Several servers are checked in the background, each on its own.
            if self._target is not None:
                self._connection_options = await start_up(
                    self._app,
                    self._specs.values(),
                    self._target,
                    connections=self._options.shares(self._specs.values()).total,
                )
                self._worker = self._make()
        except TRANSIENT as error:
            _log.warning('worker start delayed error="%s" hint="retrying in the background"', error)
        self._task = asyncio.create_task(self._run(), name=f"pgsluice worker {self._app.name}")

    async def stop(self, grace_s: float) -> None:
        """Shut down gracefully within `grace_s` seconds, then stop hard."""
        self._is_stopping = True
        if self._task is None:
            return
        for is_last, deadline_s in ((False, grace_s), (True, _AT_ONCE_S)):
            self._worker.stop(now=is_last)
            done, _ = await asyncio.wait([self._task], timeout=deadline_s)
            if done:
                return
        self._task.cancel()
        await asyncio.wait([self._task], timeout=_AT_ONCE_S)

    def _make(self) -> Worker | ShardedWorker:
        if self._shards is not None:
            return ShardedWorker(
                self._app,
                self._shards,
                handlers=list(self._specs),
                options=self._options,
                ends_when_hung=False,
            )
        assert self._target is not None  # noqa: S101 - without shards
        return Worker(
            self._app,
            handlers=list(self._specs),
            options=self._options,
            conninfo=self._target.conninfo,
            connection_options=self._connection_options,
            # A restart within the same process would not end hung threads, but add more, and start their messages a
            # second time concurrently.
            ends_when_hung=False,
        )

    async def _run(self) -> None:
        backoff = Backoff("worker", _log.log)
        while not self._is_stopping:
            try:
                await self._worker.run()
                why = "the worker stopped unexpectedly"
            except SluiceError as error:
                why = str(error)
            if self._is_stopping:
                return
            # The worker retries transient errors itself; only permanent errors end it.
            await asyncio.sleep(backoff.failed(SluiceError(why)))
            self._worker = self._make()


@asynccontextmanager
async def lifespan(
    app: ScheduledApplication,
    *,
    handlers: Sequence[str] | None,
    queues: Sequence[str] | None,
    options: WorkerOptions | None,
    maintenance: bool,
    grace_s: float,
) -> AsyncGenerator[dict[str, BackgroundWorker]]:
    """Run a worker for the duration of the block, in the same event loop; installs no signal handlers.

    The arguments and the result are those of `App.lifespan`.
    """
    worker = BackgroundWorker(app, handlers=handlers, queues=queues, options=options)
    await worker.start()
    upkeep = ExitStack()
    try:
        for target in worker.targets if maintenance else ():
            upkeep.enter_context(Maintainer(target.conninfo).in_background())
        yield {"worker": worker}
    finally:
        # In a thread, as it waits for the threads of maintenance.
        await asyncio.gather(asyncio.to_thread(upkeep.close), worker.stop(grace_s))
        await app.aclose()
