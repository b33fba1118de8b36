"""A model of a PostgreSQL table and its change events, to check current-state tables."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.current_tables import lake_column
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.lake.iceberg.catalog import opened_catalog
from pgsluice.lake.iceberg.mutable import IcebergMutableTable
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state import apply as applying
from pgsluice.pipelines.current_state.collapse import Collapsed, collapse, portion_of
from pgsluice.pipelines.current_state.envelope import Change, Row
from pgsluice.pipelines.current_state.evolution import reshape
from pgsluice.pipelines.current_state.pieces import (
    Collapsing,
    ReadingPlan,
    Update,
    collapse_files,
    in_turn,
)
from pgsluice.pipelines.current_state.reading import COLUMNS
from pgsluice.pipelines.current_state.table import CurrentTable
from spark.lake_reading import iceberg_rows

NAME = TableName("public", "account")
KINDS = {"id": pa.int64(), "name": pa.string(), "extra": pa.int64()}


def widened(table: CurrentTable, wider: Mapping[str, pa.DataType]) -> CurrentTable:
    """Return a table after a commit that gives some columns a wider type."""
    kinds = {**table.kinds, **wider}
    return reshape(table, {name: (lake_column(name), kind) for name, kind in kinds.items()}, {})


class Source:
    """A model of a PostgreSQL table and the events of its changes."""

    def __init__(self, *, key: tuple[str, ...], before: bool = True) -> None:
        self.key = key
        self.before = before
        self.rows: list[Row] = []
        self.log: list[Change] = []
        self.columns = ["id", "name"]

    def insert(self, number: int, name: str) -> None:
        if self.key and any(row["id"] == number for row in self.rows):
            return
        row: Row = {"id": number, "name": name}
        if "extra" in self.columns:
            row["extra"] = len(self.log)
        self.rows.append(row)
        self._record("c", None, row)

    def update(self, at: int, number: int, name: str) -> None:
        if not self.rows:
            return
        row = self.rows[at % len(self.rows)]
        if self.key and any(r["id"] == number for r in self.rows if r is not row):
            number = row["id"]  # type: ignore[assignment]
        old = {column: row.get(column) for column in self.columns}
        row.update({column: row.get(column) for column in self.columns}, id=number, name=name)
        previous: Row | None = old
        if not self.before:
            previous = {"id": old["id"]} if old["id"] != number else None
        self._record("u", previous, row)

    def delete(self, at: int) -> None:
        if not self.rows:
            return
        row = self.rows.pop(at % len(self.rows))
        old = {column: row.get(column) for column in self.columns}
        self._record("d", old if self.before else {"id": row["id"]}, None)

    def truncate(self) -> None:
        self.rows.clear()
        self._record("t", None, None)

    def snapshot(self) -> None:
        txid = len(self.log)
        for row in self.rows:
            self._record("r", None, row, txid)

    def add_column(self) -> None:
        if "extra" not in self.columns:
            self.columns.append("extra")

    def contents(self) -> list[tuple]:
        return sorted((tuple(row.get(name) for name in KINDS) for row in self.rows), key=repr)

    def _record(
        self, op: str, before: Row | None, after: Row | None, txid: int | None = None
    ) -> None:
        seq = len(self.log) + 1
        self.log.append(
            Change(
                NAME, () if op == "t" else self.key, seq, seq * 10, op,
                before and dict(before), after and dict(after), txid,
            )
        )  # fmt: skip


numbers, names = st.integers(1, 5), st.sampled_from("abc")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), numbers, names),
        st.tuples(st.just("insert"), numbers, names),
        st.tuples(st.just("update"), st.integers(0, 9), numbers, names),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["truncate", "snapshot", "add_column"])),
    ),
    max_size=40,
)


def played(source: Source, history: list[tuple]) -> Source:
    for name, *arguments in history:
        getattr(source, name)(*arguments)
    return source


def cut(log: list[Change], dice: random.Random) -> list[list[Change]]:
    """Split the log into batches, but not the transaction of a snapshot without a key."""
    batches: list[list[Change]] = []
    for change in log:
        together = batches and change.txid is not None and batches[-1][-1].txid == change.txid
        if together or (batches and dice.random() < 0.6):
            batches[-1].append(change)
        else:
            batches.append([change])
    return batches


def event_of(change: Change) -> tuple:
    """Return the event from which this change is read."""
    envelope = {
        "op": change.op,
        "before": change.before,
        "after": change.after,
        "source": {
            "schema": change.table.schema,
            "table": change.table.table,
            "key": list(change.key),
            "txId": change.txid,
        },
    }
    return change.seq, change.at_us, change.op, json.dumps(envelope), str(change.table), None


def stored(table: CurrentTable) -> pa.Table:
    """Return all rows of the newest version of a table, read by another reader than the pipeline's."""
    if isinstance(table.stored, IcebergMutableTable):
        return iceberg_rows(str(table.stored.place))
    return open_dataset(table.folder).to_table()


def delete_by_hand(table: CurrentTable, where: str) -> None:
    """Delete rows of the newest version of a table as another tool does."""
    if isinstance(table.stored, IcebergMutableTable):
        with opened_catalog(table.stored.place.catalog) as catalog:
            catalog.load_table(table.stored.place.identifier).delete(where)
    else:
        table.again().stored.delta.delete(where)


def live(rows: pa.Table) -> list[tuple]:
    return sorted(
        (tuple(row[name] for name in KINDS) for row in rows.to_pylist() if not row["_deleted"]),
        key=repr,
    )


def collapsed(changes: Sequence[Change], dice: random.Random | None = None) -> Collapsed:
    """Collapse changes of `NAME` in random portions, or in one."""
    portions = [list(changes)]
    while dice is not None and len(portions[-1]) > 1 and dice.random() < 0.7:
        place = dice.randrange(1, len(portions[-1]))
        portions[-1:] = [portions[-1][:place], portions[-1][place:]]
    return collapse([portion_of(portion, KINDS) for portion in portions])


def write_events(path: Path, changes: Sequence[Change | tuple], *, row_groups: int = 2) -> None:
    """Write the events of changes, or events as they are, to a Parquet file."""
    kinds = [pa.int64(), pa.timestamp("us", "UTC"), *[pa.string()] * 4]
    events = [one if isinstance(one, tuple) else event_of(one) for one in changes]
    values = zip(*events, strict=True)
    columns = [pa.array(column, kind) for column, kind in zip(values, kinds, strict=True)]
    rows = pa.table(columns, list(COLUMNS))
    pq.write_table(rows, path, row_group_size=-(-len(changes) // row_groups))


def apply(
    table: CurrentTable,
    changes: Sequence[Change],
    *,
    version: int,
    app_id: str = "a",
    kept_h: float = 1e6,
    part_count: int = 1,
    are_many: bool = False,
    rejects: Path | IcebergAddress | None = None,
) -> bool:
    """Apply changes as the pipeline does, in this process; by rewriting files if they are many."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        write_events(scratch / "events.parquet", changes)
        counts = {table.name: table.bucket_count} if table.bucket_count else {}
        plans = {table.name: ReadingPlan(table.kinds)}
        how = Collapsing(plans, {}, scratch, counts, part_count)
        found = collapse_files({version: [scratch / "events.parquet"]}, how, in_turn)
        with patch.object(applying, "_ROWS_MERGED_MAX", -1 if are_many else 500_000):
            update = Update(app_id, version, scratch, in_turn, kept_h, rejects)
            return applying.apply(table, found[table.name], update)
