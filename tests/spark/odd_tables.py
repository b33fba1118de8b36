"""Random tables, whose names and values are those that PostgreSQL allows and a lake may not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from pgsluice.lake.current_tables import OWN_COLUMNS, folded, lake_column
from pgsluice.lake.names import TableName
from spark.conftest import LOG

_LETTERS = [
    *"abzAB_09$ .,;:'\"`%~=(){}[]<>/\\|&?#@!*+-^\n\t\r\x01\x7f",
    *"äßİ\u0131\u017f\u212aжЯ漢字é😀\u200b\u0301",
]
_WORDS = (
    *OWN_COLUMNS, "_Deleted", "_SEQ", "_ROW", "_Bucket", "%5Fseq", "%20", "user", "order", "select", "..", ".", "a.b",
    "b.c", "__row", "_old", "_new", "old at", "new at", "t", "s", "null", "_file", "_change_type", "id", "ID", "a__b",
    "_a", "a_", "con", "д" * 31, "x" * 63, "%" * 63, "`" * 63, "😀" * 15,
)  # fmt: skip
_BYTES_MAX = 63
# Values by type: those that every lake holds, and those whose table may be parked.
_VALUES: dict[LiteralString, tuple[Sequence[str | None], Sequence[str]]] = {
    "text": (["", "a", "ä😀", "null", "\\", '"', "'", "\n", "x" * 300, "\u200b", None], []),
    "bigint": (["0", "-1", "9223372036854775807", None], []),
    "numeric(8,2)": (["0", "1.10", "-999999.99", None], ["NaN"]),
    "numeric": (["0", "1.10", "1e40", "NaN", None], []),
    "double precision": (["0", "1e300", "Infinity", "NaN", None], []),
    "boolean": (["t", "f", None], []),
    "date": (["2026-01-01", "infinity", None], ["0044-03-15 BC"]),
    "timestamptz": (["2026-01-01 00:00:00.000001+00", "infinity", None], ["0044-03-15 BC"]),
    "bytea": (["\\x", "\\x00ff", None], []),
    "json": (['{"a": [1.50, "b"]}', "[]", "1.50", None], ['"\\ud800"']),
    "text[]": (["{}", '{a,"b,c",NULL}', None], []),
}
_HARD_EVERY = 12


@dataclass
class OddTable:
    """A captured table.

    Attributes:
        name: The table.
        columns: Its columns and their types; the first is the key, if it has one.
        has_key: True if it has a key.
        trigger: `capture`, `jsontriga` or `logutriga`.
        may_park: True if it holds something that a lake cannot hold.
    """

    name: TableName
    columns: dict[str, LiteralString]
    has_key: bool
    trigger: str
    may_park: bool

    @classmethod
    def drawn(cls, dice: random.Random, used: set[TableName]) -> OddTable:
        """Return a table with a name that is not used yet."""
        while True:
            name = TableName(
                f"s{_name(dice)}" if dice.random() < 0.2 else _schema(dice), _name(dice)
            )
            if name not in used and len(name.schema.encode()) <= _BYTES_MAX:
                break
        names = list(dict.fromkeys(_name(dice) for _ in range(dice.randint(1, 5))))
        trigger = dice.choices(["capture", "jsontriga", "logutriga"], [6, 1, 1])[0]
        if _joined(name) in map(_joined, used):
            trigger = "capture"  # pgq.logutriga does not tell such tables apart
        used.add(name)
        columns = {column: dice.choice(list(_VALUES)) for column in names}
        columns[names[0]] = dice.choice(["bigint", "text"])
        has_key = trigger != "capture" or dice.random() < 0.8  # PgQ's triggers need one
        # The lake tells columns apart by more than case. The key's columns are separated by commas.
        is_unclear = len({folded(lake_column(column)) for column in names}) < len(names)
        is_unclear |= trigger == "logutriga" and "," in names[0]
        return cls(name, columns, has_key, trigger, is_unclear)

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.name.schema, self.name.table)

    def create(self, log: psycopg.Connection) -> None:
        """Create and capture the table."""
        log.execute(
            sql.SQL("create schema if not exists {}").format(sql.Identifier(self.name.schema))
        )
        key = next(iter(self.columns)) if self.has_key else None
        columns = [
            sql.SQL("{} {}{}").format(
                sql.Identifier(column),
                sql.SQL(kind),
                sql.SQL(" primary key" if column == key else ""),
            )
            for column, kind in self.columns.items()
        ]
        log.execute(
            sql.SQL("create table {} ({})").format(self.identifier, sql.SQL(", ").join(columns))
        )
        if self.trigger == "capture":
            log.execute("select sluice.capture(%s::regclass, %s)", (str(self.name), LOG))
            return
        log.execute(
            sql.SQL(
                "create trigger z after insert or update or delete on {} for each row execute function {}({})"
            ).format(self.identifier, sql.Identifier("pgq", self.trigger), sql.Literal(LOG))
        )

    def change(
        self, log: psycopg.Connection, dice: random.Random, *, only_insert: bool = False
    ) -> None:
        """Insert, update and delete rows; `only_insert` one, so that the lake knows all columns."""
        acts = ["insert", *dice.choices(["insert", "update", "delete"], [2, 1, 1], k=5)]
        for act in acts[: 1 if only_insert else dice.randint(1, len(acts))]:
            key = next(iter(self.columns))
            if act == "insert":
                values = [sql.Literal(self._value(dice, column)) for column in self.columns]
                log.execute(
                    sql.SQL("insert into {} values ({}) on conflict do nothing").format(
                        self.identifier, sql.SQL(", ").join(values)
                    )
                )
                continue
            where = sql.SQL("where ctid = (select ctid from {} order by {} limit 1)").format(
                self.identifier, sql.Identifier(key)
            )
            if act == "delete":
                log.execute(sql.SQL("delete from {} {}").format(self.identifier, where))
            elif len(self.columns) > 1:
                column = dice.choice(list(self.columns)[1:])
                value = sql.Literal(self._value(dice, column))
                log.execute(
                    sql.SQL("update {} set {} = {} {}").format(
                        self.identifier, sql.Identifier(column), value, where
                    )
                )

    def _value(self, dice: random.Random, column: str) -> str | None:
        held, hard = _VALUES[self.columns[column]]
        is_key = self.has_key and column == next(iter(self.columns))
        if hard and not dice.randrange(_HARD_EVERY):
            self.may_park = True
            return dice.choice(hard)
        if is_key:
            return dice.choice([value for value in held if value is not None])
        return dice.choice(held)


def _joined(name: TableName) -> str:
    return f"{name.schema}.{name.table}"


def _schema(dice: random.Random) -> str:
    return dice.choice(["public", "a", "a.b", "A", "д" * 31, "x" * 63])


def _name(dice: random.Random) -> str:
    if dice.random() < 0.4:
        return dice.choice(_WORDS)
    name = "".join(dice.choice(_LETTERS) for _ in range(dice.choice([1, 2, 3, 8, 63])))
    return name.encode()[:_BYTES_MAX].decode(errors="ignore")
