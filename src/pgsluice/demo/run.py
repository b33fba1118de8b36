"""The demo from beginning to end, and from the middle after a crash."""

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
from pgsluice.demo.database import DemoDatabase, Run, libpq_environment
from pgsluice.demo.display import Display
from pgsluice.demo.engine import WORKERS, Engine, Progress
from pgsluice.demo.lake import Lake, current_balances
from pgsluice.demo.load import Load
from pgsluice.demo.reconcile import LOG, Check, reconcile, verify
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
    """What the demo is asked to do.

    Attributes:
        seconds: How long the load lasts, 1 or more.
        clients: Sessions of the load, 1 or more.
        out: The folder for lake, checkpoint and report; None for `demo` in pgsluice's own.
        dsn: The server; None for the one rule of `connection.resolve`.
    """

    seconds: int = 20
    clients: int = 4
    out: Path | None = None
    dsn: str | None = None


def run_demo(options: Options, display: Display) -> Result:
    """Run the demo, or go on with the one that was killed, and reconcile.

    Args:
        options: What to do. A run that goes on takes them too: its load runs again when it had not
            ended.
        display: Where progress is shown.

    Returns:
        The result, with its differences if there are any; the report is written.

    Raises:
        MissingExtraError: A package that the demo needs is not installed; nothing was started.
        MissingJavaError: There is no Java that Spark can use; nothing was started.
        SluiceError: The run cannot go on; started again, it goes on from where it was.
    """
    settings = Settings.load()
    require_parts(settings)
    pgbench = load.find_pgbench(settings)
    with ExitStack() as stack:
        workspace = stack.enter_context(Workspace(options.out or settings.home / "demo"))
        target = connection.resolve(options.dsn, settings=settings)
        database = stack.enter_context(DemoDatabase(target))
        display.say(f"on {_in_words(target.source)}, in {workspace.root}")
        run = _recover(database, workspace, display)
        run_id = run.run_id if run else uuid.uuid4().hex
        environment = _environment(database, run_id)
        demo = _Demo(options, display, workspace, database, pgbench, environment, target.source)
        with _marked(run_id):
            return demo.go_on(run) if run else demo.begin(run_id)


def require_parts(settings: Settings) -> None:
    """Raise MissingExtraError or MissingJavaError when something the demo needs is not there."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the demo needs the Python package{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            "`pip install 'pgsluice[all]'`"
        )
    find_java(settings)


def _in_words(source: str) -> str:
    if source == connection.EMBEDDED:
        return "the embedded server (it keeps running; `pgsluice embedded stop` ends it)"
    return f"the server of {source}"


def _recover(database: DemoDatabase, workspace: Workspace, display: Display) -> Run | None:
    """Clear what a killed run left behind; return it if it can go on, None to start afresh."""
    run = database.find_run()
    dead = {run_id for run_id in (workspace.run_id(), run and run.run_id) if run_id}
    # We hold the locks of folder and database, so whatever these runs started has lost its owner.
    ended = orphans.end_orphans(dead)
    database.end_sessions()
    if ended:
        display.say(f"ended {ended} processes of a run that was killed")
    if run is None or run.finished_at is not None:
        return None
    if run.prepared_at is None:
        display.say("an earlier run was killed while it prepared: starting afresh")
        return None
    if run.run_id != workspace.run_id():
        display.say("an unfinished run has its lake in another folder: starting afresh")
        return None
    display.say(f"going on with the run of {run.started_at:%Y-%m-%d %H:%M:%S %Z} that was killed")
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
    """Mark what is started meanwhile as this run's: Spark gives no other way to set its environment."""
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
        """Make everything anew, then go on."""
        # The database goes first: an unfinished run whose lake is gone must not be found.
        self._database.create()
        self._workspace.begin(run_id)
        with self._database.connect() as db, self._engine() as engine:
            with self._timed("prepare"):
                self._prepare(db, run_id)
            return self._work(db, engine, attempt=0)

    def go_on(self, run: Run) -> Result:
        """Do what the run that was killed had not done."""
        with self._database.connect() as db, self._engine() as engine:
            db.execute(statement("run_interrupted"))
            attempt = None if run.loaded_at else run.interruptions + 1
            return self._work(db, engine, attempt=attempt)

    def _engine(self) -> Engine:
        # Spark takes as long to start as the data to be made: it starts here, beside what follows.
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
                EventLog(db).create_queue(LOG)
                WorkQueue(db).create(consume.QUEUE)
                db.execute(statement("change_view"))
            # The trigger comes before the rows, so that the log holds them from the first on; and after the key, by
            # which each event says whose it is.
            load.prepare(self._pgbench, self._environment, "dtp")
            db.execute(statement("capture"))
            load.prepare(self._pgbench, self._environment, "gv")
            with db.transaction():
                poison = WorkQueue(db).send(consume.QUEUE, consume.POISON)
                db.execute(statement("run_prepared"), {"poison_msg_id": poison})
            step.note(f"{load.ACCOUNTS:,} accounts, each change captured")

    def _work(self, db: psycopg.Connection[Any], engine: Engine, *, attempt: int | None) -> Result:
        """Load (the `attempt`-th time, from 0; None when that is done), drain, compute, compare, report."""
        from pyarrow import parquet  # the module is imported without the extra

        with self._timed("start Spark"), self._display.step("start Spark") as step:
            engine.start()
            step.note("the accounts are in the lake, changes follow")
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
                *reconcile(db, balances, Lake(self._workspace.events).events()),
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

    def _summarise(self, db: psycopg.Connection[Any], checks: Sequence[Check]) -> Result:
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
        """Run the load, and wait until workers and lake have followed."""
        working = self._display.step("messages processed")
        lake = self._display.step("events into the lake")

        def show(now: Progress) -> None:
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
        show: Callable[[Progress], None],
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
                    now = engine.look(db)
                    show(now)
                    words = f"{now.transactions:,} transactions, {load_run.rate:,.0f}/s"
                    step.show(min(load_run.elapsed_s, seconds), note=words)
            finally:
                load_run.stop()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._steps_s[name] = time.monotonic() - began
