"""Partitions of captured tables that are dropped, detached or attached again: their rows in the lake."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from pgsluice.cli.main import cli
from pgsluice.lake.current_tables import read_states, request_rebuild
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.snapshot import Rebuilds, snapshot
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.spark.access import Access
from pgsluice.verify import verify_changes, verify_current
from spark.conftest import LOG
from spark.current_states import States
from spark.test_changes import Place, only_delta, place
from support.servers import Database

__all__ = ["place"]

NAME = "public.visit"
TABLE = TableName.parse(NAME)


class Lake(States):
    """A lake with the captured table `visit`, which has a partition for each ten ids."""

    def __init__(
        self, database: Database, log: psycopg.Connection, lake: Path, folder: Path
    ) -> None:
        super().__init__(database, log, tables_in(lake), folder)
        self.lake = lake
        self._access, self._folder = Access(dsn=database.url), folder
        self.dsn, self.log = database.url, log

    def create(self, policy: str | None, key: str) -> None:
        self.log.execute(f"create table visit (id int {key}, v text) partition by range (id)")  # type: ignore[arg-type]
        for number in range(3):
            self.log.execute(
                f"create table visit_{number} partition of visit for values from ({number}0) to ({number + 1}0)"  # type: ignore[arg-type]
            )
        options = {} if policy is None else {"dropped_partitions": policy}
        self.log.execute("select sluice.capture('visit', %s, %s)", (LOG, json.dumps(options)))
        self.log.execute("insert into visit select n, 'v' from generate_series(0, 29) as n")
        snapshot("visit", LOG, dsn=self.dsn)
        self.update()

    def follow(self) -> None:
        """Let maintenance notice changes of partitions, and bring the lake up to date with all rebuilds."""
        self.log.execute("select * from sluice.maintain()")
        self.update()
        rebuilds = Rebuilds(self.parking, lambda _: True, self._folder / "rebuilds")
        while rebuilds.pending():
            rebuilds.take_next(self._access, threading.Event(), nullcontext)
            self.update()

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.live(NAME))

    def equal(self) -> bool:
        return verify_current(NAME, self.at(NAME), dsn=self.dsn).equal

    def report(self) -> tuple[str | None, str | None]:
        """Return the problem of the table, and the rows that it keeps."""
        found = verify_changes(LOG, self.lake, dsn=self.dsn)
        return found.problems.get(NAME), found.kept.get(NAME)

    def description(self) -> str:
        table = CurrentTable.open(self.current, TABLE)
        assert table is not None
        return str(table.stored.description)


@pytest.fixture(params=["primary key", ""], ids=["key", "no key"])
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(
    database_18: Database,
    log: psycopg.Connection,
    tmp_path: Path,
) -> Lake:
    return Lake(database_18, log, tmp_path / "lake", tmp_path)


KEPT = "may have rows of former partitions public.visit_1"


@pytest.mark.parametrize("policy", [None, "keep"])
def test_rows_of_a_dropped_partition_stay_and_are_named(lake: Lake, policy: str | None, key: str):
    lake.create(policy, key)
    assert lake.report() == (None, None)
    lake.log.execute("drop table visit_1")
    lake.log.execute("delete from visit where id = 0")
    lake.follow()

    assert lake.ids() == list(range(1, 30))
    assert lake.report() == (None, KEPT)
    assert lake.description().endswith(f"; {KEPT}")
    assert "complete since" in lake.description()


def test_rows_of_a_dropped_partition_are_deleted(lake: Lake, key: str):
    lake.create("delete", key)
    lake.log.execute("drop table visit_1")
    lake.log.execute(
        "insert into visit values (29, 'w')" if not key else "update visit set v = 'w'"
    )
    lake.follow()

    assert lake.equal()
    assert 10 not in lake.ids()
    assert lake.report() == (None, None)
    lake.log.execute("delete from visit where id > 20")
    lake.follow()
    assert lake.equal()


def test_row_inserted_before_the_drop_and_not_yet_in_the_lake_is_deleted_too(lake: Lake):
    lake.create("delete", "primary key")
    lake.log.execute("update visit set v = 'w' where id = 15")
    lake.log.execute("drop table visit_1")
    request_rebuild(lake.current, TABLE)
    snapshot("visit", LOG, dsn=lake.dsn)
    lake.follow()

    assert lake.equal()


def test_partition_dropped_during_a_rebuild_is_deleted_by_another(lake: Lake):
    lake.create("delete", "primary key")
    lake.log.execute("drop table visit_1")
    lake.log.execute("select * from sluice.maintain()")
    lake.update()  # the rebuild has begun
    lake.log.execute("update visit set v = 'w' where id = 5")
    lake.log.execute("drop table visit_0")
    lake.log.execute("select * from sluice.maintain()")
    lake.update()
    lake.follow()

    assert lake.ids() == list(range(20, 30))
    assert lake.report() == (None, None)
    assert read_states(lake.current)[TABLE].own_rebuilds == 0


def test_rebuilt_table_has_no_rows_of_partitions_dropped_before(lake: Lake):
    lake.create("keep", "primary key")
    lake.log.execute("drop table visit_1")
    lake.follow()
    request_rebuild(lake.current, TABLE)
    snapshot("visit", LOG, dsn=lake.dsn)
    lake.follow()

    assert lake.equal()
    assert lake.report() == (None, None)


def attach(lake: Lake) -> None:
    lake.log.execute("alter table visit attach partition visit_1 for values from (10) to (20)")


def change_captured(lake: Lake) -> None:
    lake.log.execute("truncate visit_1; insert into visit_1 values (11, 'x'), (12, 'y')")
    lake.log.execute("update visit_1 set v = 'z' where id = 12")


def change_uncaptured(lake: Lake) -> None:
    lake.log.execute("select sluice.drop_capture('visit_1', %s)", (LOG,))
    change_captured(lake)


@pytest.mark.parametrize("change", [change_captured, change_uncaptured])
@pytest.mark.parametrize("policy", ["keep", "delete"])
@pytest.mark.parametrize("is_noticed", [True, False], ids=["noticed", "not noticed"])
def test_partition_that_is_changed_while_it_is_detached(
    lake: Lake, change: Callable[[Lake], None], policy: str, is_noticed: bool, key: str
):
    lake.create(policy, key)
    lake.log.execute("alter table visit detach partition visit_1")
    if is_noticed:
        lake.follow()
        assert lake.report()[1] == (KEPT if policy == "keep" else None)
        assert policy == "keep" or lake.equal()
    change(lake)
    attach(lake)
    lake.follow()
    lake.follow()

    problem, kept = lake.report()
    assert lake.equal() or "partition public.visit_1 was attached again or had no" in str(problem)
    assert kept is None or problem is not None
    # Only rows that were changed without capture are unknown.
    assert lake.equal() or change == change_uncaptured


def test_partition_attached_after_the_lake_was_rebuilt_without_it(lake: Lake):
    lake.create("keep", "primary key")
    lake.log.execute("alter table visit detach partition visit_1")
    lake.follow()
    request_rebuild(lake.current, TABLE)
    snapshot("visit", LOG, dsn=lake.dsn)
    lake.follow()
    assert lake.equal()
    attach(lake)
    lake.follow()

    assert not lake.equal()
    assert "partition public.visit_1 was attached again or had no" in str(lake.report()[0])


def test_partition_event_of_an_application_is_no_mark(lake: Lake):
    lake.create("delete", "primary key")
    for data in ("no json", '{"state": "dropped"}', "[]", '"dropped"'):
        lake.log.execute(
            "select pgq.insert_event(%s, 'sluice.partition', %s, 'public.visit', null, null, null)",
            (LOG, data),
        )
    lake.follow()
    assert lake.equal()
    assert lake.report() == (None, None)


def test_partition_attached_with_rows_keeps_those_of_the_others(lake: Lake, key: str):
    lake.create(None, key)
    lake.log.execute("create table more (id int not null, v text)")
    lake.log.execute("insert into more values (30, 'x'), (31, 'x')")
    lake.log.execute("alter table visit attach partition more for values from (30) to (40)")
    lake.log.execute("insert into visit values (32, 'x')")
    lake.follow()

    assert lake.ids() == list(range(33))
    assert lake.equal()


PROBLEMS = {
    "alter table visit_1 set unlogged": "table public.visit_1 is unlogged",
    "alter table visit disable trigger all": "changes of table public.visit are not captured",
    "drop table visit_1": "partitions of table public.visit were changed since the last maintenance",
}


@pytest.mark.parametrize("statement", PROBLEMS)
def test_table_whose_capture_has_a_problem_is_not_complete(lake: Lake, statement: str):
    lake.create(None, "primary key")
    lake.log.execute(statement)  # type: ignore[arg-type]

    problem, _ = lake.report()
    assert str(problem).startswith(PROBLEMS[statement])
    assert NAME not in verify_changes(LOG, lake.lake, dsn=lake.dsn).complete


@pytest.mark.slow
@only_delta
def test_pipeline_deletes_the_rows_of_a_dropped_partition_in_the_run_that_applies_the_drop(
    place: Place, log: psycopg.Connection
):
    for policy in ("keep", "delete"):
        name = f"visit_{policy}"
        log.execute(f"create table {name} (id int primary key) partition by list (id)")  # type: ignore[arg-type]
        for value in (1, 2):
            log.execute(f"create table {name}_{value} partition of {name} for values in ({value})")  # type: ignore[arg-type]
        options = json.dumps({"dropped_partitions": policy})
        log.execute("select sluice.capture(%s, %s, %s)", (name, LOG, options))
        log.execute(f"insert into {name} values (1), (2)")  # type: ignore[arg-type]
    place.run(snapshots=["visit_keep", "visit_delete"])
    log.execute("drop table visit_keep_1; drop table visit_delete_1")
    log.execute("select * from sluice.maintain()")

    assert place.run().progress().parked == ()

    assert place.rows("public.visit_delete") == [(2,)]
    assert place.rows("public.visit_keep") == [(1,), (2,)]
    found = verify_changes(LOG, place.lake, dsn=place.dsn)
    assert found.problems == {}
    kept = "may have rows of former partitions public.visit_keep_1"
    assert found.kept == {"public.visit_keep": kept}
    dsn = ("--dsn", place.dsn)
    arguments = ["pipeline", "verify", "changes", "--log", LOG, "--lake", str(place.lake), *dsn]
    for shown in (arguments, ["pipeline", "status", *dsn]):
        result = CliRunner().invoke(cli, shown, catch_exceptions=False)
        assert result.exit_code == 0
        assert kept in result.stdout
