"""Batch reads with the formats pgsluice-delta and pgsluice-iceberg: columns, versions and skipped files."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from pgsluice.errors import ConfigurationError
from pgsluice.lake.changes import DataFile
from pgsluice.lake.jobs import compact, show
from pgsluice.spark.lake_batch import LakeReader, SkippingReader, tasks_of
from pgsluice.spark.lake_source import DeltaSource, IcebergSource
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.schemas import arrow_schema, struct
from spark.delta_by_hand import column, column_mapped, write_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")

ICEBERG = "iceberg:lake/events.orders"
COLUMNS = {"id": "long", "text": "string", "at": "timestamp", "day": "date"}
MIB = 1 << 20


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a table, which does not exist."""
    if request.param == "delta":
        return str(tmp_path / "a lake")
    uri, warehouse = f"sqlite:///{tmp_path / 'catalogue.db'}", tmp_path / "a warehouse"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", str(warehouse))
    if home := os.environ.get("PYICEBERG_HOME"):  # Spark's processes started before
        Path(home, ".pyiceberg.yaml").write_text(
            f"catalog:\n  lake:\n    uri: {uri}\n    warehouse: {warehouse}\n"
        )
    return ICEBERG


def write(lake: str, *ids: int, by: tuple[str, ...] = (), **more: str) -> None:
    schema = struct(**COLUMNS, **more)
    table = table_at(lake, schema, partition_by=by, merge_schema=True)
    batch = pa.RecordBatch.from_pylist([row(i) for i in ids], arrow_schema(schema))
    table.commit(table.write([batch], part=0), app_id=None, version=None)


def row(i: int) -> dict[str, Any]:
    moment = datetime(2026, 1, i, 0, 0, 0, 123999, UTC)
    return {"id": i, "text": f"№ {i}", "at": moment, "day": date(2026, 1, i), "new": i}


def source(lake: str, **options: str) -> DeltaSource | IcebergSource:
    kind = IcebergSource if lake == ICEBERG else DeltaSource
    return kind(options={"path": lake, **options})


def reader(lake: str, **options: str) -> LakeReader:
    found = source(lake, **options)
    chosen = found.reader(found.schema())
    assert isinstance(chosen, LakeReader)
    return chosen


def read(chosen: LakeReader | SkippingReader) -> list[dict[str, Any]]:
    rows = [
        row
        for task in chosen.partitions()
        for batch in chosen.read(task)
        for row in batch.to_pylist()
    ]
    return sorted(rows, key=lambda row: row["id"])


def ids(chosen: LakeReader | SkippingReader) -> list[int]:
    return [row["id"] for row in read(chosen)]


def versions(lake: str) -> tuple[str, str, list[int], list[datetime]]:
    """The options of time travel, and the versions and times of a table, oldest first."""
    history = show(lake, history=100).history[::-1]
    names = (
        ("snapshot-id", "as-of-timestamp") if lake == ICEBERG else ("versionAsOf", "timestampAsOf")
    )
    return (*names, [c.version for c in history], [c.committed_at for c in history])


def test_columns_added_later_and_partition_columns_are_read(lake: str):
    write(lake, 1, 2, by=("day", "text"))
    write(lake, 3, new="integer")

    rows = read(reader(lake))

    assert rows == [{**row(1), "new": None}, {**row(2), "new": None}, row(3)]


def test_a_version_is_read_with_its_rows_and_columns(lake: str):
    write(lake, 1)
    write(lake, 2, new="integer")
    compact(lake)
    by_version, by_time, numbers, times = versions(lake)
    first = 0 if lake == ICEBERG else 1  # 0 is the creation

    old = reader(lake, **{by_version: str(numbers[first])})
    assert ids(old) == [1]
    assert "new" not in old.schema.names
    assert ids(reader(lake, **{by_time: times[first].isoformat()})) == [1]
    assert ids(reader(lake, **{by_time: "4102444800000"})) == [1, 2]
    with pytest.raises(ConfigurationError, match="has no (snapshot|version) of 2020"):
        reader(lake, **{by_time: "2020-01-01T00:00:00+00:00"})
    with pytest.raises(ConfigurationError, match="mutually exclusive"):
        reader(lake, **{by_time: "1", by_version: "1"})
    with pytest.raises(ConfigurationError, match="99|cannot be opened"):
        reader(lake, **{by_version: "99"})


def test_a_table_without_rows_is_read(lake: str):
    table_at(lake, struct(**COLUMNS)).create()

    assert read(reader(lake)) == []


def test_unknown_columns_and_missing_tables_are_refused(lake: str):
    with pytest.raises(ConfigurationError, match="there is no lake table"):
        reader(lake)
    write(lake, 1)
    with pytest.raises(ConfigurationError, match="column 'other' does not exist; choose from id"):
        source(lake).reader(struct(other="long"))


def test_a_table_with_an_unsupported_feature_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="uses columnMapping: pgsluice cannot read it"):
        reader(str(column_mapped(tmp_path / "lake")))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("id",), 3)], [3, 4]),
        ([EqualTo(("day",), date(2026, 1, 5))], [5, 6]),
        ([In(("id",), (1, 6))], [1, 2, 5, 6]),
        ([GreaterThan(("id",), 4)], [5, 6]),
        ([GreaterThanOrEqual(("id",), 4), LessThan(("id",), 5)], [3, 4]),
        ([LessThanOrEqual(("text",), "№ 2")], [1, 2]),
        ([StringStartsWith(("text",), "№ 3")], [3, 4]),
        ([GreaterThanOrEqual(("at",), datetime(2026, 1, 4, 0, 0, 0, 123999, UTC))], [3, 4, 5, 6]),
        ([IsNull(("id",))], []),
        ([IsNotNull(("id",))], [1, 2, 3, 4, 5, 6]),
        ([EqualTo(("id",), True), EqualTo(("a", "b"), 1)], [1, 2, 3, 4, 5, 6]),
    ],
)
def test_files_without_wanted_rows_are_skipped(
    lake: str, filters: list[Filter], expected: list[int]
):
    for pair in ((1, 2), (3, 4), (5, 6)):
        write(lake, *pair)
    chosen = source(lake, pushdown="true").reader(struct(**COLUMNS))

    assert isinstance(chosen, SkippingReader)
    assert list(chosen.pushFilters(filters)) == filters
    assert ids(chosen) == expected


def test_files_are_skipped_by_partitions_and_null(lake: str):
    schema = struct(id="long", day="date")
    table = table_at(lake, schema, partition_by=["day"])
    rows = [{"id": 1, "day": None}, {"id": 2, "day": date(2026, 1, 2)}]
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(schema))
    table.commit(table.write([batch], part=0), app_id=None, version=None)

    def found(wanted: Filter) -> list[int]:
        chosen = source(lake, pushdown="true").reader(schema)
        list(chosen.pushFilters([wanted]))
        return ids(chosen)

    assert found(IsNull(("day",))) == [1]
    assert found(IsNotNull(("day",))) == [2]
    assert found(LessThan(("day",), date(2026, 2, 1))) == [2]
    assert found(EqualTo(("day",), date(2026, 2, 1))) == []


def test_files_without_statistics_are_not_skipped(tmp_path: Path):
    folder = write_delta(
        tmp_path / "lake",
        [pa.table({"id": [1]}), pa.table({"id": [2], "later": [3]})],
        columns=[column("id"), column("later")],
        protocol={"minReaderVersion": 1, "minWriterVersion": 2},
        with_stats=False,
    )
    chosen = source(str(folder), pushdown="true").reader(struct(id="long", later="long"))

    list(chosen.pushFilters([EqualTo(("id",), 2), IsNull(("later",))]))

    assert read(chosen) == [{"id": 1, "later": None}, {"id": 2, "later": 3}]


def test_small_files_share_a_task():
    sizes = [1, 20 * MIB, 20 * MIB, 100 * MIB, *[1] * 40]

    tasks = tasks_of(DataFile(Path("lake"), str(i), size, {}) for i, size in enumerate(sizes))

    assert [len(task.files) for task in tasks] == [2, 1, 1, 31, 9]


@pytest.mark.slow
def test_spark_reads_projects_and_skips(spark: SparkSession, lake: str):
    for i in (1, 2):
        write(lake, i, by=("day",))
    name = "pgsluice-iceberg" if lake == ICEBERG else "pgsluice-delta"
    rows = spark.read.format(name)

    everything = rows.load(lake).orderBy("id").toArrow().to_pylist()
    assert everything == [{k: v for k, v in row(i).items() if k != "new"} for i in (1, 2)]
    assert rows.schema("day date, id bigint").load(lake).where("id = 2").collect() == [
        (date(2026, 1, 2), 2)
    ]
    for file in reader(lake).files():
        if "2026-01-01" in file.path:
            (file.folder / file.path).unlink()
    wanted = "day > date'2026-01-01'"
    with pytest.raises(PySparkException, match="no longer exists; it was removed during the read"):
        spark.read.format(name).load(lake).where(wanted).collect()
    found = spark.read.format(name).option("pushdown", "true").load(lake).where(wanted)
    assert [r.id for r in found.collect()] == [2]
