"""Iceberg tables in a REST catalogue, with files on disk and in an object store, and readers of other projects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.jobs import compact, show, vacuum
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.archive import archive
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.current_state.envelope import Change
from pgsluice.pipelines.current_state.snapshot import rebuild
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.pipelines.options import CurrentStateOptions
from pgsluice.verify import verify_archive, verify_changes, verify_current
from spark.changing import KINDS, NAME, apply, live, stored
from spark.conftest import LOG
from support.object_store import environment, free_port
from support.rest_catalog import RestCatalogServer, running_rest_catalog
from support.servers import Database

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

LAKE = "iceberg:store/shop"


@pytest.fixture(params=["disk", "object store"])
def warehouse(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "disk":
        return str(tmp_path / "warehouse")
    request.getfixturevalue("object_store")
    return f"s3://lake/{uuid4()}"


@pytest.fixture
def rest(
    warehouse: str, object_store_port: int, home: Path, tmp_path: Path
) -> Iterator[RestCatalogServer]:
    """A REST catalogue `store`, configured for this process and Spark's; its clients know their stores from there."""
    prefix = "PYICEBERG_CATALOG__STORE__S3__"
    access = {
        f"s3.{name.removeprefix(prefix).lower().replace('_', '-')}": value
        for name, value in environment(object_store_port).items()
        if name.startswith(prefix)
    }
    config = home / ".pyiceberg.yaml"
    uri = f"sqlite:///{tmp_path}/catalogue.db"
    with running_rest_catalog(free_port(), uri=uri, warehouse=warehouse, **access) as server:
        config.write_text(
            f"catalog:\n  store:\n    type: rest\n    uri: {server.url}\n    warehouse: {warehouse}\n"
        )
        yield server
        config.unlink()


on_disk = pytest.mark.parametrize("warehouse", ["disk"], indirect=True)


def insert(number: int, seq: int) -> Change:
    return Change(NAME, ("id",), seq, seq, "c", None, {"id": number, "name": str(seq)})


def contents(table: CurrentTable) -> list[tuple]:
    return live(stored(table))


def test_commit_with_lost_answer_is_not_repeated(rest: RestCatalogServer):
    table = CurrentTable.create(tables_in(LAKE), NAME, ("id",), KINDS)
    apply(table, [insert(1, 1)], version=0)
    rest.lose_answers(1)

    with pytest.raises(SluiceError, match="the Iceberg catalogue 'store' failed: .*lost"):
        apply(table.again(), [insert(1, 2), insert(2, 3)], version=1)

    before = rest.commits
    assert not apply(table.again(), [insert(1, 2), insert(2, 3)], version=1)
    assert (rest.commits, rest.faults_left()) == (before, 0)
    assert contents(table) == [(1, "2", None), (2, "3", None)]


def test_stale_writer_is_refused_and_files_are_compacted_and_vacuumed(rest: RestCatalogServer):
    table = CurrentTable.create(tables_in(LAKE), NAME, ("id",), KINDS)
    apply(table, [insert(1, 1)], version=0)
    stale = table.again()
    for version in range(1, 4):
        apply(table.again(), [insert(version + 1, version + 1)], version=version)

    assert not apply(stale, [insert(9, 9)], version=3)
    assert apply(stale, [insert(1, 10)], version=4)

    place = str(tables_in(LAKE).place_of(NAME))
    assert compact(place).files_added == 1
    assert vacuum(place, retention_hours=24).files == []
    state = show(place)
    assert (state.rows, state.files) == (4, 1)
    assert contents(table) == [(1, "10", None), *((n, str(n), None) for n in (2, 3, 4))]


@pytest.mark.slow
def test_metadata_does_not_grow_with_the_number_of_commits(rest: RestCatalogServer):
    table = CurrentTable.create(tables_in(LAKE), NAME, ("id",), KINDS)
    counts = []
    for version in range(30):
        apply(table.again(), [insert(1, version + 1)], version=version)
        snapshot = table.again().stored.table.current_snapshot()
        counts.append(len(snapshot.manifests(table.stored.table.io)))

    assert max(counts) <= 2, counts
    assert contents(table) == [(1, "30", None)]


@on_disk
def test_catalog_errors_name_the_catalog_and_the_solution(
    rest: RestCatalogServer, home: Path, tmp_path: Path
):
    config = home / ".pyiceberg.yaml"
    text = config.read_text()
    config.write_text(text.replace(f"warehouse: {tmp_path}/warehouse", "warehouse: demo"))
    with pytest.raises(ConfigurationError, match="set the property location of the namespace shop"):
        tables_in(LAKE)
    with opened_catalog("store") as catalog:
        catalog.create_namespace("shop", {"location": f"{tmp_path}/warehouse/elsewhere"})
    table = CurrentTable.create(tables_in(LAKE), NAME, ("id",), KINDS)
    assert (tmp_path / "warehouse" / "elsewhere" / "public__account" / "metadata").is_dir()
    apply(table, [insert(1, 1)], version=0)
    assert contents(table) == [(1, "1", None)]

    config.write_text(text.replace(rest.url, f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(SluiceError, match="the Iceberg catalogue 'store' failed"):
        tables_in(LAKE)


@pytest.mark.slow
def test_pipelines_write_into_a_rest_catalog(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    rest: RestCatalogServer,
    tmp_path: Path,
):
    def run(**options: object) -> tuple[str, ...]:
        state = CurrentStateOptions(**options)  # type: ignore[arg-type]
        stream = changes(
            LOG, LAKE, tmp_path / "notes", dsn=database_18.url, spark=spark, once=True, state=state
        )
        return stream.progress().parked

    def equal() -> bool:
        place = tables_in(LAKE).place_of(NAME)
        return verify_current("account", str(place), dsn=database_18.url).equal

    log.execute("create table account (id int primary key, name text)")
    log.execute("select sluice.capture('account', %s)", (LOG,))
    log.execute("insert into account select n, 'first' from generate_series(1, 50) n")
    assert run(snapshots=["account"]) == ()
    for statement in (
        "update account set name = 'second' where id % 5 = 0",
        "alter table account add column ratio real; update account set ratio = 0.5 where id < 9",
        "alter table account alter ratio type float8; delete from account where id > 40",
        "truncate account; insert into account values (7, 'seven')",
    ):
        log.execute(statement)  # type: ignore[arg-type]
        rest.lose_answers(1)
        with pytest.raises(SluiceError):
            run(snapshots=["account"])
        assert run(snapshots=["account"]) == ()
        assert rest.faults_left() == 0
        assert equal(), statement

    log.execute("alter table account drop constraint account_pkey, add primary key (id, name)")
    log.execute("update account set name = 'eight' where id = 7")
    assert run(snapshots=["account"]) == ("public.account",)
    rebuild("public.account", LAKE, dsn=database_18.url)
    assert run(snapshots=["account"]) == ()
    assert equal()
    assert verify_changes(LOG, LAKE, dsn=database_18.url).problems == {}

    queue = WorkQueue(log)
    queue.create("orders")
    queue.archive_batch("orders", queue.send_batch("orders", [{"n": n} for n in range(10)]))
    place = "iceberg:store/shop.orders"
    for left in ((10, 10, 10), (0, 0, 0)):
        progress = archive("orders", place, drop=True, dsn=database_18.url, spark=spark)
        assert (progress.rows, progress.verified, progress.dropped) == left
    assert verify_archive("orders", place, dropped=True, dsn=database_18.url).equal


@on_disk
def test_other_readers_see_the_rows(rest: RestCatalogServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    table = CurrentTable.create(tables_in(LAKE), NAME, ("id",), KINDS)
    apply(table, [insert(n, n) for n in range(1, 6)], version=0)
    apply(table.again(), [insert(2, 9)], version=1)
    gone = Change(NAME, ("id",), 10, 10, "d", {"id": 3}, None)
    apply(table.again(), [gone], version=2)
    expected = [(1, "1"), (2, "9"), (4, "4"), (5, "5")]
    newest = table.again().stored.table

    rows = newest.scan("_deleted = false", selected_fields=("id", "name")).to_arrow()
    assert sorted(map(tuple, (row.values() for row in rows.to_pylist()))) == expected
    assert read_by_duckdb(newest.metadata_location) in (expected, None)
    assert read_by_polars(newest) in (expected, None)


def read_by_duckdb(metadata: str) -> list[tuple] | None:
    import duckdb

    with duckdb.connect() as connection:
        try:
            connection.execute("load iceberg")
        except duckdb.Error:
            return None  # its extension is not installed
        path = metadata.removeprefix("file://")
        return connection.execute(
            "select id, name from iceberg_scan(?) where not _deleted order by id", [path]
        ).fetchall()


def read_by_polars(table: Table) -> list[tuple] | None:
    try:
        import polars as pl
    except ImportError:
        return None
    rows = pl.scan_iceberg(table).filter(~pl.col("_deleted")).select("id", "name")
    return sorted(rows.collect().rows())
