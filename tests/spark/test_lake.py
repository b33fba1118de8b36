"""Lake tables without Spark: files of several writers, committed exactly once."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.delta.commits import commit_durably
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.lake.table import LakeTable
from pgsluice.spark.lake_sink import FilesWritten, LakeBatchWriter, LakeStreamWriter
from pgsluice.spark.lake_source import DeltaSource
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.micro_batch import MicroBatch
from pgsluice.spark.schemas import struct
from spark.lake_reading import lake_column, lake_table

SCHEMA = struct(id="long", at="timestamp", text="string")
APP = "pgsluice:test"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def table(lake: Path, schema: StructType = SCHEMA) -> LakeTable:
    return table_at(str(lake), schema)


def batches(*groups: list[int]) -> Iterator[pa.RecordBatch]:
    for ids in groups:
        yield pa.RecordBatch.from_pylist(
            [
                {"id": i, "at": datetime(2026, 1, 1, 0, 0, i, 123456, UTC), "text": f"№ {i}"}
                for i in ids
            ],
            pa.schema(
                [
                    ("id", pa.int64()),
                    ("at", pa.timestamp("us", "Europe/Berlin")),
                    ("text", pa.large_string()),
                ]
            ),
        )


def add(lake: Path, *ids: int, version: int, app_id: str = APP) -> bool:
    one = table(lake)
    return one.commit(one.write(batches(list(ids)), part=0), app_id=app_id, version=version)


def test_rows_are_read_back_as_they_were(lake: Path):
    assert add(lake, 1, 2, version=0)

    rows = lake_table(lake)

    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")
    assert rows.to_pylist() == next(batches([1, 2])).to_pylist()
    assert open_dataset(lake).to_table().to_pylist() == rows.to_pylist()


def test_files_are_in_the_table_only_after_the_commit(lake: Path):
    one = table(lake)
    one.create()

    files = one.write(batches([1]), part=0)

    assert lake_column(lake, "id") == []
    one.commit(files, app_id=APP, version=0)
    assert lake_column(lake, "id") == [1]


@pytest.mark.parametrize("version", [0, 1, 7])
def test_a_version_is_added_once(lake: Path, version: int):
    assert add(lake, 1, version=version)

    assert not add(lake, 1, version=version)
    assert lake_column(lake, "id") == [1]


def test_an_earlier_version_comes_too_late(lake: Path):
    add(lake, 1, version=5)

    assert not add(lake, 2, version=4)
    assert lake_column(lake, "id") == [1]


def test_queries_do_not_know_of_each_other(lake: Path):
    assert add(lake, 1, version=0, app_id="one")
    assert add(lake, 2, version=0, app_id="other")

    assert lake_column(lake, "id") == [1, 2]


def test_commit_of_delta_rs_syncs_its_files_and_every_parent_folder(
    lake: Path, monkeypatch: pytest.MonkeyPatch
):
    rows = pa.table({"id": [1], "kind": ["a b"]})
    write_deltalake(str(lake), rows, partition_by=["kind"])
    before, forced = set(lake.rglob("*")), set()
    monkeypatch.setattr(os, "fsync", lambda handle: forced.add(os.fstat(handle).st_ino))

    with commit_durably(DeltaTable(str(lake)), lake):
        write_deltalake(str(lake), pa.table({"id": [2], "kind": ["c d"]}), mode="append")

    new = set(lake.rglob("*")) - before
    assert [path.suffix for path in sorted(new)] == [".json", "", ".parquet"]
    assert forced == {path.stat().st_ino for path in (lake, lake / "_delta_log", *new)}


def test_of_committers_at_the_same_moment_one_wins(lake: Path):
    one = table(lake)
    one.create()
    files = [one.write(batches([number]), part=number) for number in range(8)]

    def commit(number: int) -> bool:
        try:
            return one.commit(files[number], app_id=APP, version=0)
        except SluiceError:
            return False

    with ThreadPoolExecutor(8) as pool:
        committed = list(pool.map(commit, range(8)))

    assert committed.count(True) == 1
    assert lake_column(lake, "id") == [committed.index(True)]


def test_without_an_app_every_commit_counts(lake: Path):
    one = table(lake)
    for _ in range(2):
        one.commit(one.write(batches([1]), part=0), app_id=None, version=None)

    assert lake_column(lake, "id") == [1, 1]


def test_no_rows_make_no_file_and_no_commit(lake: Path):
    one = table(lake)

    files = one.write(batches([], []), part=0)

    assert files == ()
    assert one.commit(files, app_id=APP, version=0)
    assert DeltaTable(str(lake)).version() == 0


def test_statistics_let_readers_skip_files(lake: Path):
    one = table(lake)

    (file,) = one.write(batches([3, 1], [], [2]), part=4)

    assert json.loads(file.stats) == {
        "numRecords": 3,
        "minValues": {"id": 1, "at": "2026-01-01T00:00:01.123456Z", "text": "№ 1"},
        "maxValues": {"id": 3, "at": "2026-01-01T00:00:03.123456Z", "text": "№ 3"},
        "nullCount": {"id": 0, "at": 0, "text": 0},
    }
    assert file.path.startswith("part-00004-")
    assert file.size_bytes == (lake / file.path).stat().st_size


def test_columns_of_nulls_have_counts_and_no_range(lake: Path):
    one = table(lake, struct(a="long", b="string"))
    rows = pa.RecordBatch.from_pydict({"a": pa.array([None, None], pa.int64()), "b": ["x", None]})

    (file,) = one.write(iter([rows]), part=0)

    assert json.loads(file.stats) == {
        "numRecords": 2,
        "minValues": {"b": "x"},
        "maxValues": {"b": "x"},
        "nullCount": {"a": 2, "b": 1},
    }


def test_filters_find_every_value_that_statistics_may_cut_or_leave_out(lake: Path):
    rows = [
        {
            "id": i,
            "text": "x" * 40 + last,
            "flag": bool(i % 2),
            "share": [0.5, math.inf, math.nan][i],
            "price": Decimal(i) / 4,
            "large": Decimal("12345678901234567890.25") + i,
            "raw": bytes([i]),
            "day": date(2026, 1, 1 + i),
        }
        for i, last in enumerate(["", "\U0010ffff!", "é"])
    ]
    schema = struct(
        id="long", text="string", flag="boolean", share="double", price="decimal(9,2)",
        large="decimal(38,2)", raw="binary", day="date",
    )  # fmt: skip
    one = table(lake, schema)
    one.commit(
        one.write([pa.RecordBatch.from_pylist(rows, one.arrow_schema)], part=0),
        app_id=None,
        version=None,
    )

    there = open_dataset(lake)
    for name in ("id", "text", "flag", "price", "day", "raw"):
        for row in rows:
            found = there.to_table(filter=pc.field(name) == row[name]).to_pylist()
            assert row["id"] in [one["id"] for one in found], (name, row[name])
    (stats,) = [
        json.loads(f.stats)
        for f in one.write(iter([pa.RecordBatch.from_pylist(rows[:1], one.arrow_schema)]), part=1)
    ]
    assert stats["maxValues"]["text"] == "x" * 32 + "\U0010ffff"
    assert stats["minValues"]["text"] == "x" * 32
    assert "large" not in stats["minValues"]


def test_a_task_that_fails_leaves_no_file(lake: Path):
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches([1])
        raise ValueError("the query was cancelled")

    with pytest.raises(ValueError, match="cancelled"):
        table(lake).write(failing(), part=0)

    assert list(lake.iterdir()) == []


@pytest.mark.slow
def test_large_rows_are_written_in_groups(lake: Path):
    one = table(lake, struct(text="string"))
    big = pa.RecordBatch.from_pydict({"text": ["x" * (33 << 20)]})

    (file,) = one.write(iter([big] * 4), part=0)

    assert pq.ParquetFile(lake / file.path).num_row_groups == 2


def test_a_path_that_cannot_be_used_is_named():
    with pytest.raises(ConfigurationError, match="neither a folder nor in a supported object"):
        table_at("ftp://a/b", SCHEMA)


def test_a_source_without_a_path_is_refused():
    with pytest.raises(ConfigurationError, match="needs the table's folder"):
        DeltaSource({}).writer(SCHEMA, overwrite=False)


def test_aborting_after_the_commit_undoes_nothing(lake: Path):
    writer = LakeStreamWriter(table(lake))
    written = [FilesWritten(table(lake).write(batches([1]), part=0), MicroBatch("query", 0))]
    writer.commit(written, 0)

    writer.abort(written, 0)

    assert lake_column(lake, "id") == [1]


def test_a_replay_of_the_first_micro_batch_adds_nothing(lake: Path):
    for _ in range(2):
        written = FilesWritten(table(lake).write(batches([1]), part=0), MicroBatch("query", 0))
        LakeStreamWriter(table(lake)).commit([written], 0)

    assert lake_column(lake, "id") == [1]
    assert len(list(lake.glob("*.parquet"))) == 2  # the second file is not committed


def test_tasks_of_another_micro_batch_are_refused(lake: Path):
    written = FilesWritten(table(lake).write(batches([1]), part=0), MicroBatch("query", 3))

    with pytest.raises(SluiceError, match="tasks of another query or micro-batch"):
        LakeStreamWriter(table(lake)).commit([written], 4)


def test_an_app_without_a_version_is_refused(lake: Path):
    with pytest.raises(ConfigurationError, match="belong together"):
        LakeBatchWriter(table(lake), {"txnAppId": "a"}, overwrite=False)


@pytest.mark.slow
def test_interpreter_exits_cleanly_after_reading_a_dataset(lake: Path):
    for version in range(3):
        add(lake, *range(20), version=version)
    read = (
        "from pgsluice.lake.delta.opening import open_dataset\n"
        f"print(open_dataset({str(lake)!r}).to_table().num_rows)"
    )

    # A file system implemented in Python, such as deltalake's, aborts some processes at exit.
    assert open_dataset(lake).filesystem.type_name == "subtree"

    def run(_: int) -> tuple[int, str, str]:
        done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(run, range(4))) == {(0, "60\n", "")}
