"""Random schedules of sessions that change captured tables and their definitions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import psycopg
from psycopg import IsolationLevel, sql

from conftest import Database
from spark.conftest import LOG

_LEVELS = (
    IsolationLevel.READ_COMMITTED,
    IsolationLevel.REPEATABLE_READ,
    IsolationLevel.SERIALIZABLE,
)
_NAMES = ("Odd.Table", "a`b", "t%20", "длинное имя", "user", "plain")
_COLUMNS = ("note", "Home Town", "w`ork", "_Seq", "д" * 20, "a.b", "x")
# Types, and values of each.
_KINDS: dict[str, tuple[str, ...]] = {
    "int": ("0", "-7", "2147483647"),
    "bigint": ("1", "9007199254740993"),
    "text": ("", "a", "ä😀", "null", "7"),
    "varchar(5)": ("a", "bc "),
    "char(5)": ("a", "b"),
    "numeric": ("1.50", "NaN", "1e20"),
    "numeric(8,2)": ("1.5", "-2.25"),
    "real": ("0.1", "-0"),
    "float8": ("0.1", "NaN", "1e300"),
    "timestamp(3)": ("2026-01-01 12:34:56.789", "infinity"),
    "json": ('{"b": 1, "a": 2}', '"x"', "null"),
    "jsonb": ('{"b": 1, "a": 2}', '"1"', "1"),
    "mood": ("sad", "fine"),
    "spot": ("(1,2)",),
    "int[]": ("{1,2}", "{}"),
}
# Of each type, others that a column of it may get.
_RETYPED = {
    "int": ("bigint", "numeric", "float8", "text"), "bigint": ("numeric", "text"), "text": ("varchar(5)",),
    "varchar(5)": ("text", "char(5)"), "char(5)": ("text",), "numeric": ("int", "numeric(8,2)"),
    "numeric(8,2)": ("numeric", "int"), "real": ("float8",), "float8": ("real",), "timestamp(3)": ("timestamp(0)",),
    "json": ("jsonb",), "jsonb": ("json",), "int[]": ("bigint[]",),
}  # fmt: skip
_FAILURES = (
    psycopg.errors.LockNotAvailable, psycopg.errors.SerializationFailure, psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected, psycopg.errors.DataError, psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable, psycopg.errors.NotNullViolation, psycopg.errors.DuplicateColumn,
    psycopg.errors.DuplicateObject, psycopg.errors.FeatureNotSupported, psycopg.errors.DatatypeMismatch,
    psycopg.errors.DependentObjectsStillExist, psycopg.errors.CannotCoerce, psycopg.errors.InvalidTableDefinition,
    psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject,
)  # fmt: skip


@dataclass
class Schedule:
    """Sessions of one thread, each with a transaction of its own, that take steps in a random order.

    Attributes:
        database: The database of the tables.
        dice: Decides each step.
        trace: The statements so far, for the report of a failure.
    """

    database: Database
    dice: random.Random
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.owner = self.database.connect()
        self.owner.execute(
            "create type mood as enum ('sad', 'fine'); create type spot as (x int, y int)"
        )
        self.owner.execute("set lock_timeout = '20ms'")
        self.sessions = [self.database.connect(autocommit=False) for _ in range(3)]
        for session in self.sessions:
            session.execute("set lock_timeout = '20ms'")
            session.commit()
        self.tables = list(_NAMES[: self.dice.randint(2, 4)])
        for name in self.tables:
            self._create(name)

    def close(self) -> None:
        """End all transactions and sessions."""
        self.settle()
        for session in (self.owner, *self.sessions):
            session.close()

    def settle(self) -> None:
        """End all transactions."""
        for session in self.sessions:
            session.rollback()

    def step(self) -> None:
        """Take one random step of a random session."""
        if self.dice.random() < 0.12:
            self._define()
            return
        session = self.dice.choice(self.sessions)
        is_idle = session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if is_idle:
            session.isolation_level = self.dice.choice(_LEVELS)
            session.execute("select count(*) from pg_class where false")
        elif self.dice.random() < 0.35:
            end = self.dice.choice(["commit", "commit", "commit", "rollback"])
            self._note(session, end)
            try:
                getattr(session, end)()
            except psycopg.errors.SerializationFailure:
                session.rollback()
            return
        self._change(session)

    def columns(self, name: str) -> list[tuple[str, str, bool]]:
        """Return the columns of a table: name, type, and True for those of the key."""
        return self.owner.execute(
            """select a.attname::text, format_type(a.atttypid, a.atttypmod), coalesce(a.attnum = any (i.indkey), false)
            from pg_attribute as a
            left join pg_index as i on i.indrelid = a.attrelid and i.indisprimary
            where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
            order by a.attnum""",
            (sql.Identifier("public", name).as_string(self.owner),),
        ).fetchall()

    def _create(self, name: str) -> None:
        names = self.dice.sample(_COLUMNS, 3)
        kinds = self.dice.choices(list(_KINDS), k=3)
        key = self.dice.choice(["int", "text", "numeric(8,2)", "float8", None])
        columns = [f'"{column}" {kind}' for column, kind in zip(names, kinds, strict=True)]
        columns.insert(0, f"id {key or 'int'}" + (" primary key" if key else ""))
        table = sql.Identifier("public", name).as_string(self.owner)
        self._owner_run(f"create table {table} ({', '.join(columns)})")
        self.owner.execute("select sluice.capture(%s::regclass, %s)", (table, LOG))

    def _change(self, session: psycopg.Connection) -> None:
        name = self.dice.choice(self.tables)
        columns = self.columns(name)
        if not columns:
            return
        table, draw = sql.Identifier("public", name), self.dice.random()
        chosen = [
            columns[0],
            *self.dice.sample(columns[1:], self.dice.randint(0, len(columns) - 1)),
        ]
        names = sql.SQL(", ").join(sql.Identifier(column) for column, *_ in chosen)
        values = sql.SQL(", ").join(self._value(kind, is_key=is_key) for _, kind, is_key in chosen)
        if draw < 0.5:
            query = sql.SQL("insert into {} ({}) values ({})").format(table, names, values)
        elif draw < 0.8:
            query = sql.SQL(
                "update {} set ({}) = row({}) where ctid = (select max(ctid) from {})"
            ).format(table, names, values, table)
        elif draw < 0.97:
            query = sql.SQL("delete from {} where ctid = (select min(ctid) from {})").format(
                table, table
            )
        else:
            query = sql.SQL("truncate {}").format(table)
        self._note(session, query.as_string(session))
        try:
            session.execute(query)
        except _FAILURES as error:
            self._note(session, f"failed: {error.sqlstate}")
            session.rollback()

    def _value(self, kind: str, *, is_key: bool) -> sql.Composable:
        if is_key and self.dice.random() < 0.8:
            return sql.SQL("{}::text::{}").format(
                sql.Literal(str(self.dice.randint(1, 9))), sql.SQL(kind)
            )
        if not is_key and self.dice.random() < 0.2:
            return sql.SQL("null")
        known = _KINDS.get(
            kind.replace("character varying", "varchar").replace("character", "char"), ("1",)
        )
        return sql.SQL("{}::{}").format(sql.Literal(self.dice.choice(known)), sql.SQL(kind))

    def _define(self) -> None:
        """Change the definition of a random table or type."""
        name = self.dice.choice(self.tables)
        table = sql.Identifier("public", name).as_string(self.owner)
        columns = self.columns(name)
        others = [(column, kind) for column, kind, is_key in columns if not is_key] or [
            ("id", "int")
        ]
        column, kind = self.dice.choice(others)
        quoted, new = f'"{column}"', f'"{self.dice.choice(_COLUMNS)}"'
        added = self.dice.choice(list(_KINDS))
        value = self._value(added, is_key=False).as_string(self.owner)
        retyped = self.dice.choice(_RETYPED.get(_short(kind), (_short(kind),)))
        choices = {
            "add": [f"alter table {table} add {new} {added}"],
            "default": [f"alter table {table} add {new} {added} default {value}"],
            "drop": [f"alter table {table} drop {quoted}"],
            "readd": [
                f"alter table {table} drop {quoted}, add {quoted} {self.dice.choice([_short(kind), added])}"
            ],
            "rename": [f"alter table {table} rename {quoted} to {new}"],
            "retype": [
                f"alter table {table} alter {quoted} type {retyped} using {quoted}::{retyped}"
            ],
            "back": [
                f"alter table {table} alter {quoted} type {retyped} using {quoted}::{retyped}",
                f"alter table {table} alter {quoted} type {_short(kind)} using {quoted}::{_short(kind)}",
            ],
            "default only": [f"alter table {table} alter {quoted} set default null"],
            "label": [
                "alter type mood rename value 'sad' to 'blue'",
                "alter type mood rename value 'blue' to 'sad'",
            ][: self.dice.randint(1, 2)],
            "new label": [
                f"alter type mood add value if not exists 'mood{self.dice.randint(1, 3)}'"
            ],
            "attribute": [f"alter type spot add attribute z{self.dice.randint(1, 99)} int"],
            "generated": [
                f"alter table {table} add {new} bool generated always as ({quoted} is null) stored"
            ],
            "key": [f"alter table {table} drop constraint if exists {_constraint(name)}"],
            "full": [f"vacuum full {table}"],
            "recreate": [f"drop table {table}"],
        }
        if len(others) > 1:
            (one, _), (two, _) = self.dice.sample(others, 2)
            choices["swap"] = [
                f'alter table {table} rename "{one}" to "swapped"', f'alter table {table} rename "{two}" to "{one}"',
                f'alter table {table} rename "swapped" to "{two}"',
            ]  # fmt: skip
        what = self.dice.choice(list(choices))
        for statement in choices[what]:
            if not self._owner_run(statement):
                return
        if what == "recreate":
            self._create(name)

    def _owner_run(self, statement: str) -> bool:
        self._note(self.owner, statement)
        try:
            self.owner.execute(statement)
        except _FAILURES as error:
            self._note(self.owner, f"failed: {error.sqlstate} {error.diag.message_primary}")
            return False
        return True

    def _note(self, session: psycopg.Connection, what: str) -> None:
        number = "ddl" if session is self.owner else str(self.sessions.index(session))
        self.trace.append(f"{number}: {what}")


def _short(kind: str) -> str:
    """Return a type as the tables of this module write it."""
    for long, short in (
        ("character varying", "varchar"),
        ("character", "char"),
        ("integer", "int"),
        ("double precision", "float8"),
    ):
        kind = kind.replace(long, short)
    return kind.replace(" without time zone", "")


def _constraint(name: str) -> str:
    return sql.Identifier(f"{name}_pkey").as_string(None)
