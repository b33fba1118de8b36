"""Main function of `pgsluice worker run`: a single process, or a supervisor and its processes."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg

from pgsluice.connection import Target, for_writing, resolve
from pgsluice.errors import SluiceError
from pgsluice.shards import Shards
from pgsluice.worker.app.startup import start_up
from pgsluice.worker.handlers.choosing import choose
from pgsluice.worker.handlers.sending_pools import WORKER_DSN, WORKER_SHARDS
from pgsluice.worker.process.health import Health, HealthEndpoint, HealthFile
from pgsluice.worker.process.loading import load_app
from pgsluice.worker.process.log_lines import secrets_of, set_up_logs
from pgsluice.worker.process.process import (
    AT_ONCE_S,
    EXIT_ERROR,
    EXIT_REPLACE,
    Report,
    end_at_once,
    exit_after,
    run_process,
    serve,
)
from pgsluice.worker.process.shutdown import Shutdown
from pgsluice.worker.process.supervisor import Supervisor, SupervisorPipe
from pgsluice.worker.upkeep.leader import Standing
from pgsluice.worker.upkeep.maintainer import Maintainer

if TYPE_CHECKING:
    from pgsluice.worker.app.app import App
    from pgsluice.worker.app.sharded import ShardedWorker
    from pgsluice.worker.engine.flow.options import WorkerOptions
    from pgsluice.worker.engine.flow.worker import Worker

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
# Not sys.argv: the program may be a script that does more.
_CHILD = (sys.executable, "-m", "pgsluice", "worker", "child")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `pgsluice worker run`, documented there."""

    app_name: str
    dsn: str | None
    shards: str | None
    queues: list[str] | None
    handlers: list[str] | None
    processes: int
    supervise: bool
    concurrency: int | None
    prefetch: int | None
    lease_s: float | None
    max_memory_mb: int | None
    max_connections: int | None
    until_empty: bool
    idle_s: float
    grace_s: float
    stall_s: float
    health_file: Path | None
    health_port: int | None
    health_host: str
    log_format: str
    log_level: str
    maintains: bool
    create_queues: bool


def run_service(settings: RunOptions) -> int:
    """Run handlers until stopped.

    Returns:
        The exit code.

    Raises:
        ConfigurationError: The health port or file is not available.
    """
    shutdown = Shutdown(settings.grace_s)
    health = Health(processes=settings.processes, stall_s=settings.stall_s)
    with shutdown.on_signals():
        _set_up_logs(settings, None)
        with _health_published(settings, health):
            if settings.processes == 1 and not settings.supervise:

                def report(status: dict[str, Any]) -> None:
                    health.beat()
                    health.record(1, status)

                return Service(settings, shutdown, report).run()
            supervisor = Supervisor(
                _CHILD,
                _for_child(settings),
                processes=settings.processes,
                stall_s=settings.stall_s,
                ends_itself=settings.until_empty,
                shutdown=shutdown,
                health=health,
            )
            return asyncio.run(supervisor.run())


class Service:
    """A process that runs handlers."""

    def __init__(
        self, settings: RunOptions, shutdown: Shutdown, report: Report, *, number: int | None = None
    ) -> None:
        """Prepare a service.

        Args:
            settings: Options of the command line.
            shutdown: Requests the shutdown.
            report: Receives the status.
            number: Number of the process within its supervisor; None: no supervisor.
        """
        self._settings = settings
        self._shutdown = shutdown
        self._tell = report
        self._number = number
        # One candidate for leader per supervisor is enough: each standby holds a connection.
        self._maintains = settings.maintains and number in (None, 1)
        self._maintainers: list[Maintainer] = []
        self._is_replaced = False
        # With a supervisor, only the supervisor handles Ctrl-C.
        self._signals = (
            contextlib.nullcontext() if number is None else shutdown.on_signals(interrupts=False)
        )

    @classmethod
    def of_supervisor(cls) -> Self:
        """Prepare a process started by a supervisor; reads its settings from a pipe."""
        supervisor_pipe = SupervisorPipe()
        given = supervisor_pipe.settings
        settings = RunOptions(**{field.name: given[field.name] for field in fields(RunOptions)})
        _set_up_logs(settings, supervisor_pipe.number)
        shutdown = Shutdown(settings.grace_s)
        supervisor_pipe.follow(shutdown)
        return cls(settings, shutdown, supervisor_pipe.report, number=supervisor_pipe.number)

    def run(self) -> int:
        """Run until stopped; return the exit code."""
        end_at_once(self._shutdown)
        with self._signals, _faults_shown():
            try:
                app = load_app(self._settings.app_name)
                specs = choose(app, self._settings.handlers, self._settings.queues)
                self._set_databases(app)
                if app.shards is not None:
                    return self._run_sharded(app)
                target = target_of(app, self._settings.dsn)
                _set_up_logs(self._settings, self._number, [target.conninfo])
                connections = self._worker_options().shares(specs.values()).total
            except SluiceError as error:
                _log.critical("%s", error)
                return EXIT_ERROR
            if self._shutdown.level:
                return 0
            from pgsluice.worker.engine.flow.worker import Worker

            def make(connection_options: dict[str, Any]) -> Worker:
                return Worker(
                    app,
                    handlers=list(specs),
                    options=self._worker_options(),
                    conninfo=target.conninfo,
                    connection_options=connection_options,
                )

            return self._serve(
                [target],
                make,
                lambda: start_up(
                    app,
                    specs.values(),
                    target,
                    connections=connections,
                    creates=self._settings.create_queues,
                ),
            )

    def _run_sharded(self, app: App) -> int:
        """Run a worker on each database."""
        from pgsluice.worker.app.sharded import ShardedWorker

        assert app.shards is not None  # noqa: S101 - of the caller
        worker = ShardedWorker(
            app,
            Shards.given(app.shards),
            handlers=self._settings.handlers,
            queues=self._settings.queues,
            options=self._worker_options(),
            creates=self._settings.create_queues,
        )
        targets = list(worker.targets.values())
        _set_up_logs(self._settings, self._number, [target.conninfo for target in targets])
        if self._shutdown.level:
            return 0

        async def nothing() -> None:
            """Each database is checked when its own worker starts."""

        return self._serve(targets, lambda _: worker, nothing)

    def _serve(
        self,
        targets: list[Target],
        make: Callable[[Result], Worker | ShardedWorker],
        begin: Callable[[], Awaitable[Result]],
    ) -> int:
        with self._maintenance(targets):
            return run_process(
                serve(
                    make,
                    self._shutdown,
                    begin=begin,
                    report=self._report_all,
                    until_empty_s=self._settings.idle_s if self._settings.until_empty else None,
                )
            )

    def _worker_options(self) -> WorkerOptions:
        from pgsluice.worker.engine.flow.options import WorkerOptions

        return WorkerOptions(
            **{each.name: getattr(self._settings, each.name) for each in fields(WorkerOptions)}
        )

    def _set_databases(self, app: App) -> None:
        """Let handlers, also in handler processes, send where this process works."""
        if self._settings.dsn is not None:
            app.dsn, app.shards = self._settings.dsn, None
            os.environ[WORKER_DSN] = os.environ["PGSLUICE_DSN"] = self._settings.dsn
        elif self._settings.shards is not None:
            app.shards = self._settings.shards
            os.environ[WORKER_SHARDS] = self._settings.shards

    def _report_all(self, status: dict[str, Any]) -> None:
        if status.get("wants_replacement") and not self._is_replaced:
            # In a thread, as an `async def` handler may block the event loop.
            self._is_replaced = True
            exit_after(self._settings.grace_s + AT_ONCE_S + 1.0, EXIT_REPLACE)
        # With several databases, that of one which it leads.
        standings = sorted(
            (maintainer.standing.value for maintainer in self._maintainers),
            key=lambda standing: standing != Standing.LEADER.value,
        )
        self._tell(status | {"maintenance": standings[0] if standings else None})

    @contextlib.contextmanager
    def _maintenance(self, targets: list[Target]) -> Iterator[None]:
        """Run the maintenance of each database while this process is its leader."""
        with contextlib.ExitStack() as stack:
            if self._maintains:
                self._maintainers = [Maintainer(target.conninfo) for target in targets]
            for maintainer in self._maintainers:
                stack.enter_context(maintainer.in_background())
            yield


def target_of(app: App, dsn: str | None) -> Target:
    """Return the server of an app's handlers: an explicit DSN, else the app's own, else as for all commands.

    If it lists several servers, the writable one is chosen.

    Raises:
        SluiceError: As for `resolve`.
    """
    target = resolve(app.dsn if dsn is None else dsn)
    if dsn is None and app.dsn is not None:
        target = replace(target, source=f"App(dsn=…) of {app.name}")
    return for_writing(target)


def _for_child(settings: RunOptions) -> dict[str, Any]:
    given = asdict(settings)
    return given | {"health_file": None, "health_port": None, "supervise": False}


@contextlib.contextmanager
def _health_published(settings: RunOptions, health: Health) -> Iterator[None]:
    """Start the health file and endpoint."""
    with contextlib.ExitStack() as stack:
        if settings.health_file is not None:
            stack.enter_context(HealthFile(health, settings.health_file))
        if settings.health_port is not None:
            endpoint = HealthEndpoint(health, settings.health_host, settings.health_port)
            stack.enter_context(endpoint)
            _log.info(
                "health endpoint started url=http://%s:%d/", settings.health_host, endpoint.port
            )
        yield


@contextlib.contextmanager
def _faults_shown() -> Iterator[None]:
    """Print tracebacks, without values, to standard error if the interpreter crashes."""
    faulthandler.enable()
    try:
        yield
    finally:
        faulthandler.disable()


def _set_up_logs(settings: RunOptions, number: int | None, targets: Sequence[str] = ()) -> None:
    known = [settings.dsn, *targets, os.environ.get("PGSLUICE_DSN")]
    secrets = {secret for text in known if text for secret in _secrets_in(text)}
    password = os.environ.get("PGPASSWORD")
    set_up_logs(
        form=settings.log_format,
        level=settings.log_level,
        secrets=[*secrets, *([password] if password else [])],
        number=number,
    )


def _secrets_in(text: str) -> tuple[str, ...]:
    try:
        return secrets_of(text)
    except psycopg.Error:
        return ()  # an invalid DSN is reported where it is used
