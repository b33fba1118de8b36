"""`pgsluice demo` as a user runs it: completed, restarted after kills, with planted differences."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pgsluice.demo.lake import ChangesLake
from pgsluice.demo.orphans import RUN_VARIABLE
from pgsluice.demo.reconcile import CHECKS, VERIFIED, reconcile
from pgsluice.embedded import EmbeddedServer
from support import value, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(400)]

PYTHON_M = [sys.executable, "-c", "from pgsluice.cli.main import main; main()", "demo"]
FAST = {"fsync": "off"}  # these tests kill processes, not the machine
# On an idle machine the load starts 6 s after the command, and a run with 4 s of load takes 30 s.
STEP_DEADLINE_S = 150.0
RUN_DEADLINE_S = 300.0


class Demo:
    """The command, with a separate server and folder."""

    def __init__(self, home: Path) -> None:
        self.out = home / "out"
        self.server = EmbeddedServer(home / "postgresql-18", options=FAST)
        dropped = ("PGSLUICE_DSN", "DATABASE_URL", RUN_VARIABLE)
        self.environ = {
            name: text
            for name, text in os.environ.items()
            if name not in dropped and not name.startswith("PG")
        } | {"PGSLUICE_HOME": str(home)}

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PYTHON_M, "--out", str(self.out), *map(str, arguments)],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def run(self, *arguments: object) -> Outcome:
        process = self.start(*arguments)
        try:
            stdout, stderr = process.communicate(timeout=RUN_DEADLINE_S)
        finally:
            process.kill()
        return Outcome(process.returncode, stdout, stderr)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.server.url("pgsluice_demo"), autocommit=True)

    def fetch(self, query: str) -> object:
        """Return a query's value, or None while the database or the table does not exist."""
        try:
            with self.connect() as connection:
                return value(connection, query)
        except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
            return None

    def kill_when(self, query: str, what: str, *arguments: object) -> int:
        """Start a run, wait until the query is true and kill the run; return its process id."""
        process = self.start(*arguments)
        try:
            wait_until(
                lambda: process.poll() is not None or self.fetch(query) is True,
                what,
                STEP_DEADLINE_S,
            )
            assert process.poll() is None, f"the run ended before {what}: {process.stderr.read()}"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()
        return process.pid

    def run_id(self) -> str:
        return json.loads((self.out / "run.json").read_text())["run_id"]


class Outcome(NamedTuple):
    status: int
    stdout: str
    stderr: str

    def result(self) -> dict[str, Any]:
        return json.loads(self.stdout)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    # As root the server runs as another user, who cannot enter pytest's folder.
    home = Path(tempfile.mkdtemp(prefix="pgsluice-demo-"))
    home.chmod(0o755)
    demo = Demo(home)
    demo.server.start()
    try:
        yield demo
    finally:
        demo.server.stop("immediate")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def outcome(demo: Demo) -> Outcome:
    """One complete run."""
    return demo.run("--duration", 4, "--clients", 2, "--json")


def processes_of(run_id: str) -> list[str]:
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_run_reports_reconciliation_as_json_and_html(demo: Demo, outcome: Outcome):
    assert outcome.status == 0, outcome.stdout + outcome.stderr
    result = outcome.result()
    counts = result["counts"]

    assert result["reconciled"] is True
    assert [check["name"] for check in result["checks"]] == [*CHECKS, *VERIFIED]
    assert counts["transactions"] > 100
    assert counts["messages_sent"] == counts["transactions"] + 1
    assert counts["processed"] == counts["archived"] == counts["transactions"]
    assert counts["dead"] == 1
    assert counts["retried"] > 0
    assert counts["lake_rows"] == counts["events"]
    assert 0 < result["latencies_s"]["transaction"]["p50"] < 4
    assert "<svg" in Path(result["report"]).read_text(encoding="utf-8")
    assert "<svg" in (demo.out / "lake/gold/report.html").read_text(encoding="utf-8")
    assert "Traceback" not in outcome.stderr


def test_after_a_run_none_of_its_processes_is_left(demo: Demo, outcome: Outcome):
    assert outcome.status == 0

    assert processes_of(demo.run_id()) == []


def test_the_balances_on_disk_are_those_of_the_database(demo: Demo, outcome: Outcome):
    assert outcome.status == 0
    balances = pq.read_table(demo.out / "balances.parquet").to_pylist()
    with demo.connect() as connection:
        query = "select aid, abalance from pgbench_accounts order by aid"
        accounts = connection.execute(query).fetchall()

    assert [(row["aid"], row["abalance"]) for row in balances] == accounts


ONE_MORE = (
    "insert into demo.processed select * from demo.processed where fails_first is false limit 1"
)
# Change of the database → the checks that must report it.
PLANTED_IN_THE_DATABASE = {
    "a balance changed": (
        "update pgbench_accounts set abalance = abalance + 1 where aid = 17",
        {"balances", "sums"},
    ),
    "an account removed": ("delete from pgbench_accounts where aid = 17", {"balances"}),
    "a message lost from the archive": (
        "delete from pgmq.a_orders where msg_id = (select max(msg_id) from pgmq.a_orders)",
        {"messages_settled", "messages_processed"},
    ),
    "a message archived and in the queue": (
        "insert into pgmq.q_orders (msg_id, vt, message) overriding system value"
        " select max(msg_id), now(), null from pgmq.a_orders",
        {"messages_settled"},
    ),
    "a message processed twice": (ONE_MORE, {"messages_processed", "deltas"}),
    "a message processed with another amount": (
        "update demo.processed set delta = delta + 1"
        " where msg_id = (select max(msg_id) from demo.processed)",
        {"deltas", "sums"},
    ),
    "a dead letter lost": ("delete from sluice.dead_letter", {"messages_settled", "dead_letters"}),
    "a good message among the dead letters": (
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason)"
        " select 'orders', max(msg_id), 1, now(), 'planted' from pgmq.a_orders",
        {"messages_settled", "dead_letters"},
    ),
    "a retry that was none": (
        "update demo.processed set attempt = 1 where fails_first",
        {"retries"},
    ),
    "a transaction without a message": (
        "insert into pgbench_history (tid, bid, aid, delta, mtime) values (1, 1, 17, 0, now())",
        {"events_updated", "messages_settled", "deltas"},
    ),
    "an event of the log lost": (
        "delete from pgq.event_1_0 where ev_id = (select max(ev_id) from demo.change)",
        {"events_once"},
    ),
}


@pytest.mark.parametrize("planted", PLANTED_IN_THE_DATABASE)
def test_a_difference_in_the_database_is_found(demo: Demo, outcome: Outcome, planted: str):
    assert outcome.status == 0
    change, checks = PLANTED_IN_THE_DATABASE[planted]

    with demo.connect() as connection, connection.transaction(force_rollback=True):
        # Without triggers: the planted change must not become an event.
        connection.execute("set local session_replication_role = replica")
        assert connection.execute(change).rowcount > 0
        found = failing(connection, *lake_of(demo))

    assert checks <= found, f"{planted}: found only by {found}"


def without_last(table: pa.Table) -> pa.Table:
    return table.slice(0, table.num_rows - 1)


def last_twice(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(table.num_rows - 1)])


def as_deletes(table: pa.Table) -> pa.Table:
    return table.set_column(1, "ev_type", pa.array(["d"] * table.num_rows))


def one_higher(table: pa.Table) -> pa.Table:
    balances = table["abalance"].to_pylist()
    return table.set_column(1, "abalance", pa.array([*balances[:-1], balances[-1] + 1], pa.int32()))


# Change of the lake's balances and events → the checks that must report it.
PLANTED_IN_THE_LAKE = {
    "an account missing": (without_last, None, {"balances"}),
    "an account too many": (
        lambda t: pa.concat_tables([t, pa.table({"aid": [0], "abalance": [1]}, t.schema)]),
        None,
        {"balances", "sums"},
    ),
    "a balance off by one": (one_higher, None, {"balances", "sums"}),
    "an event missing": (None, without_last, {"events_once"}),
    "an event twice": (None, last_twice, {"events_once"}),
    "events of another type": (None, as_deletes, {"events_created", "events_updated", "events_once"}),
    "an event the log does not have": (
        None,
        lambda t: pa.concat_tables([t, pa.table({"ev_id": [0], "ev_type": ["u"]}, t.schema)]),
        {"events_once", "events_updated"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED_IN_THE_LAKE)
def test_a_difference_in_the_lake_is_found(demo: Demo, outcome: Outcome, planted: str):
    assert outcome.status == 0
    change_balances, change_events, checks = PLANTED_IN_THE_LAKE[planted]
    balances, events = lake_of(demo)
    if change_balances is not None:
        balances = change_balances(balances)
    if change_events is not None:
        events = change_events(events)

    with demo.connect() as connection:
        found = failing(connection, balances, events)

    assert checks <= found, f"{planted}: found only by {found}"


def test_every_check_is_shown_to_find_something():
    planted = [*PLANTED_IN_THE_DATABASE.values(), *PLANTED_IN_THE_LAKE.values()]

    assert set().union(*(checks for *_, checks in planted)) == set(CHECKS)


def lake_of(demo: Demo) -> tuple[pa.Table, pa.Table]:
    return pq.read_table(demo.out / "balances.parquet"), ChangesLake(
        demo.out / "lake/events"
    ).events()


def failing(connection: psycopg.Connection[Any], balances: pa.Table, events: pa.Table) -> set[str]:
    return {check.name for check in reconcile(connection, balances, events) if not check.holds}


LOADING = "select count(*) > 50 from pgbench_history"


@pytest.mark.long
def test_killed_while_preparing_and_in_the_load_it_goes_on_and_finds_what_was_done_behind_its_back(
    demo: Demo, outcome: Outcome
):
    before = demo.run_id()
    demo.kill_when(
        "select prepared_at is null from demo.run", "the data to be made", "--duration", 30
    )
    first = demo.run_id()
    demo.kill_when(
        f"select prepared_at is not null and ({LOADING}) from demo.run",
        "the load",
        "--duration",
        30,
    )
    second = demo.run_id()
    # Processes that the killed run started are still running; the next run must end them.
    left = processes_of(second)
    with demo.connect() as connection, connection.transaction():
        # Without triggers: the planted change must not become an event.
        connection.execute("set local session_replication_role = replica")
        connection.execute("update pgbench_accounts set abalance = 123456789 where aid = 17")

    after = demo.run("--duration", 2, "--clients", 2)

    assert len({before, first, second}) == 3, "a run killed while preparing was continued"
    assert demo.run_id() == second, "the run killed during its load was not continued"
    assert any("pgbench" in command for command in left)
    assert demo.fetch("select interruptions from demo.run") == 1
    assert processes_of(second) == []
    # Only the changed row is reported.
    assert after.status == 1, after.stdout + after.stderr
    failed = [line for line in after.stdout.splitlines() if "✗" in line]
    expected = (CHECKS["balances"], CHECKS["sums"], VERIFIED["current"])
    assert len(failed) == len(expected), after.stdout
    # A long line is wrapped.
    assert all(words[:40] in line for words, line in zip(expected, failed, strict=True)), (
        after.stdout
    )
    assert "Not reconciled" in after.stdout
    assert '"aid": 17' in after.stdout
    assert "123456789" in after.stdout
    assert "Not reconciled" in (demo.out / "report.html").read_text(encoding="utf-8")


def test_dashboard_of_the_demo_is_served_until_interrupted(demo: Demo, outcome: Outcome):
    # The run itself takes a minute: this one is the run of the other tests, which has ended.
    finished = (
        "import types; from pgsluice.demo import run; from pgsluice.cli.main import main; "
        "run.run_demo = lambda *_: types.SimpleNamespace(reconciled=True, as_json=dict); "
        "main(['demo', '--json', '--dashboard'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", finished],
        env={**demo.environ, "PGSLUICE_DSN": demo.server.url()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        printed = re.fullmatch(
            r"Dashboard: (http://127\.0\.0\.1:\d+/)\?key=\S+ \(Ctrl-C ends it\)\n",
            process.stderr.readline(),
        )
        assert printed is not None
        with urlopen(f"{printed[1]}queues", timeout=30) as response:
            assert ">orders</a>" in response.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_interrupted_demo_ends_in_seconds_without_a_traceback(demo: Demo, outcome: Outcome):
    process = demo.start("--duration", 30)
    loading = (
        f"select finished_at is null and prepared_at is not null and ({LOADING}) from demo.run"
    )
    wait_until(lambda: demo.fetch(loading) is True, "the load", STEP_DEADLINE_S)

    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    interrupted_s = time.monotonic()
    stdout, stderr = process.communicate(timeout=RUN_DEADLINE_S)

    assert time.monotonic() - interrupted_s < 5
    assert process.returncode == 130, stderr
    assert stderr.endswith("interrupted: run the demo again to continue\n")
    assert "Traceback" not in stdout + stderr
