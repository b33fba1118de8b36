"""Random schedules of sessions that change captured tables and their definitions."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import psycopg
from psycopg import IsolationLevel, sql

from pgsluice.lake.names import TableName
from spark.conftest import LOG
from spark.shape_changes import COLUMNS, KINDS, definitions, short
from support import value
from support.servers import Database

_LEVELS = (
    IsolationLevel.READ_COMMITTED,
    IsolationLevel.REPEATABLE_READ,
    IsolationLevel.SERIALIZABLE,
)
_SCHEMAS = ("public", "Odd.Schema")
_NAMES = ("Odd.Table", "a`b", "t%20", "длинное имя", "user", "plain")
# Values that a lake cannot hold: their table is parked.
_HARD = {
    "numeric(8,2)": "NaN",
    "date": "0044-03-15 BC",
    "timestamptz": "0044-03-15 BC",
    "json": '"\\ud800"',
}
_HARD_EVERY = 30
_KEYS = ("int", "int", "text", "numeric(8,2)", "float8", "date", "timestamptz", "int, text", None)
# A table with this capture leaves larger rows out of its events.
_ROW_BYTES_MAX = 250
_FAILURES = (
    psycopg.errors.LockNotAvailable, psycopg.errors.SerializationFailure, psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected, psycopg.errors.DataError, psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable, psycopg.errors.NotNullViolation, psycopg.errors.DuplicateColumn,
    psycopg.errors.DuplicateObject, psycopg.errors.FeatureNotSupported, psycopg.errors.DatatypeMismatch,
    psycopg.errors.DependentObjectsStillExist, psycopg.errors.CannotCoerce, psycopg.errors.InvalidTableDefinition,
    psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject,
    psycopg.errors.DuplicateTable, psycopg.errors.CheckViolation, psycopg.errors.ObjectInUse,
    psycopg.errors.UnsafeNewEnumValueUsage, psycopg.errors.InvalidObjectDefinition, psycopg.errors.WrongObjectType,
)  # fmt: skip
_NOT_READ_COMMITTED = "PQ004"  # of a partition that is truncated in another isolation level


@dataclass
class Schedule:
    """Sessions of one thread, each with a transaction of its own, that take steps in a random order.

    Attributes:
        database: The database of the tables.
        dice: Decides each step.
        definitions: Share of the steps that change the definition of a table or type.
        trace: The statements so far, for the report of a failure.
    """

    database: Database
    dice: random.Random
    definitions: float = 0.1
    trace: list[str] = field(default_factory=list)
    _exclusive: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.owner = self.database.connect()
        self.owner.execute(
            """create type mood as enum ('sad', 'fine'); create type spot as (x int, y int);
            create domain few as int; create schema "Odd.Schema" """
        )
        self.sessions = [self.database.connect(autocommit=False) for _ in range(3)]
        for session in (self.owner, *self.sessions):
            session.execute("set lock_timeout = '20ms'; set timezone = 'UTC'")
            session.commit()
        for _ in range(self.dice.randint(2, 4)):
            self._create(self.owner, self._new_name())
        while not value(self.owner, "select count(*) from pgq.event_1"):
            self._change(self.owner)  # so that the lake has a table

    @property
    def tables(self) -> list[TableName]:
        """The tables whose creation is committed, in order."""
        found = self.owner.execute(
            """select n.nspname::text, c.relname::text from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
            where n.nspname = any (%s) and c.relkind in ('r', 'p') and not c.relispartition and c.relname !~ '^part_'
            order by 1, 2""",
            (list(_SCHEMAS),),
        )
        return [TableName(*row) for row in found]

    @property
    def is_free(self) -> bool:
        """True if no transaction holds a lock that readers of a table or of its partitions wait for."""
        return not self._exclusive

    def close(self) -> None:
        """End all transactions and sessions."""
        self.settle()
        for session in (self.owner, *self.sessions):
            session.close()

    def settle(self) -> None:
        """End all transactions."""
        for session in self.sessions:
            self._end(session, self.dice.choice(["commit", "rollback"]))

    def step(self) -> None:
        """Take one random step of a random session."""
        draw = self.dice.random()
        if draw < 0.7 * self.definitions:
            self._define(self.owner)
            return
        session = self.dice.choice(self.sessions)
        if session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            session.isolation_level = self.dice.choice(_LEVELS)
            session.execute("select count(*) from pg_class where false")
        elif self.dice.random() < 0.35:
            self._end(session, self.dice.choice(["commit", "commit", "commit", "rollback"]))
            return
        if draw < self.definitions:
            self._define(session)
        else:
            self._change(session)

    def columns(self, name: TableName) -> list[tuple[str, str, bool]]:
        """Return the columns of a table: name, type, and True for those of the key."""
        return self.owner.execute(
            """select a.attname::text, format_type(a.atttypid, a.atttypmod), coalesce(a.attnum = any (i.indkey), false)
            from pg_attribute as a
            left join pg_index as i on i.indrelid = a.attrelid and i.indisprimary
            where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
            order by a.attnum""",
            (self.quoted(name),),
        ).fetchall()

    def quoted(self, name: TableName) -> str:
        """Return a name as SQL has it."""
        return sql.Identifier(name.schema, name.table).as_string(self.owner)

    def value(self, kind: str, *, is_key: bool) -> sql.Composable:
        """Return a random value of a type."""
        if is_key and self.dice.random() < 0.8:
            number = self.dice.randint(1, 9)
            text = f"2026-01-0{number}" if kind.startswith(("date", "time")) else str(number)
            return sql.SQL("{}::text::{}").format(sql.Literal(text), sql.SQL(kind))
        if not is_key and self.dice.random() < 0.2:
            return sql.SQL("null")
        kind = short(kind)
        known = KINDS.get(kind, ("1",))
        if kind in _HARD and not self.dice.randrange(_HARD_EVERY):
            known = (_HARD[kind],)
        return sql.SQL("{}::{}").format(sql.Literal(self.dice.choice(known)), sql.SQL(kind))

    def _new_name(self) -> TableName:
        there = self.tables
        every = [TableName(schema, table) for schema in _SCHEMAS for table in _NAMES]
        return self.dice.choice([name for name in every if name not in there])

    def _create(self, session: psycopg.Connection, name: TableName) -> None:
        names = self.dice.sample(COLUMNS, 3)
        columns = [f'"{column}" {kind}' for column, kind in zip(names, self._kinds(3), strict=True)]
        key, table = self.dice.choice(_KEYS), self.quoted(name)
        is_partitioned = key == "int" and self.dice.random() < 0.4
        first, _, second = (key or "int").partition(", ")
        columns.insert(0, f"id {first}")
        columns += [f"id2 {second}"] if second else []
        columns += [f"primary key (id{', id2' if second else ''})"] if key else []
        options = f'{{"row_bytes_max": {_ROW_BYTES_MAX}}}' if self.dice.random() < 0.1 else "{}"
        statements = [
            f"create table {table} ({', '.join(columns)}){' partition by range (id)' if is_partitioned else ''}",
            f"select sluice.capture({sql.Literal(table).as_string()}::regclass, '{LOG}', '{options}')",
        ]
        if is_partitioned:
            low, high = (f"part_{self.dice.getrandbits(40)}" for _ in range(2))
            statements[1:1] = [
                f"create table {low} partition of {table} for values from (minvalue) to (4)",
                f"create table {high} partition of {table} for values from (4) to (maxvalue)",
            ]
        for statement in statements:
            if not self._run(session, statement):
                return

    def _kinds(self, count: int) -> list[str]:
        return self.dice.choices(list(KINDS), k=count)

    def _change(self, session: psycopg.Connection) -> None:
        tables = self.tables
        if not tables:
            return
        name = self.dice.choice(tables)
        columns = self.columns(name)
        if not columns:
            return
        table, draw = sql.SQL(self.quoted(name)), self.dice.random()
        keys = [one for one in columns if one[2]] or columns[:1]
        others = [one for one in columns if one not in keys]
        chosen = [*keys, *self.dice.sample(others, self.dice.randint(0, len(others)))]
        names = sql.SQL(", ").join(sql.Identifier(column) for column, *_ in chosen)
        values = sql.SQL(", ").join(self.value(kind, is_key=is_key) for _, kind, is_key in chosen)
        if draw < 0.5:
            query = sql.SQL("insert into {} ({}) values ({})").format(table, names, values)
        elif draw < 0.55:
            query = sql.SQL(
                "insert into {0} ({1}) values ({2}), ({2}) on conflict do nothing"
            ).format(table, names, values)
        elif draw < 0.8:
            query = sql.SQL(
                "update {0} set ({1}) = row({2}) where (tableoid, ctid) = (select tableoid, ctid from {0} "
                "order by ctid desc, tableoid limit 1)"
            ).format(table, names, values)
        elif draw < 0.97:
            query = sql.SQL(
                "delete from {0} where (tableoid, ctid) = (select tableoid, ctid from {0} order by ctid, tableoid limit 1)"
            ).format(table)
        else:
            query = sql.SQL("truncate {}").format(table)
        self._run(session, query.as_string(session))

    def _define(self, session: psycopg.Connection) -> None:
        """Change the definition of a random table or type, with a session; of the owner without a transaction."""
        tables = self.tables
        if not tables or (len(tables) < 4 and self.dice.random() < 0.05):
            self._create(session, self._new_name())
            return
        name = self.dice.choice(tables)
        choices = definitions(self, name, [one for one in tables if one != name], self._new_name())
        what = self.dice.choice(list(choices))
        if session is not self.owner and what in ("full", "concurrently"):
            return
        for statement in choices[what]:
            if not self._run(session, statement):
                return
        if what == "recreate":
            self._create(session, name)

    def _run(self, session: psycopg.Connection, statement: str) -> bool:
        number = "ddl" if session is self.owner else str(self.sessions.index(session))
        self.trace.append(f"{number}: {statement}")
        if session is not self.owner and not statement.startswith(("insert", "update", "delete")):
            self._exclusive.add(id(session))
        try:
            session.execute(statement)  # type: ignore[call-overload]
        except psycopg.Error as error:
            if not isinstance(error, _FAILURES) and error.sqlstate != _NOT_READ_COMMITTED:
                raise
            self.trace.append(f"{number}: failed: {error.sqlstate} {error.diag.message_primary}")
            session.rollback()
            self._exclusive.discard(id(session))
            return False
        return True

    def _end(self, session: psycopg.Connection, how: str) -> None:
        self.trace.append(f"{self.sessions.index(session)}: {how}")
        try:
            getattr(session, how)()
        except psycopg.errors.SerializationFailure:
            session.rollback()
        self._exclusive.discard(id(session))

    def partitions(self, name: TableName, *, attached: bool) -> list[str]:
        """Return the partitions of a table, or the tables that are detached from any."""
        query = (
            "select inhrelid::regclass::text from pg_inherits where inhparent = to_regclass(%s) order by 1"
            if attached
            else "select oid::regclass::text from pg_class where relname ~ '^part_' and relkind = 'r' "
            "and not relispartition and %s <> '' order by 1"
        )
        return [row[0] for row in self.owner.execute(query, (self.quoted(name),))]

    def is_partitioned(self, name: TableName) -> bool:
        """True if a table has partitions or may have them."""
        query = "select relkind = 'p' from pg_class where oid = to_regclass(%s)"
        return bool(value(self.owner, query, self.quoted(name)))
