"""Partitioned tables: values with any characters are stored in folders and read back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake import files as lake_files
from pgsluice.lake.delta.files import files_of
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.lake.jobs import compact
from pgsluice.spark.lake_reading import read_table
from pgsluice.spark.lake_source import DeltaSource
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.schemas import struct

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = struct(id="long", kind="string", day="date", n="integer", flag="boolean")
KINDS = ["order", "a/b c%=é", "[*]{1}:#?&'\"\\^", None, "001", "%2F", "日本", " "]


def rows(count: int = 16) -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "kind": KINDS[i % len(KINDS)],
            "day": date(2026, 1, 1 + i % 2),
            "n": i,
            "flag": None if i % 3 else i % 2 == 0,
        }
        for i in range(count)
    ]


def write(lake: Path, *partition_by: str, part: int = 0) -> list[dict[str, Any]]:
    table = table_at(str(lake), SCHEMA, partition_by=partition_by)
    written = rows()
    batch = pa.RecordBatch.from_pylist(written, table.arrow_schema)
    table.commit(table.write(iter([batch]), part=part), app_id=None, version=None)
    return written


def in_arrow(lake: Path) -> list[dict[str, Any]]:
    return sorted(open_dataset(lake).to_table().to_pylist(), key=lambda row: row["id"])


def test_values_are_read_back_whatever_characters_they_have(tmp_path: Path):
    lake = tmp_path / "a lake"

    written = write(lake, "kind", "day", "flag")

    assert in_arrow(lake) == written
    for file in files_of(DeltaTable(str(lake))):
        assert "kind" not in pq.read_schema(lake / file.path).names


@pytest.mark.slow
def test_spark_writes_and_reads_them_before_and_after_a_compaction(
    spark: SparkSession, tmp_path: Path
):
    lake = tmp_path / "a lake"
    frame = spark.createDataFrame(rows(), SCHEMA)
    with pytest.raises(
        Exception, match="kind"
    ):  # Spark does not support partitions in Python data sources
        frame.write.format("pgsluice-delta").mode("append").partitionBy("kind").save(str(lake))
    writer = frame.write.format("pgsluice-delta").mode("append")
    writer.option("partitionBy", "kind, day").save(str(lake))
    written = sorted(rows() + write(lake, part=1), key=lambda row: row["id"])

    before = read_table(spark, lake).orderBy("id").collect()
    compact(lake)
    after = read_table(spark, lake).orderBy("id").collect()

    assert [row.asDict() for row in before] == written
    assert [row.asDict() for row in after] == written


@pytest.mark.slow
def test_spark_leaves_out_the_files_of_other_values(spark: SparkSession, tmp_path: Path):
    lake = tmp_path / "lake"
    write(lake, "day")

    first = read_table(spark, lake).where("day = '2026-01-01'")

    assert sorted(row.id for row in first.collect()) == list(range(0, 16, 2))
    plan = first._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters: [isnotnull(day" in plan


def test_a_table_that_is_there_keeps_its_partitions(tmp_path: Path):
    write(tmp_path / "lake", "day")

    write(tmp_path / "lake")

    assert {tuple(f.partition) for f in files_of(DeltaTable(str(tmp_path / "lake")))} == {("day",)}
    with pytest.raises(ConfigurationError, match="is partitioned by day, not by kind"):
        write(tmp_path / "lake", "kind")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["none"], "column 'none' does not exist; the rows have id, kind, day, n, flag"),
        (["at"], "has the unsupported type timestamp"),
        (["kind", "kind"], "names a column twice"),
        (["id", "kind", "day", "n", "flag"], "names every column"),
    ],
)
def test_columns_that_cannot_partition_are_named(tmp_path: Path, columns: list[str], message: str):
    schema = struct(id="long", at="timestamp") if columns == ["at"] else SCHEMA
    with pytest.raises(ConfigurationError, match=message):
        table_at(str(tmp_path / "lake"), schema, partition_by=columns)


def test_the_option_takes_names_with_commas(tmp_path: Path):
    sink = DeltaSource({"path": str(tmp_path / "lake"), "partitionBy": "kind, day"})

    assert sink.streamWriter(SCHEMA, False).table.partition_by == ("kind", "day")


def test_an_empty_value_is_refused_as_readers_take_it_for_null(tmp_path: Path):
    table = table_at(str(tmp_path / "lake"), SCHEMA, partition_by=["kind"])
    batch = pa.RecordBatch.from_pylist([{**rows()[0], "kind": ""}], table.arrow_schema)

    with pytest.raises(SluiceError, match="cannot distinguish it from null"):
        table.write(iter([batch]), part=0)

    assert not list((tmp_path / "lake").rglob("*.parquet"))


def test_many_values_keep_few_files_open_and_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lake_files, "_OPEN_FILES_MAX", 3)
    monkeypatch.setattr(lake_files, "_ROW_GROUP_BYTES", 1 << 20)
    table = table_at(str(tmp_path / "lake"), struct(id="long", text="string"), partition_by=["id"])
    open_files = threading.local()
    open_files.most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 40, 4):
            folder = Path("/proc/self/fd")
            links = [link for link in folder.iterdir() if ".parquet" in str(link.resolve())]
            open_files.most = max(open_files.most, len(links))
            yield pa.RecordBatch.from_pydict(
                {"id": [i % 8 for i in range(start, start + 4)], "text": ["x" * 100_000] * 4}
            )

    files = table.write(batches(), part=0)

    assert 0 < open_files.most <= 3
    assert sum(file.row_count for file in files) == 40
    assert {file.partition["id"] for file in files} == {str(i) for i in range(8)}
