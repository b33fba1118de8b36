"""Iceberg tables in SQLite and PostgreSQL catalogues: each version of an app is committed once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.iceberg import jobs as iceberg_jobs
from pgsluice.lake.iceberg import table as iceberg_table
from pgsluice.lake.iceberg.catalog import load_table, opened_catalog
from pgsluice.lake.iceberg.table import IcebergLakeTable
from pgsluice.lake.jobs import compact, show, vacuum
from pgsluice.lake.table import LakeTable
from pgsluice.pipelines.events import events
from pgsluice.pipelines.replay import replay
from pgsluice.spark.lake_reading import read_iceberg
from pgsluice.spark.lake_source import IcebergSource
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.schemas import struct
from pgsluice.spark.stream import LOG_SCHEMA
from pgsluice.verify.lake import open_lake
from spark.conftest import LOG
from spark.writing import insert
from support.servers import Database

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")

SCHEMA = struct(id="long", at="timestamp", text="string", small="short")
PLACE = "iceberg:lake/events.orders"
APP = "pgsluice:test"


def catalogue_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder / 'catalogue.db'}"
    database: Database = request.getfixturevalue("database_18")
    return database.url.replace("postgresql://", "postgresql+psycopg://", 1)


@pytest.fixture(params=["sqlite", "postgresql"])
def warehouse(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder of a configured catalogue, with a name that must be escaped in URLs."""
    folder = tmp_path / "a warehouse"
    monkeypatch.setenv(
        "PYICEBERG_CATALOG__LAKE__URI", catalogue_of(request.param, tmp_path, request)
    )
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", str(folder))
    return folder


only_sqlite = pytest.mark.parametrize("warehouse", ["sqlite"], indirect=True)


def table(*partition_by: str) -> LakeTable:
    return table_at(PLACE, SCHEMA, partition_by=partition_by)


def batches(*ids: int) -> Iterator[pa.RecordBatch]:
    moment = datetime(2026, 1, 1, 0, 0, 0, 123456, UTC)
    rows = [{"id": i, "at": moment, "text": f"№ {i % 3}", "small": i} for i in ids]
    yield pa.RecordBatch.from_pylist(
        rows,
        pa.schema(
            [
                ("id", pa.int64()),
                ("at", pa.timestamp("us", "UTC")),
                ("text", pa.string()),
                ("small", pa.int16()),
            ]
        ),
    )


def add(*ids: int, version: int | None, app_id: str | None = APP) -> bool:
    one = table()
    return one.commit(one.write(batches(*ids), part=0), app_id=app_id, version=version)


def asked(question: Callable[[Table], object]) -> object:
    """Return the rows as pyiceberg reads them."""
    with opened_catalog("lake") as catalog:
        there = load_table(catalog, IcebergAddress("lake", "events.orders"))
        assert there is not None
        return question(there)


def ids() -> list[int]:
    return sorted(asked(lambda there: there.scan().to_arrow().column("id").to_pylist()))


def test_a_version_is_added_once(warehouse: Path):
    one = table()
    assert one.last_version(APP) is None

    assert add(1, 2, version=0)
    assert not add(1, 2, version=0)
    assert add(3, version=1)
    assert not add(4, version=0)
    assert add(5, version=0, app_id="other")

    assert ids() == [1, 2, 3, 5]
    assert (one.last_version(APP), one.last_version("other"), one.row_count()) == (1, 0, 4)
    summary = asked(lambda there: there.current_snapshot().summary.additional_properties)
    assert (summary["pgsluice.app-id"], summary["pgsluice.version"]) == ("other", "0")


@pytest.mark.slow
def test_of_committers_at_the_same_moment_one_wins_and_other_apps_all_do(warehouse: Path):
    # The catalogue exists and the table does not, so they also create it concurrently.
    assert table().last_version(APP) is None
    same = [(APP, 0)] * 4
    others = [(f"app {number}", 0) for number in range(4)]

    def commit(number: int) -> bool:
        app_id, version = (same + others)[number]
        return add(number, version=version, app_id=app_id)

    with ThreadPoolExecutor(8) as pool:
        committed = list(pool.map(commit, range(8)))

    assert committed[:4].count(True) == 1
    assert committed[4:] == [True] * 4
    assert ids() == [committed.index(True), 4, 5, 6, 7]


def committing_late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Return a stale driver's commit, which another driver's commit of the version precedes."""
    commit = IcebergLakeTable._change

    def late(self: IcebergLakeTable, *arguments: object) -> None:
        monkeypatch.setattr(IcebergLakeTable, "_change", commit)
        assert add(1, version=7)
        commit(self, *arguments)

    def run() -> bool:
        monkeypatch.setattr(IcebergLakeTable, "_change", late)
        return add(1, version=7)

    return run


def test_a_driver_that_was_thought_dead_adds_nothing(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
):
    add(0, version=6)

    assert not committing_late(monkeypatch)()

    assert ids() == [0, 1]


@only_sqlite
def test_left_alone_pyiceberg_would_add_its_rows_twice(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("_NO_RETRIES", "_PROPERTIES"):
        monkeypatch.setattr(iceberg_table, name, {})
    add(0, version=6)

    assert committing_late(monkeypatch)()

    assert ids() == [0, 1, 1]


@only_sqlite
def test_a_table_whose_retries_were_switched_on_again_is_set_right(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
):
    add(0, version=6)

    def switch_on(there: Table) -> None:
        with there.transaction() as transaction:
            transaction.set_properties({"commit.retry.num-retries": "4"})

    asked(switch_on)

    assert not committing_late(monkeypatch)()
    assert ids() == [0, 1]


# The process kills itself before or after the catalogue commits rows, as its first argument says.
DYING_CATALOG = """
import os, signal, sys
from pyiceberg.catalog.sql import SqlCatalog

commit_table, moment = SqlCatalog.commit_table, sys.argv[1]

def dying(self, table, requirements, updates):
    adds_rows = any(update.action == "add-snapshot" for update in updates)
    if adds_rows and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    answer = commit_table(self, table, requirements, updates)
    if adds_rows and moment == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return answer

SqlCatalog.commit_table = dying
"""
DYING = f"""{DYING_CATALOG}
from spark.test_iceberg import add
add(*map(int, sys.argv[3:]), version=int(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "version", "expected"),
    [("before", 0, True), ("after", 0, False), ("after", 5, False)],
)
@only_sqlite
def test_killed_before_or_after_the_catalogues_commit_a_replay_completes_it(
    warehouse: Path, moment: str, version: int, expected: bool
):
    if version:
        add(0, version=version - 1)
    before = [0] if version else []

    killed = subprocess.run(
        [sys.executable, "-c", DYING, moment, str(version), "1", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=60,
        capture_output=True,
    )

    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert add(1, 2, version=version) is expected
    assert ids() == [*before, 1, 2]


@only_sqlite
def test_partitions_have_folders_and_are_known_to_the_table(warehouse: Path):
    one = table("text")
    one.commit(one.write(batches(0, 1, 2, 3), part=0), app_id=APP, version=0)

    def of_one_value(there: Table) -> list[int]:
        scan = there.scan(row_filter="text = '№ 1'")
        assert len(list(scan.plan_files())) == 1
        return scan.to_arrow().column("id").to_pylist()

    assert asked(of_one_value) == [1]
    assert (warehouse / "events" / "orders" / "data" / "text=№ 1").is_dir()
    assert table().partition_by == ("text",)
    with pytest.raises(ConfigurationError, match="is partitioned by text, not by id"):
        table("id").create()


def test_compaction_and_vacuum_keep_the_rows_and_what_was_committed(warehouse: Path):
    for version in range(4):
        add(version, version=version)
    folder = warehouse / "events" / "orders"

    done = compact(PLACE)

    assert (done.files_removed, done.files_added) == (4, 1)
    assert ids() == [0, 1, 2, 3]
    assert not add(3, version=3)
    orphan = table().write(batches(9), part=0)[0]
    then = time.time() - 300 * 3600
    os.utime(folder / "data" / orphan.path, (then, then))
    assert list(vacuum(PLACE, dry_run=True).files) == [f"data/{orphan.path}"]
    assert list(vacuum(PLACE).files) == [f"data/{orphan.path}"]
    assert ids() == [0, 1, 2, 3]
    state = show(PLACE, history=2)
    assert (state.format, state.rows, state.files, state.small_files) == ("iceberg", 4, 1, 1)
    assert [commit.operation for commit in state.history] == ["overwrite", "append"]


@only_sqlite
def test_vacuum_expires_old_snapshots_and_forgets_no_version(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
):
    for version in range(4):
        add(version, version=version)
    compact(PLACE)
    age_snapshots(warehouse)

    removed = vacuum(PLACE, retention_hours=1)

    data = [name for name in removed.files if name.startswith("data/")]
    assert len(data) == 4
    assert any(name.startswith("metadata/") for name in removed.files)
    assert ids() == [0, 1, 2, 3]
    assert asked(lambda there: len(there.snapshots())) == 1
    assert not add(3, version=3)
    assert vacuum(PLACE, retention_hours=1).files == []


def age_snapshots(warehouse: Path) -> None:
    """Make every file and snapshot a day older."""

    def rewrite(there: Table) -> None:
        path = Path(there.metadata_location)
        text = path.read_text()
        for snapshot in there.snapshots():
            text = text.replace(
                f'"timestamp-ms":{snapshot.timestamp_ms}',
                f'"timestamp-ms":{snapshot.timestamp_ms - 86_400_000}',
            )
        path.write_text(text)

    asked(rewrite)
    then = time.time() - 86_400
    for path in warehouse.rglob("*.*"):
        os.utime(path, (then, then))


@only_sqlite
def test_a_commit_that_comes_while_a_table_is_compacted_stays(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
):
    for version in range(3):
        add(version, version=version)
    rewrite = iceberg_jobs._rewritten

    def then_add(*arguments: object) -> object:
        written = rewrite(*arguments)
        add(3, version=3)
        return written

    monkeypatch.setattr(iceberg_jobs, "_rewritten", then_add)

    assert compact(PLACE).files_removed == 3

    assert ids() == [0, 1, 2, 3]


@only_sqlite
def test_a_file_that_a_vacuum_took_is_not_committed(warehouse: Path):
    one = table()
    one.create()
    written = one.write(batches(1), part=0)
    (Path(one.path) / written[0].path).unlink()

    with pytest.raises(SluiceError, match="was removed before its commit"):
        one.commit(written, app_id=APP, version=0)

    assert one.last_version(APP) is None


@pytest.mark.parametrize(
    "address", ["iceberg:lake", "iceberg:lake/orders", "iceberg:/a.b", "iceberg:lake/a..b"]
)
def test_an_address_that_is_none_is_refused(address: str):
    with pytest.raises(ConfigurationError, match="write iceberg:catalogue/namespace.table"):
        parse(address)


def test_catalog_unsupported_by_pyiceberg_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigurationError, match="set PYICEBERG_CATALOG__NONE__URI"):
        table_at("iceberg:none/a.b", SCHEMA)
    monkeypatch.setenv("PYICEBERG_CATALOG__NONE__URI", "sqlite://")
    with pytest.raises(ConfigurationError, match="has no warehouse"):
        table_at("iceberg:none/a.b", SCHEMA)
    monkeypatch.setenv("PYICEBERG_CATALOG__NONE__WAREHOUSE", "ftp://host/lake")
    with pytest.raises(
        ConfigurationError, match="neither a folder nor in a supported object store"
    ):
        table_at("iceberg:none/a.b", SCHEMA)
    with pytest.raises(ConfigurationError, match="give iceberg:catalogue/namespace.table"):
        IcebergSource({"path": "/lake"}).writer(SCHEMA, False)


def test_unreachable_catalog_error_hides_the_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    uri = "postgresql+psycopg://user:hidden-word@127.0.0.1:1/none"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", str(tmp_path))

    with pytest.raises(SluiceError, match="the Iceberg catalogue 'lake' failed") as failure:
        table()

    assert "hidden-word" not in str(failure.value)
    assert failure.value.__cause__ is None


@pytest.mark.slow
def test_a_log_streams_into_it_and_is_read_back_without_a_jar(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    home: Path,
    tmp_path: Path,
):
    (home / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    uri: sqlite:///{tmp_path}/c.db\n    warehouse: {tmp_path}/w\n"
    )

    for data in ("first", "second"):
        insert(log, data)
        events(LOG, PLACE, tmp_path / "notes", dsn=database_18.url, once=True, spark=spark)

    back = read_iceberg(spark, parse(PLACE))
    assert back.schema == LOG_SCHEMA
    assert sorted(row.ev_data for row in back.collect()) == ["first", "second"]
    assert len(show(PLACE).history) == 2
    with pytest.raises(ConfigurationError, match=f"the lake table {PLACE} holds rows"):
        events(LOG, PLACE, tmp_path / "others", dsn=database_18.url, once=True, spark=spark)


@pytest.mark.slow
def test_its_rows_are_replayed_as_they_were_when_the_replay_began(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    home: Path,
    tmp_path: Path,
):
    (home / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    uri: sqlite:///{tmp_path}/c.db\n    warehouse: {tmp_path}/w\n"
    )
    log.execute("select pgmq.create('again')")

    def replayed(name: str) -> list[str]:
        replay(PLACE, name, queue="again", dsn=database_18.url, spark=spark)
        sent = log.execute("select message, headers from pgmq.q_again order by msg_id").fetchall()
        assert {headers["x-pgmq-replayed-from"]["lake"] for _, headers in sent} == {"events.orders"}
        return [message["ev_data"] for message, _ in sent]

    insert(log, "first")
    events(LOG, PLACE, tmp_path / "notes", dsn=database_18.url, once=True, spark=spark)
    assert replayed("once") == ["first"]
    insert(log, "second")
    events(LOG, PLACE, tmp_path / "notes", dsn=database_18.url, once=True, spark=spark)

    assert replayed("once") == ["first"]
    assert replayed("all") == ["first", "first", "second"]


def renamed(there: Table) -> None:
    with there.update_schema() as change:
        change.rename_column("text", "words")


def replaced(there: Table) -> None:
    with there.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("text")
    with there.update_schema() as change:
        change.add_column("text", there.schema().find_field("id").field_type)


def widened(there: Table) -> None:
    from pyiceberg.types import LongType

    with there.update_schema() as change:
        change.update_column("small", field_type=LongType())


def encrypted(there: Table) -> None:
    with there.transaction() as transaction:
        transaction.set_properties({"encryption.key-id": "k"})


@only_sqlite
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (renamed, "renamed"),
        (replaced, r"retyped columns \(text\)"),
        (widened, r"retyped columns \(small\)"),
        (encrypted, "uses encryption.key-id"),
    ],
)
def test_compaction_refuses_columns_that_its_files_do_not_show(
    warehouse: Path, change: Callable[[Table], None], message: str
):
    add(1, version=0)
    add(2, version=1)
    asked(change)

    with pytest.raises(ConfigurationError, match=message):
        compact(PLACE)


@only_sqlite
def test_verify_refuses_a_table_of_a_later_format(warehouse: Path, monkeypatch: pytest.MonkeyPatch):
    add(1, version=0)
    monkeypatch.setattr("pgsluice.lake.iceberg.features._FORMAT_VERSION_MAX", 1)

    for use in (open_lake, compact, lambda _: add(2, version=1)):
        with pytest.raises(ConfigurationError, match="uses format version 2"):
            use(PLACE)
