"""`verify_current` at a tick, while writers and the pipeline continue."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyiceberg.exceptions import CommitFailedException

from pgsluice.errors import ConfigurationError, LogStateError, SluiceError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.changes import ChangeStream, changes
from pgsluice.pipelines.keeper import Keeper
from pgsluice.pipelines.options import CurrentStateOptions, StreamOptions
from pgsluice.verify import Report, verify_current
from spark.conftest import LOG
from support import wait_until
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 200


class Writer:
    """A thread that inserts, updates, deletes and re-keys rows, and leaves ids below 1 alone."""

    def __init__(self, database: Database, seed: int) -> None:
        self.commits = 0
        self._seed = seed
        self._database = database
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(30)

    def _write(self) -> None:
        dice = random.Random(self._seed)
        with self._database.connect() as connection:
            while not self._stop.wait(0.005):
                key = dice.randint(1, ROWS)
                connection.execute(
                    dice.choice(
                        [
                            "update account set name = name || 'x' where id = %(key)s",
                            "delete from account where id = %(key)s",
                            "insert into account values (%(key)s, 'new') on conflict do nothing",
                            "update account set id = id + 1000 where id = %(key)s "
                            "and not exists (select from account where id = %(key)s + 1000)",
                        ]
                    ),
                    {"key": key},
                )
                self.commits += 1


def plant(place: Path | IcebergAddress) -> None:
    """Change a row with another tool, again while the pipeline's commits come first."""
    for _ in range(50):
        with suppress(CommitFailedError, CommitFailedException):
            return plant_once(place)
    raise AssertionError("the pipeline's commits came first each time")


def plant_once(place: Path | IcebergAddress) -> None:
    if isinstance(place, Path):
        DeltaTable(place).update({"name": "'planted'"}, predicate="id = -7")
        return
    with opened_catalog(place.catalog) as catalog:
        table = catalog.load_table(place.identifier)
        row = table.scan("id = -7").to_arrow()
        at = row.column_names.index("name")
        changed = row.set_column(at, "name", pa.array(["planted"], row["name"].type))
        table.overwrite(changed, overwrite_filter="id = -7")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_no_false_difference_while_writers_go_on_and_a_planted_one_is_found(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    seed: int,
    request: pytest.FixtureRequest,
):
    place = request.getfixturevalue("iceberg") if kind == "iceberg" else tmp_path / "lake"
    monkeypatch.setitem(Keeper.__init__.__kwdefaults__, "report_s", 0.2)
    log.execute("create table account (id int primary key, name text)")
    log.execute("create table bag (name text)")
    for table in ("account", "bag"):
        log.execute("select sluice.capture(%s, %s)", (table, LOG))
    log.execute(f"insert into account select n, 'old' from generate_series(-50, {ROWS}) as n")
    log.execute("insert into bag values ('a')")
    current = tables_in(place)
    account = current.place_of(TableName("public", "account"))

    def verified(table: str = "account", **options: object) -> Report:
        lake = str(current.place_of(TableName("public", table)))
        return verify_current(f"public.{table}", lake, at_tick=LOG, dsn=database_18.url, **options)

    writer = Writer(database_18, seed)
    with changes(LOG, place, tmp_path / "checkpoint", dsn=database_18.url, spark=spark, reading=StreamOptions(trigger_s=0.1)) as stream:  # fmt: skip
        stream.catch_up()
        with writer.running():
            reports = []
            while len(reports) < 8 or not any(report.skipped for report in reports):
                before = writer.commits
                wait_until(lambda at=before: writer.commits > at + 5, "the writer to go on")
                reports.append(verified())
            # Without the tick, the same tables differ.
            naive = [verify_current("account", str(account), dsn=database_18.url) for _ in range(3)]

            assert [report.counts for report in reports if not report.equal] == []
            assert not all(report.equal for report in naive)
            assert min(report.postgresql.rows for report in reports) > 51

            plant(account)
            (difference,) = verified().differences
            assert (difference.kind, difference.key) == ("changed", {"id": "-7"})
            assert difference.lake == {"name": "planted"}

            with pytest.raises(ConfigurationError, match=r"public.bag' has no key"):
                verified("bag")

    log.execute("insert into account values (-100, 'not in the lake')")
    with pytest.raises(SluiceError, match="did not write the events of log 'log' within 0 s"):
        verified(deadline_s=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_changes_that_wait_for_the_next_update_are_no_differences(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    request: pytest.FixtureRequest,
):
    lake = request.getfixturevalue("iceberg") if kind == "iceberg" else tmp_path / "lake"
    monkeypatch.setitem(Keeper.__init__.__kwdefaults__, "report_s", 0.2)
    log.execute("create table account (id int primary key, name text)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account values (1, 'a')")
    account = str(tables_in(lake).place_of(TableName("public", "account")))

    def running(apply_every_s: float) -> ChangeStream:
        return changes(LOG, lake, tmp_path / "checkpoint", dsn=database_18.url, spark=spark, reading=StreamOptions(trigger_s=0.1), state=CurrentStateOptions(apply_every_s=apply_every_s))  # fmt: skip

    def verified(deadline_s: float = 60) -> Report:
        return verify_current(
            "account", account, at_tick=LOG, dsn=database_18.url, deadline_s=deadline_s
        )

    with running(3) as stream:
        stream.catch_up()
        log.execute("update account set name = 'b'; insert into account values (2, 'c')")
        assert verified().equal
    with running(3600) as stream:
        # The first changes after a start are applied at once; the interval begins with them.
        log.execute("insert into account values (3, 'x')")
        stream.catch_up()
        log.execute("update account set name = 'd'")
        with pytest.raises(
            SluiceError, match=r"did not update the current-state tables .* within 3 s"
        ):
            verified(deadline_s=3)
        stream.catch_up()
        log.execute("update account set name = 'e'")
        log.execute("select sluice.log_tick(%s)", (LOG,))
    with running(0) as stream:
        stream.catch_up()
        assert verified(deadline_s=10).equal


def test_table_that_is_truncated_meanwhile_is_refused(tmp_path: Path):
    import pyarrow as pa
    from deltalake import CommitProperties, Transaction, write_deltalake

    from pgsluice.verify.at_tick import changed_keys
    from pgsluice.verify.comparing import ComparedColumns
    from pgsluice.verify.lake import open_lake

    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "_seq": pa.array([5, 9], pa.int64())})
    write_deltalake(
        tmp_path,
        rows,
        commit_properties=CommitProperties(app_transactions=[Transaction("pgsluice:emptied", 7)]),
    )
    shape = ComparedColumns(("id",), ("text",), 1, {}, (), ())

    assert changed_keys(open_lake(tmp_path), shape, frozenset({8, 9})) == {b"2"}
    with pytest.raises(LogStateError, match="was truncated meanwhile"):
        changed_keys(open_lake(tmp_path), shape, frozenset({7, 8}))
