"""Filters of `open_dataset` find every matching row, whatever the statistics of files lack."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from pgsluice.lake.delta.opening import open_dataset
from pgsluice.lake.delta.table import DeltaLakeTable
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.envelope import Change, Row
from pgsluice.pipelines.current_state.merge import forget_deleted
from pgsluice.pipelines.current_state.overwrite import rows_in
from pgsluice.pipelines.current_state.table import CurrentTable
from spark.changing import NAME, apply, stored

WIDE, NAN = pa.decimal128(18, 4), float("nan")
SCHEMA = pa.schema({"id": pa.int64(), "kind": pa.string(), "n": WIDE, "f": pa.float64()})
EXACT = Decimal("12345678901234.0123")
KINDS = ["a", "b c/%", None]


@pytest.fixture(params=["by pgsluice", "by delta-rs"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table of three files and partitions."""
    place = tmp_path / "lake"
    table = DeltaLakeTable.in_folder(
        place, SCHEMA, Schema.from_arrow(SCHEMA).to_json(), partition_by=["kind"]
    )
    for at, kind in enumerate(KINDS):
        numbers = pa.array([EXACT + at, None, Decimal("0.5")], WIDE)
        columns = [
            [3 * at, 3 * at + 1, 3 * at + 2],
            [kind] * 3,
            numbers,
            [NAN, at + 0.5, float("inf")],
        ]
        rows = pa.table(columns, schema=SCHEMA)
        if request.param == "by pgsluice":
            table.commit(table.write(rows.to_batches(), part=0), app_id="a", version=at)
        else:
            write_deltalake(str(place), rows, partition_by=["kind"], mode="append")
    return place


CONDITIONS = {
    "decimal =": (pc.field("n") == pa.scalar(EXACT + 1, WIDE), [3]),
    "decimal >": (pc.field("n") > pa.scalar(EXACT, WIDE), [3, 6]),
    "decimal is null": (pc.field("n").is_null(), [1, 4, 7]),
    "float =": (pc.field("f") == 1.5, [4]),
    "float is NaN": (pc.is_nan(pc.field("f")), [0, 3, 6]),
    "float >": (pc.field("f") > 2.5, [2, 5, 8]),
    "partition and float": ((pc.field("kind") == "b c/%") & (pc.field("f") >= 1.5), [4, 5]),
    "null and decimal": (
        pc.field("kind").is_null() & (pc.field("n") > pa.scalar(EXACT, WIDE)),
        [6],
    ),
    "integer": (pc.field("id") == 7, [7]),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_filter_returns_all_rows_that_meet_it(lake: Path, name: str):
    condition, expected = CONDITIONS[name]

    found = open_dataset(lake).to_table(filter=condition)

    assert sorted(found["id"].to_pylist()) == expected
    assert set(found["kind"].to_pylist()) == {KINDS[at // 3] for at in expected}


def test_files_with_bounds_are_skipped(tmp_path: Path):
    for number in (1.0, 2.0, NAN):
        write_deltalake(str(tmp_path), pa.table({"f": [number]}), mode="append")

    fragments = list(open_dataset(tmp_path).get_fragments(filter=pc.field("f") == 2.0))

    assert len(fragments) == 2  # of 2.0, and of NaN, which has no bounds


def test_no_change_of_a_table_writes_rounded_bounds_of_decimals(tmp_path: Path):
    kinds = {"id": pa.int64(), "n": WIDE}
    table = CurrentTable.create(tables_in(tmp_path), NAME, ("id",), kinds)
    rows: list[Row] = [{"id": n, "n": str(EXACT + n)} for n in range(3)]

    def bounds() -> set[str]:
        found = pa.table(DeltaTable(str(table.folder)).get_add_actions(flatten=True))
        return {
            name
            for name in found.column_names
            if name.startswith("min.") and found[name].null_count < found.num_rows
        }

    apply(
        table,
        [Change(NAME, ("id",), n, n, "c", None, row) for n, row in enumerate(rows)],
        version=0,
    )
    merged = bounds()
    apply(table.again(), [Change(NAME, ("id",), 9, 9, "d", rows[0], None)], version=1)
    forget_deleted(table.again(), kept_h=1)
    forgotten, left = bounds(), stored(table).num_rows
    now = table.again()
    now.stored.overwrite(now.stored.columns, rows_in, {})
    overwritten = bounds()

    assert (
        merged
        == forgotten
        == overwritten
        == {"min.id", "min._seq", "min._changed_at", "min._deleted"}
    )
    assert left == 2
    assert sorted(stored(table)["n"].to_pylist()) == [EXACT + 1, EXACT + 2]
