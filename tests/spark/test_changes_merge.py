"""Changes applied by the driver to a current state."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pgsluice.errors import ChangeError
from pgsluice.lake.current_tables import DELETED, ROW, SEQ, Tables
from pgsluice.lake.files import write_files
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import names_in, tables_in
from pgsluice.pipelines.current_state.envelope import Change, Row
from pgsluice.pipelines.current_state.merge import forget_deleted
from pgsluice.pipelines.current_state.table import CurrentTable, rows_of
from spark.changing import KINDS, NAME, delete_by_hand, live, stored
from spark.changing import apply as apply_changes


def change(op: str, seq: int, row: Row | None = None, *, key: str = "id") -> Change:
    before, after = (row, None) if op == "d" else (None, row)
    return Change(NAME, (key,) if key and op != "t" else (), seq, seq, op, before, after)


def apply(table: CurrentTable, *changes: Change, version: int) -> bool:
    return apply_changes(table, changes, version=version)


def contents(table: CurrentTable) -> list[tuple]:
    return live(stored(table))


@pytest.fixture
def table(current: Tables) -> CurrentTable:
    return CurrentTable.create(current, NAME, ("id",), KINDS)


def test_a_batch_is_applied_once(table: CurrentTable):
    assert apply(table, change("c", 1, {"id": 1, "name": "a"}), version=0)
    assert not apply(table.again(), change("c", 2, {"id": 2, "name": "b"}), version=0)

    assert contents(table) == [(1, "a", None)]


def test_stale_writer_changes_nothing(table: CurrentTable):
    late = table.again()
    apply(table, change("c", 1, {"id": 1, "name": "a"}), version=0)

    assert not apply(late, change("c", 1, {"id": 1, "name": "a"}), version=0)
    assert contents(table) == [(1, "a", None)]


def test_concurrent_commit_of_another_writer_is_harmless(table: CurrentTable):
    apply(table, change("c", 1, {"id": 1, "name": "a"}), version=0)
    stale = table.again()
    delete_by_hand(table, "id = 1")

    assert apply(stale, change("u", 2, {"id": 1, "name": "b"}), version=1)
    assert contents(table) == [(1, "b", None)]


def test_change_older_than_a_truncate_is_ignored(table: CurrentTable):
    apply(table, change("t", 5), version=0)  # of an empty table, without rows to remove
    apply(table.again(), change("c", 4, {"id": 4, "name": "old"}), version=1)
    apply(table.again(), change("c", 6, {"id": 6, "name": "new"}), version=2)

    assert contents(table) == [(6, "new", None)]


def test_traces_of_deleted_rows_go_when_they_are_old(table: CurrentTable):
    apply(table, change("d", 1, {"id": 1}), change("c", 2, {"id": 2, "name": "b"}), version=0)

    forget_deleted(table.again(), kept_h=24 * 365 * 100)
    kept = stored(table)["id"].to_pylist()
    forget_deleted(table.again(), kept_h=1)

    assert sorted(kept) == [1, 2]
    assert stored(table)["id"].to_pylist() == [2]


def test_columns_are_added_and_null_in_older_rows(table: CurrentTable):
    apply(table, change("c", 1, {"id": 1, "name": "a"}), version=0)

    table.again().add_columns({"price": pa.decimal128(10, 2), "at": pa.timestamp("us")})
    row: Row = {"id": 2, "name": "b", "price": "1.5", "at": "2026-01-01T00:00:00"}
    apply(table.again(), change("c", 2, row), version=1)

    prices = stored(table).sort_by("id")["price"].to_pylist()
    assert [price and str(price) for price in prices] == [None, "1.50"]


def test_a_table_that_never_took_a_change_may_still_become_another(current: Tables):
    for kind in (pa.date32(), pa.int64(), pa.string()):
        assert CurrentTable.open(current, NAME) is None
        table = CurrentTable.create(current, NAME, ("id",), {"id": pa.int64(), "due": kind})

    apply(table, change("c", 1, {"id": 1, "due": "infinity"}), version=0)

    found = CurrentTable.open(current, NAME)
    assert found is not None
    assert found.kinds["due"] == pa.string()


def test_odd_names_are_names_like_others(current: Tables):
    name = TableName("Odd/Schema", 'tá"ble')
    kinds = {'I"d': pa.int64(), "Größe": pa.string()}
    table = CurrentTable.create(current, name, ('I"d',), kinds)
    changes = [
        Change(name, ('I"d',), seq, seq, "c", None, {'I"d': 1, "Größe": text})
        for seq, text in ((1, "a"), (2, "b"))
    ]
    for version, one in enumerate(changes):
        apply(table.again(), one, version=version)

    found = CurrentTable.open(current, name)

    assert found is not None
    assert stored(found)["Größe"].to_pylist() == ["b"]
    assert names_in(current) == [name]


def test_of_equal_rows_a_delete_takes_away_one(current: Tables):
    table = CurrentTable.create(current, NAME, (), KINDS)
    equal = [change("c", seq, {"id": 1, "name": "a"}, key="") for seq in (1, 2, 3)]
    apply(table, *equal, change("c", 4, {"id": 2, "name": "b"}, key=""), version=0)

    gone = change("d", 5, {"id": 1, "name": "a", "extra": None}, key="")
    apply(table.again(), gone, version=1)

    assert contents(table) == [(1, "a", None), (1, "a", None), (2, "b", None)]


def test_a_snapshot_of_a_table_without_a_key_is_the_table(current: Tables):
    table = CurrentTable.create(current, NAME, (), KINDS)
    apply(table, change("c", 1, {"id": 1, "name": "captured"}, key=""), version=0)
    snapshot = [
        Change(NAME, (), seq, seq, "r", None, {"id": number, "name": "captured"}, txid=7)
        for seq, number in ((2, 0), (3, 1))
    ]

    apply(table.again(), *snapshot, version=1)

    assert contents(table) == [(0, "captured", None), (1, "captured", None)]


def test_another_key_is_refused(table: CurrentTable):
    with pytest.raises(ChangeError, match=r"was \(id\) and is \(name\).* rebuild the table"):
        table.require_key(("name",))


REMOVING = """
import sys
from dataclasses import replace
from pathlib import Path
import pyarrow as pa
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.table import CurrentTable, rows_of
from spark.changing import NAME, apply
from spark.test_changes_merge import change
table = CurrentTable.open(tables_in(Path(sys.argv[1])), NAME)
apply(table, [change("d", 5, {"id": -1, "name": "a"}, key="")], version=1)
print(pa.default_memory_pool().max_memory() >> 20)
"""


@pytest.mark.slow
def test_memory_to_remove_a_row_without_a_key_does_not_depend_on_the_number_of_rows(tmp_path: Path):
    count, files = 500_000, 10
    table = CurrentTable.create(
        tables_in(tmp_path), NAME, (), {"id": pa.int64(), "name": pa.string()}
    )
    apply(table, change("c", 1, {"id": -1, "name": "a"}, key=""), version=0)
    table = table.again()
    numbers = pa.array(range(10, 10 + count))
    hashes = pc.utf8_lpad(numbers.cast(pa.string()), 64, "0")
    others = {SEQ: numbers, ROW: hashes, DELETED: pa.repeat(False, count)}
    rows = rows_of(NAME, table.schema, pa.table(others)).to_batches()
    (first,) = write_files(table.folder, table.schema, iter(rows), part=0)
    added = [replace(first, path=f"{number}-{first.path}") for number in range(files)]
    for file in added:
        shutil.copy(table.folder / first.path, table.folder / file.path)
    table.stored.replace(added, [], {})

    removing = subprocess.run(
        [sys.executable, "-c", REMOVING, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True, timeout=120, capture_output=True, text=True,
    )  # fmt: skip

    # The rows of a file take 36 MB.
    assert int(removing.stdout) < 120
    assert table.again().stored.number == 3
