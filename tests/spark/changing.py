"""A table as PostgreSQL has it, and the events of its changes: the model that current states are held against."""

from __future__ import annotations

import json
import random

import pyarrow as pa
from hypothesis import strategies as st

from pgsluice.pipelines.current_state.envelope import Change, Row

NAME = "public.account"
KINDS = {"id": pa.int64(), "name": pa.string(), "extra": pa.int64()}


class Source:
    """A table as PostgreSQL has it, and the events of its changes."""

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
        self._tell("c", None, row)

    def update(self, at: int, number: int, name: str) -> None:
        if not self.rows:
            return
        row = self.rows[at % len(self.rows)]
        if self.key and any(r["id"] == number for r in self.rows if r is not row):
            number = row["id"]  # type: ignore[assignment]
        old = {column: row.get(column) for column in self.columns}
        row.update({column: row.get(column) for column in self.columns}, id=number, name=name)
        told: Row | None = old
        if not self.before:
            told = {"id": old["id"]} if old["id"] != number else None
        self._tell("u", told, row)

    def delete(self, at: int) -> None:
        if not self.rows:
            return
        row = self.rows.pop(at % len(self.rows))
        old = {column: row.get(column) for column in self.columns}
        self._tell("d", old if self.before else {"id": row["id"]}, None)

    def truncate(self) -> None:
        self.rows.clear()
        self._tell("t", None, None)

    def snapshot(self) -> None:
        txid = len(self.log)
        for row in self.rows:
            self._tell("r", None, row, txid)

    def add_column(self) -> None:
        if "extra" not in self.columns:
            self.columns.append("extra")

    def contents(self) -> list[tuple]:
        return sorted((tuple(row.get(name) for name in KINDS) for row in self.rows), key=repr)

    def _tell(
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
    """The log in batches; a snapshot without a key is one transaction, and is not divided."""
    batches: list[list[Change]] = []
    for change in log:
        together = batches and change.txid is not None and batches[-1][-1].txid == change.txid
        if together or (batches and dice.random() < 0.6):
            batches[-1].append(change)
        else:
            batches.append([change])
    return batches


def event_of(change: Change) -> tuple:
    """The event that is read as this change."""
    schema, table = change.table.split(".")
    envelope = {
        "op": change.op,
        "before": change.before,
        "after": change.after,
        "source": {"schema": schema, "table": table, "key": list(change.key), "txId": change.txid},
    }
    return change.seq, change.at_us, change.op, json.dumps(envelope), change.table, None


def live(rows: pa.Table) -> list[tuple]:
    return sorted(
        (tuple(row[name] for name in KINDS) for row in rows.to_pylist() if not row["_deleted"]),
        key=repr,
    )
