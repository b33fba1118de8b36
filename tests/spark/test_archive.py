"""Archives into the lake: copied, verified, and only then dropped."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest

from pgsluice.client import WorkQueue
from pgsluice.client.calls.spark_exports import Backlog
from pgsluice.errors import ConfigurationError, ExportError, PrivilegeError, SluiceError
from pgsluice.lake.address import parse
from pgsluice.lake.archived import ranges_of
from pgsluice.lake.jobs import show
from pgsluice.pipelines.archive import ArchiveCopy, ArchiveProgress, CopySource, archive
from pgsluice.spark.access import Access
from pgsluice.spark.batch import ARCHIVE_SCHEMA
from pgsluice.spark.java import find_java
from pgsluice.spark.lake_tables import table_at
from pgsluice.verify import verify_archive
from pgsluice.verify.lake import open_lake
from spark.held import held, run
from spark.lake_reading import exists, lake_column, lake_table
from spark.plain_copy import PlainCopy
from support import rows, value
from support.exports import archived
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = Path(__file__).with_name("archive_driver.py")
STEPS = ("read", "files", "commit", "verify", "verified", "drop", "dropped")


@pytest.fixture
def queue(db: psycopg.Connection) -> WorkQueue:
    work = WorkQueue(db)
    work.create("orders")
    return work


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a table that does not exist, with a name that must be escaped in URLs."""
    if request.param == "iceberg":
        return f"{request.getfixturevalue('iceberg')}.lake"
    return str(tmp_path / "the läke")


def archive_new(queue: WorkQueue, count: int) -> list[int]:
    """Send and archive messages; every third one is read first and has other headers."""
    ids = queue.send_batch("orders", [{"n": n, "text": "🦆\n\t\"'"} for n in range(count)])
    queue.read("orders", vt=0, qty=count // 3 + 1)
    queue.archive_batch("orders", ids)
    return ids


def contents(db: psycopg.Connection) -> list[tuple]:
    return rows(
        db,
        "select msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt, message::text, headers::text "
        "from pgmq.a_orders order by msg_id",
    )


@pytest.mark.slow
@pytest.mark.parametrize("table", ["archive", "queue"])
def test_new_table_is_partitioned_and_later_copies_add_only_new_rows(
    spark: SparkSession,
    db: psycopg.Connection,
    database_18: Database,
    queue: WorkQueue,
    lake: str,
    table: str,
):
    def run(*partition_by: str) -> ArchiveProgress:
        options = {"table": table, "dsn": database_18.url, "spark": spark}
        return archive("orders", lake, partition_by=partition_by, **options)  # type: ignore[arg-type]

    by = ("archived_date", "read_ct") if table == "archive" else ("read_ct",)
    if table == "archive":
        archive_new(queue, 20)
        db.execute(
            "update pgmq.a_orders set archived_at = '2026-01-31 23:59:59.5+00' where msg_id < 4"
        )
    else:
        queue.send_batch("orders", [{"n": n} for n in range(20)])
        queue.read("orders", vt=0, qty=7)
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")  # UTC+14
    try:
        assert run(*by).rows == 20
        assert run().rows == 0
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert show(lake).partition_by == list(by)
    if table == "archive":
        names = ["archived_at", "archived_date"]
        stored = [row for batch in open_lake(lake).batches(names) for row in batch.to_pylist()]
        assert all(row["archived_date"] == row["archived_at"].date() for row in stored)
        assert len({row["archived_date"] for row in stored}) == 2
        assert value(db, "select count(*) from pgmq.a_orders") == 20
        assert archive("orders", lake, drop=True, dsn=database_18.url, spark=spark).dropped == 20
    assert verify_archive("orders", lake, table=table, dropped=True, dsn=database_18.url).equal
    with pytest.raises(ConfigurationError, match="is partitioned by .*, not by msg_id"):
        run("msg_id")


@pytest.mark.slow
def test_verified_rows_are_dropped_and_late_commits_are_exported_by_the_next_run(
    spark: SparkSession,
    db: psycopg.Connection,
    database_18: Database,
    queue: WorkQueue,
    lake: str,
):
    seen = []

    def run() -> ArchiveProgress:
        seen.clear()
        return archive(
            "orders", lake, drop=True, dsn=database_18.url, spark=spark, on_progress=seen.append
        )

    ids = archive_new(queue, 20)
    held = queue.send("orders", {"late": True})
    first = contents(db)
    with database_18.connect(autocommit=False) as late:
        late.execute("select pgmq.archive('orders', %s)", [held])
        ids += archive_new(queue, 5)
        one = run()
        assert seen[-1] == one
    left = archived(db)
    other = run()
    nothing = run()

    assert (one.rows, one.verified, one.dropped) == (25, 25, 25)
    assert left == [held]
    assert (other.rows, other.verified, other.dropped) == (1, 1, 1)
    assert nothing == ArchiveProgress()
    assert lake_column(lake, "msg_id") == sorted([*ids, held])
    in_lake = lake_table(lake).sort_by("msg_id").slice(0, 20)
    assert [tuple(row.values()) for row in in_lake.to_pylist()] == first


@pytest.mark.slow
def test_without_drop_it_is_retention_that_drops_and_only_what_is_verified(
    spark: SparkSession,
    db: psycopg.Connection,
    database_18: Database,
    queue: WorkQueue,
    tmp_path: Path,
):
    lake = tmp_path / "lake"
    queue.create_partitioned("parts", "10", "20")
    db.execute("select pgmq.send_batch('parts', array_fill('1'::jsonb, array[60]))")
    queue.archive_batch("parts", list(range(1, 16)))

    first = archive("parts", lake, dsn=database_18.url, spark=spark)
    queue.archive("parts", 19)
    db.execute("select * from sluice.maintain()")
    left = archived(db, "parts")
    second = archive("parts", lake, dsn=database_18.url, spark=spark)
    db.execute("select * from sluice.maintain()")

    assert (first.verified, first.dropped) == (15, 0)
    assert left == [*range(10, 16), 19]
    assert (second.rows, second.verified, second.dropped) == (1, 1, 0)
    assert archived(db, "parts") == []
    assert lake_column(lake, "msg_id") == [*range(1, 16), 19]


@pytest.mark.parametrize(
    ("firsts", "wanted"),
    [
        ([], []),
        ([0, 256, 1024], [(0, 1279)]),
        ([0, 100_000], [(0, 255), (100_000, 100_255)]),
        (range(0, 256 * 1000, 256), [(0, 99_839), (99_840, 199_679), (199_680, 255_999)]),
    ],
)
def test_adjacent_ranges_are_read_together_within_the_memory_limit(
    firsts: Sequence[int], wanted: list[tuple[int, int]]
):
    backlog = [Backlog(first, first + 255, 256) for first in firsts]

    assert [(ids.first, ids.last) for ids in ranges_of(backlog)] == wanted


def test_messages_that_are_far_apart_are_not_looked_for_one_by_one():
    backlog = [Backlog(n * 10_000, n * 10_000, 1) for n in range(20_000)]

    ranges = ranges_of(backlog)

    assert len(ranges) <= 50
    assert (ranges[0].first, ranges[-1].last) == (0, 199_990_000)


class FilledCopy(ArchiveCopy):
    """A copy that leaves filling the lake to the test."""

    def copy(self, reader: object, backlog: object) -> None:
        pass


def source(database: Database) -> CopySource:
    return CopySource("orders", "archive", "lake", Access(dsn=database.url))


def filled(database: Database, lake: Path | str) -> FilledCopy:
    return FilledCopy(source(database), parse(lake))


def fill(lake: Path | str, messages: list[tuple], version: int = 0) -> None:
    table = table_at(str(lake), ARCHIVE_SCHEMA)
    columns = list(zip(*messages, strict=True))
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, table.arrow_schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=table.arrow_schema)
    table.commit(
        table.write(iter([batch]), part=0), app_id="pgsluice:archive:orders", version=version
    )


def test_archive_row_that_differs_in_the_lake_is_named_and_kept(
    db: psycopg.Connection, database_18: Database, queue: WorkQueue, lake: str
):
    archive_new(queue, 4)
    messages = contents(db)
    messages[2] = (*messages[2][:6], '{"n": 2}', None)
    fill(lake, messages)

    with pytest.raises(
        SluiceError, match="1 messages in the lake table .* differ from the archive of queue"
    ):
        filled(database_18, lake).run(drop=True)

    assert archived(db) == [1, 2, 3, 4]
    assert value(db, "select sluice.drop_exported('orders')") == 3


def test_archive_row_duplicated_in_the_lake_is_named_and_kept(
    db: psycopg.Connection, database_18: Database, queue: WorkQueue, lake: str
):
    archive_new(queue, 4)
    for version in range(2):
        fill(lake, contents(db)[1:2], version)

    with pytest.raises(SluiceError, match="holds the message with msg_id 2 twice"):
        filled(database_18, lake).run(drop=True)

    assert archived(db) == [1, 2, 3, 4]


def test_a_message_that_is_not_in_the_lake_is_kept(
    db: psycopg.Connection, database_18: Database, queue: WorkQueue, lake: str
):
    archive_new(queue, 4)
    messages = contents(db)
    fill(lake, [messages[0], messages[3]])

    copy = filled(database_18, lake)
    copy.run(drop=True)

    assert (copy.progress.verified, copy.progress.dropped) == (2, 2)
    assert archived(db) == [2, 3]


def test_verified_files_are_synced_to_disk_for_any_folder_name(
    db: psycopg.Connection,
    database_18: Database,
    queue: WorkQueue,
    lake: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    forced = set()
    archive_new(queue, 1)
    fill(lake, contents(db))
    monkeypatch.setattr(os, "fsync", lambda handle: forced.add(os.fstat(handle).st_ino))

    filled(database_18, lake).run(drop=True)

    assert archived(db) == []
    # The file that probed the folder has been deleted.
    folder = tmp_path / ("a warehouse/shop/lake" if lake.startswith("iceberg:") else "the läke")
    named = {path for path in (folder, *folder.rglob("*")) if "00000-" not in path.name}
    assert forced >= {path.stat().st_ino for path in named}


def test_a_new_table_does_not_take_the_place_of_the_one_that_was_verified(
    db: psycopg.Connection, database_18: Database, queue: WorkQueue, tmp_path: Path
):
    archive_new(queue, 1)
    fill(tmp_path / "lake", contents(db))
    filled(database_18, tmp_path / "lake").run(drop=False)
    (tmp_path / "lake").rename(tmp_path / "away")

    with pytest.raises(ExportError, match="is of another table than the one in"):
        filled(database_18, tmp_path / "lake").run(drop=True)
    assert archived(db) == [1]
    filled(database_18, tmp_path / "away").run(drop=True)
    assert archived(db) == []


@pytest.mark.slow
def test_copies_are_repeated_until_they_are_stopped(
    spark: SparkSession,
    db: psycopg.Connection,
    database_18: Database,
    queue: WorkQueue,
    tmp_path: Path,
):
    stop = threading.Event()
    archive_new(queue, 3)

    def step(progress: ArchiveProgress) -> None:
        if progress.dropped == 3 and progress.rows == 3:
            archive_new(queue, 1)
        if progress.dropped == 4:
            stop.set()

    ended = archive(
        "orders", tmp_path / "lake", drop=True, once=False, every_s=0.01, stop=stop,
        dsn=database_18.url, spark=spark, on_progress=step,
    )  # fmt: skip

    assert (ended.rows, ended.micro_batches, ended.verified, ended.dropped) == (4, 2, 4, 4)


def test_a_role_that_may_only_read_cannot_have_messages_kept(
    database_18: Database, queue: WorkQueue, tmp_path: Path, db: psycopg.Connection
):
    db.execute("create role copier login in role sluice_reader")
    try:
        dsn = psycopg.conninfo.make_conninfo(database_18.url, user="copier", password="")
        with pytest.raises(PrivilegeError, match="permission denied for function create_export"):
            archive("orders", tmp_path / "lake", dsn=dsn)
    finally:
        db.execute("drop role copier")


@pytest.mark.slow
def test_the_rows_of_two_queues_are_not_mixed_in_one_table(
    spark: SparkSession,
    db: psycopg.Connection,
    database_18: Database,
    queue: WorkQueue,
    lake: str,
):
    archive_new(queue, 3)
    archive("orders", lake, dsn=database_18.url, spark=spark)
    queue.create("other")
    queue.archive_batch("other", queue.send_batch("other", [1, 2]))

    with pytest.raises(ConfigurationError, match="not copied from the archive of queue 'other'"):
        archive("other", lake, dsn=database_18.url, spark=spark)

    assert value(db, "select count(*) from sluice.list_exports() where queue_name = 'other'") == 0
    assert archive("orders", lake, dsn=database_18.url, spark=spark).rows == 0


@pytest.mark.parametrize("options", [{"drop": True}, {"export": "lake"}])
def test_a_queue_is_neither_verified_nor_dropped(
    database_18: Database, tmp_path: Path, options: dict
):
    with pytest.raises(ConfigurationError, match="drop and export apply to archives"):
        archive("orders", tmp_path / "lake", table="queue", dsn=database_18.url, **options)


def test_any_number_of_copies_at_once_lose_nothing_and_double_nothing(
    db: psycopg.Connection, database_18: Database, queue: WorkQueue, lake: str
):
    ever, refused = archive_new(queue, 30), []
    archiving = threading.Event()

    def copy_on() -> None:
        while not archiving.is_set():
            try:
                PlainCopy(source(database_18), parse(lake)).run(drop=True)
            except SluiceError as error:  # concurrent commits to the lake are refused
                refused.append(error)

    with ThreadPoolExecutor(3) as pool:
        copies = [pool.submit(copy_on) for _ in range(3)]
        try:
            for _ in range(12):
                ever += archive_new(queue, 20)
                check_places(db, lake, ever)
        finally:
            archiving.set()
    for copy in copies:
        copy.result()
    PlainCopy(source(database_18), parse(lake)).run(drop=True)

    assert archived(db) == []
    assert lake_column(lake, "msg_id") == ever
    assert all("refused a commit" in str(error) for error in refused), refused


def check_places(db: psycopg.Connection, lake: str, ever: list[int]) -> None:
    """Check that each archived message is in the archive or the lake, and in the lake only once."""
    in_lake = Counter(lake_column(lake, "msg_id")) if exists(lake) else Counter()
    assert set(ever) - set(in_lake) - set(archived(db)) == set(), "in neither place"
    assert [msg_id for msg_id, count in in_lake.items() if count > 1] == [], "twice in the lake"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["plain", pytest.param("spark", marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_killed_at_every_step_no_message_is_in_neither_place_and_none_twice_in_the_lake(
    db: psycopg.Connection,
    database_18: Database,
    queue: WorkQueue,
    lake: str,
    tmp_path: Path,
    home: Path,
    kind: str,
):
    """Kill the copy at each step; the transaction of one archived message stays open throughout."""
    java = find_java(environ={"PATH": os.environ["PATH"], "PGSLUICE_HOME": str(home)}).home
    ever: list[int] = []
    with database_18.connect(autocommit=False) as late:
        held_back = queue.send("orders", {"late": True})
        late.execute("select pgmq.archive('orders', %s)", [held_back])
        for step in STEPS:
            ever += archive_new(queue, 40)
            arguments = (lake, step, tmp_path, kind)
            with held(
                DRIVER, *arguments,
                folder=tmp_path, PGSLUICE_DSN=database_18.url, JAVA_HOME=str(java),
            ):  # fmt: skip
                check_places(db, lake, ever)
            check_places(db, lake, ever)
        late.commit()

    run(DRIVER, lake, "none", tmp_path, kind, PGSLUICE_DSN=database_18.url, JAVA_HOME=str(java))

    assert archived(db) == []
    assert lake_column(lake, "msg_id") == sorted([*ever, held_back])
