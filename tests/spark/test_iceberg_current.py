"""Current-state tables in Iceberg: copy-on-write, crashes, concurrent writers and changed columns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pyarrow as pa
import pytest

from pgsluice.errors import ConfigurationError
from pgsluice.lake import copy_on_write
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.file_errors import UnusableTableError
from pgsluice.lake.iceberg.catalog import opened_catalog, plain_files
from pgsluice.lake.jobs import compact
from pgsluice.lake.names import TableName, iceberg_name
from pgsluice.lake.tables import drop_all_staged, exists, names_in, places_in, tables_in
from pgsluice.pipelines.current_state.envelope import Change, Row
from pgsluice.pipelines.current_state.table import CurrentTable
from spark.changing import KINDS, NAME, apply, live, stored, widened
from spark.test_iceberg import DYING_CATALOG

pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")


def change(op: str, seq: int, row: Row) -> Change:
    before, after = (row, None) if op == "d" else (None, row)
    return Change(NAME, ("id",), seq, seq, op, before, after)


def inserts(*numbers: int | str, seq: int = 0) -> list[Change]:
    return [
        change("c", seq + at, {"id": number, "name": str(seq)}) for at, number in enumerate(numbers)
    ]


@pytest.fixture
def table(iceberg: str) -> CurrentTable:
    return CurrentTable.create(tables_in(iceberg), NAME, ("id",), KINDS)


def unlink(table: CurrentTable, files: set[str]) -> None:
    for file in files:
        (table.folder / file).unlink()  # type: ignore[operator] - on disk


def test_only_files_with_a_changed_key_are_read(table: CurrentTable):
    apply(table, inserts(*range(100)), version=0)
    apply(table.again(), inserts(*range(1000, 1100), seq=200), version=1)
    first, second = table.again().stored.files(["id"])
    low, high = sorted([first, second], key=lambda file: file.ranges["id"].low)
    unlink(table, {low.path})

    apply(table.again(), inserts(1050, 5000, seq=400), version=2)

    now = table.again().stored.files(["id"])
    assert high.path not in {file.path for file in now}
    ranges = sorted((file.ranges["id"].low, file.ranges["id"].high) for file in now)
    # An update stays with the neighbours of its key.
    assert ranges == [(0, 99), (1000, 1099), (5000, 5000)]


def test_file_without_a_changed_key_in_its_range_is_not_rewritten(iceberg: str):
    kinds = {**KINDS, "id": pa.string()}
    table = CurrentTable.create(tables_in(iceberg), NAME, ("id",), kinds)
    apply(table, inserts("b", "d", "y"), version=0)
    before = set(table.again().files)

    apply(table.again(), inserts("c", "x", seq=10), version=1)
    assert before < set(table.again().files)
    apply(table.again(), inserts("d", seq=20), version=2)

    assert not before <= set(table.again().files)
    assert [row[0] for row in live(stored(table))] == ["b", "c", "d", "x", "y"]


@pytest.mark.parametrize(("limit", "expected"), [(1, 5), (512 << 20, 1)])
def test_overwrite_writes_files_of_limited_size(
    iceberg: str, monkeypatch: pytest.MonkeyPatch, limit: int, expected: int
):
    kinds = {"id": pa.int64(), "ratio": pa.float32()}
    table = CurrentTable.create(tables_in(iceberg), NAME, ("id",), kinds)
    for version in range(5):
        apply(table.again(), [change("c", version, {"id": version, "ratio": "1"})], version=version)
    monkeypatch.setattr(copy_on_write, "_FILE_BYTES", limit)

    widened(table.again(), {"ratio": pa.float64()})

    assert len(table.again().files) == expected
    assert stored(table).num_rows == 5


DYING = f"""{DYING_CATALOG}
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.table import CurrentTable
from spark.changing import NAME, apply
from spark.test_iceberg_current import inserts
apply(CurrentTable.open(tables_in(sys.argv[2]), NAME), inserts(1, 3, seq=10), version=1)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "expected"), [("before", True), ("after", False)])
def test_killed_before_or_after_the_commit_a_replay_completes_it(
    table: CurrentTable, iceberg: str, moment: str, expected: bool
):
    apply(table, inserts(1, 2), version=0)

    killed = subprocess.run(
        [sys.executable, "-c", DYING, moment, iceberg],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=60,
        capture_output=True,
    )

    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert apply(table.again(), inserts(1, 3, seq=10), version=1) is expected
    assert live(stored(table)) == [(1, "10", None), (2, "0", None), (3, "10", None)]


@pytest.mark.slow
def test_of_competing_writers_each_version_is_applied_once(table: CurrentTable):
    apply(table, inserts(0), version=0)

    def write(_writer: int) -> int:
        mine = 0
        for version in range(1, 9):
            batch = inserts(0, version, seq=10 * version)
            mine += apply(table.again(), batch, version=version)
        return mine

    with ThreadPoolExecutor(3) as pool:
        applied = list(pool.map(write, range(3)))

    assert sum(applied) == 8
    expected = [(0, "80", None), *((n, str(10 * n), None) for n in range(1, 9))]
    assert live(stored(table)) == expected
    assert stored(table).num_rows == 9


def test_table_with_a_retyped_column_is_compacted_and_its_older_snapshots_are_refused(iceberg: str):
    kinds = {"id": pa.int64(), "price": pa.decimal128(6, 2), "ratio": pa.float32()}
    table = CurrentTable.create(tables_in(iceberg), NAME, ("id",), kinds)
    row: Row = {"id": 1, "price": "1.25", "ratio": "0.5"}
    apply(table, [change("c", 1, row)], version=0)
    older = table.again().stored.table.current_snapshot().snapshot_id  # type: ignore[attr-defined]

    widened(table.again(), {"price": pa.decimal128(9, 3), "ratio": pa.float64()})
    apply(table.again(), [change("c", 2, {**row, "id": 2, "price": "1234.125"})], version=1)
    place = tables_in(iceberg).place_of(NAME)
    assert isinstance(place, IcebergAddress)

    assert compact(str(place)).files_removed == 2
    rows = stored(table).sort_by("id")
    assert rows["price"].to_pylist() == [Decimal("1.250"), Decimal("1234.125")]
    assert rows["ratio"].to_pylist() == [0.5, 0.5]
    newest = table.again().stored.table  # type: ignore[attr-defined]
    assert newest.schema().column_names[:3] == ["id", "price", "ratio"]
    with pytest.raises(ConfigurationError, match="renamed, replaced or retyped columns"):
        plain_files(newest, place, snapshot_id=older)


def test_table_that_another_tool_changed_is_refused_by_name(table: CurrentTable, iceberg: str):
    apply(table, inserts(1), version=0)
    with opened_catalog("lake") as catalog:
        there = catalog.load_table("shop.public__account")
        with there.update_schema() as update:
            update.rename_column("extra", "renamed")

    with pytest.raises(UnusableTableError, match="renamed columns"):
        apply(table.again(), inserts(2, seq=5), version=1)


def test_other_tables_of_the_namespace_are_left_alone(table: CurrentTable, iceberg: str):
    with opened_catalog("lake") as catalog:
        for name in ("other", "_rebuilding__other"):
            catalog.create_table(f"shop.{name}", schema=pa.schema([("id", pa.int64())]))
    current = tables_in(iceberg)

    drop_all_staged(current)

    assert names_in(current) == [NAME]
    assert [str(place).rpartition(".")[2] for place in places_in(current)] == [
        "events",
        "rejects",
        "public__account",
    ]
    assert exists(IcebergAddress("lake", "shop._rebuilding__other"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("public.account", "public__account"),
        ("public.a_b", "public__a_b"),
        ("public.a__b", "public__a~5f_b"),
        ("a_.b", "a~5f__b"),
        ("a._b", "a__~5fb"),
        ('public."Odd.Table"', "public__Odd~2eTable"),
    ],
)
def test_tables_in_a_namespace_have_names_of_their_own(name: str, expected: str):
    assert iceberg_name(TableName.parse(name)) == expected
