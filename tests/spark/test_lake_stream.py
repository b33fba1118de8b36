"""Streams of lake tables: each commit's rows once, from a stated start, and no commit that changes rows unnoticed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pgsluice.errors import ConfigurationError, LogStateError, SluiceError
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.jobs import compact, show
from pgsluice.lake.table import Replace
from pgsluice.spark.lake_source import DeltaSource, IcebergSource
from pgsluice.spark.lake_stream import LakeStreamReader
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.schemas import arrow_schema, struct

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")

ICEBERG = "iceberg:lake/events.orders"
Offset = dict[str, Any]


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a table with the rows 1 and 2 in versions 1 and 2."""
    place = str(tmp_path / "a lake")
    if request.param == "iceberg":
        uri, warehouse = f"sqlite:///{tmp_path / 'catalogue.db'}", tmp_path / "a warehouse"
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", str(warehouse))
        if home := os.environ.get("PYICEBERG_HOME"):  # Spark's processes started before
            Path(home, ".pyiceberg.yaml").write_text(
                f"catalog:\n  lake:\n    uri: {uri}\n    warehouse: {warehouse}\n"
            )
        place = ICEBERG
    add(place, 1)
    add(place, 2)
    return place


@contextmanager
def iceberg() -> Iterator[Table]:
    with opened_catalog("lake") as catalog:
        yield catalog.load_table("events.orders")


def files(tmp_path: Path) -> set[Path]:
    """All Parquet files of the table."""
    return set(tmp_path.rglob("*.parquet"))


def add(
    lake: str, *ids: int, count: int = 1, replace: Replace | None = None, **columns: str
) -> None:
    schema = struct(id="long", **columns)
    table = table_at(lake, schema, merge_schema=True)
    rows = pa.RecordBatch.from_pylist([{"id": i} for i in ids], arrow_schema(schema))
    written = [file for part in range(count) for file in table.write([rows], part=part)]
    table.commit(written, app_id=None, version=None, replace=replace)


def stream(lake: str, **options: str) -> LakeStreamReader:
    kind = IcebergSource if lake == ICEBERG else DeltaSource
    source = kind(options={"path": lake, **options})
    return source.streamReader(source.schema())


def rows(reader: LakeStreamReader, start: Offset, end: Offset) -> list[int]:
    found = [
        row["id"]
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]
    return sorted(found)


def run(reader: LakeStreamReader, start: Offset | None = None) -> tuple[list[list[int]], Offset]:
    """Read micro-batches until there is nothing new; each is planned by a new reader's process."""
    at, found = start or reader.initialOffset(), []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        end = json.loads(json.dumps(end))
        found.append(rows(reader, at, end))
        at = end
    return found, at


def test_all_rows_are_read_first_and_then_those_of_each_commit(lake: str):
    found, at = run(stream(lake))
    assert found == [[1, 2]]

    add(lake, 3)
    add(lake, 4)
    again, at = run(stream(lake), at)

    assert again == [[3, 4]]
    assert run(stream(lake), at) == ([], at)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingVersion": "2"}, [[2, 3]]),
        ({"startingVersion": "1"}, [[1, 2, 3]]),
        ({"startingTimestamp": "1"}, [[1, 2, 3]]),
        ({"startingTimestamp": "4102444800000"}, [[]]),
        ({"startingVersion": "latest"}, [[]]),
        ({"startingVersion": "4"}, [[]]),
    ],
)
def test_a_query_starts_where_its_options_say(
    lake: str, options: dict[str, str], expected: list[list[int]]
):
    add(lake, 3)

    found, at = run(stream(lake, **options))

    assert found == expected
    add(lake, 4)
    assert run(stream(lake, **options), at)[0] == [[4]]


def test_a_starting_time_includes_the_commits_since(lake: str):
    second = show(lake).history[0].committed_at

    assert run(stream(lake, startingTimestamp=second.isoformat()))[0] == [[2]]


@pytest.mark.parametrize("start", [{}, {"startingVersion": "latest"}])
def test_a_first_micro_batch_that_crashed_is_repeated_with_the_same_rows(
    lake: str, start: dict[str, str]
):
    crashed = stream(lake, **start)
    planned = crashed.latestOffset(crashed.initialOffset(), ReadAllAvailable())
    before = rows(crashed, crashed.initialOffset(), planned)
    add(lake, 3)

    restarted = stream(lake, **start)

    assert rows(restarted, restarted.initialOffset(), planned) == before
    assert run(restarted, planned)[0] == [[3]]


@pytest.mark.parametrize("at_most", [1, 2, 3, 7])
def test_micro_batches_have_at_most_max_files_per_trigger(lake: str, at_most: int):
    add(lake, 3, count=4)
    first, at = run(stream(lake, maxFilesPerTrigger=str(at_most)))
    add(lake, 4, count=5)
    add(lake, 5)

    found, _ = run(stream(lake, maxFilesPerTrigger=str(at_most)), at)

    assert sorted(chain.from_iterable(first)) == [1, 2, 3, 3, 3, 3]
    assert list(chain.from_iterable(found)) == [4, 4, 4, 4, 4, 5]
    assert max(map(len, first + found)) == min(at_most, 6)


def test_available_now_ends_at_the_version_of_its_start(lake: str):
    reader = stream(lake)
    reader.prepareForTriggerAvailableNow()
    add(lake, 3)

    assert run(reader)[0] == [[1, 2]]


def test_compactions_are_skipped(lake: str):
    _, at = run(stream(lake))
    compact(lake)
    add(lake, 3)

    assert run(stream(lake), at)[0] == [[3]]


def overwrite(lake: str) -> None:
    add(lake, 9, replace=Replace.TABLE)


def delete(lake: str) -> None:
    if lake == ICEBERG:
        with iceberg() as table:
            table.delete("id == 1")
    else:
        DeltaTable(lake).delete("id = 1")


@pytest.mark.parametrize(
    ("change", "refused", "option"),
    [
        (overwrite, "removes or changes rows.*set skipChangeCommits", "skipChangeCommits"),
        (delete, "removes or changes rows.*set ignoreDeletes", "ignoreDeletes"),
        (delete, "removes or changes rows", "skipChangeCommits"),
    ],
)
def test_commits_that_remove_rows_stop_the_stream_unless_ignored(
    lake: str, change: Callable[[str], None], refused: str, option: str
):
    _, at = run(stream(lake))
    change(lake)
    add(lake, 3)

    with pytest.raises(SluiceError, match=refused):
        run(stream(lake), at)

    assert run(stream(lake, **{option: "true"}), at)[0] == [[3]]


def test_ignored_deletes_do_not_hide_changes(lake: str):
    _, at = run(stream(lake))
    overwrite(lake)

    with pytest.raises(SluiceError, match="removes or changes rows"):
        run(stream(lake, ignoreDeletes="true"), at)


def test_new_columns_stop_the_stream_until_it_is_restarted(lake: str):
    running = stream(lake)
    _, at = run(running)
    add(lake, 3, note="string")

    with pytest.raises(SluiceError, match="changes the columns note; restart the query"):
        run(running, at)

    assert run(stream(lake), at)[0] == [[3]]


@pytest.mark.parametrize("what", ["log", "file"])
def test_removed_commits_and_files_are_a_loss(
    lake: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    _, at = run(stream(lake))
    before = files(tmp_path)
    for i in (3, 4, 5):
        add(lake, i)
    if what == "file":
        new = sorted(files(tmp_path) - before, key=lambda path: path.stat().st_mtime_ns)
        for path in new[:2]:
            path.unlink()
    elif lake == ICEBERG:
        with iceberg() as table:
            lost = [one.snapshot_id for one in table.snapshots() if one.sequence_number in (3, 4)]
            table.maintenance.expire_snapshots().by_ids(lost).commit()
    else:
        DeltaTable(lake).create_checkpoint()
        for version in (3, 4):
            Path(lake, "_delta_log", f"{version:020d}.json").unlink()

    with pytest.raises(LogStateError, match="has lost rows: .*no longer exists"):
        run(stream(lake), at)

    assert run(stream(lake, failOnDataLoss="false"), at)[0] == [[5]]
    # Each lost file; the log once to plan and once to read.
    assert capsys.readouterr().err.count("skipping lost rows of") == 2


def test_a_table_that_was_made_anew_is_refused(lake: str, tmp_path: Path):
    _, at = run(stream(lake))
    if lake == ICEBERG:
        with opened_catalog("lake") as catalog:
            catalog.drop_table("events.orders")
    else:
        Path(lake).rename(tmp_path / "former")
    add(lake, 1)

    with pytest.raises(SluiceError, match="is another one than that of the checkpoint"):
        run(stream(lake), at)


def test_options_that_cannot_be_met_are_named(lake: str):
    with pytest.raises(ConfigurationError, match="mutually exclusive"):
        stream(lake, startingVersion="1", startingTimestamp="1")
    with pytest.raises(ConfigurationError, match="startingVersion is 9, but the newest version"):
        run(stream(lake, startingVersion="9"))


@pytest.mark.slow
def test_spark_streams_a_table_into_another_once(spark: SparkSession, lake: str, tmp_path: Path):
    target = tmp_path / "target"
    name = "pgsluice-iceberg" if lake == ICEBERG else "pgsluice-delta"

    def copy() -> list[int]:
        source = spark.readStream.format(name).option("maxFilesPerTrigger", 1)
        query = (
            source.load(lake)
            .writeStream.format("pgsluice-delta")
            .option("checkpointLocation", str(tmp_path / "notes"))
            .trigger(availableNow=True)
            .start(str(target))
        )
        query.awaitTermination(120)
        assert query.exception() is None
        table = spark.read.format("pgsluice-delta").load(str(target))
        return sorted(row.id for row in table.collect())

    assert copy() == [1, 2]
    add(lake, 3)
    compact(lake)
    add(lake, 4)
    assert copy() == [1, 2, 3, 4]
    assert copy() == [1, 2, 3, 4]
