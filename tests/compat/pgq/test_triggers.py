"""Our triggers and PgQ's C triggers write the same events for the same tables and changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from support import rows, value

README = Path(__file__).parents[3] / "src" / "pgsluice" / "sql" / "pgq" / "README.md"
KINDS = ("jsontriga", "logutriga", "sqltriga")
TABLE = "create table t (id int primary key, a text, b text)"
CHANGES = (
    "insert into t values (1, 'x', 'y')",
    "update t set a = 'z w' where id = 1",
    "update t set a = a",
    "update t set b = 'only b'",
    "update t set a = null, b = E'é&%/\\\\''q\n'",
    "update t set id = 2",
    "delete from t",
)
EXPRESSIONS = (
    "when=id=1",
    "when=a is null",
    "when=id",
    "when=null::bool",
    "when=a='x'",
    "when=false",
    "when=true -- c",
    "ev_type=a",
    "ev_type=null",
    "ev_data='d' || a",
    "ev_extra1=id",
    "ev_extra2=id > 0",
    "ev_extra3=row(id, a)",
    "ev_extra4=(select b)",
    "ev_extra4=inet '10.0.0.1'",
    "ev_extra1=1/0",
    "ev_extra1=nocol",
    "ev_extra1=(select 1 where false)",
)
BAD = ("foo", "ignore", "pkey", "backup=1", "deny=", "SKIP=", "skip", "when", "ev_x=1", "", " SKIP")
LISTS = ("ignore=b", "ignore=a, b", "ignore=a b", "ignore=", "ignore=id", "pkey=a,b", "pkey=a, b")
ON_TRUNCATE = ("ignore=a", "pkey=a", "backup", "when=true", "ev_extra3=1", "deny", "SKIP", "bad")
MAGIC = """create table t (
    id int primary key, a text, _pgq_ev_type text, _pgq_ev_extra1 bool, _pgq_ev_extra2 text,
    _pgq_ev_extra3 text, _pgq_ev_extra4 int[], _pgq_ev_data text
)"""
MAGIC_CHANGES = (
    "insert into t values (1, 'x', 'ty', true, 'e2', null, '{1,2}', 'data')",
    "insert into t values (2, 'y')",
    "update t set _pgq_ev_type = 'new'",
    "update t set a = 'new'",
    "delete from t",
)
ODD = '"S ch,e"."T\'a\\b""l"'
TYPES = {
    "smallint": ["1", "-2"],
    "integer": ["1"],
    "bigint": ["9223372036854775807"],
    "numeric": ["1.00", "'NaN'", "1e40", "'Infinity'"],
    "numeric(10,2)": ["1.5"],
    "real": ["1.5", "'NaN'", "0.1", "'-Infinity'"],
    "float8": ["0.1", "1e300", "-0.0"],
    "money": ["1.5"],
    "bool": ["true", "false"],
    "text": ["''", "E'a\\'b\\\\c\"d'", "'(,)'", "'\"'", "E'\\x01\\t\\n'"],
    "char(5)": ["'a'"],
    '"char"': ["'a'"],
    "name": ["'n'"],
    "bytea": ["'\\x00ff'", "'abc'"],
    "date": ["'2020-01-02'", "'infinity'", "'0044-03-15 BC'"],
    "timestamp": ["'2020-01-02 03:04:05.678'", "'-infinity'"],
    "timestamptz": ["'2020-01-02 03:04:05.678+02'", "'infinity'"],
    "time": ["'01:02'"],
    "timetz": ["'01:02+03'"],
    "interval": ["'1 day 2 hours'"],
    "uuid": ["'00000000-0000-0000-0000-000000000001'"],
    "inet": ["'10.0.0.1'", "'::1/64'"],
    "cidr": ["'10.0.0.0/8'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "json": ["""'{"a": [1,  2]}'"""],
    "jsonb": ["""'{"b": 1, "a": null}'"""],
    "int[]": ["'{1,NULL,3}'", "'{}'", "'{{1},{2}}'"],
    "text[]": ["""'{"a b",NULL,"NULL","q\\"x"}'"""],
    "bool[]": ["'{t,f}'"],
    "timestamptz[]": ["'{2020-01-01}'"],
    "comp": ["row(1, 'x y')", "row(null, null)", "row(null, '(\"')"],
    "comp[]": ["array[row(1, 'x')::comp]"],
    "dom": ["5"],
    "en": ["'one'"],
    "int4range": ["'[1,5)'"],
    "int4multirange": ["'{[1,5)}'"],
    "point": ["'1,2'"],
    "tsvector": ["'a b'"],
    "bit(3)": ["'101'"],
    "pg_lsn": ["'0/1'"],
    "xid8": ["'5'"],
    "regclass": ["'pg_class'"],
}
TYPE_SETTINGS = (
    "set datestyle = 'SQL, DMY'; set bytea_output = 'escape'; set timezone = 'Asia/Kolkata'; "
    "set extra_float_digits = 0; set intervalstyle = 'iso_8601'"
)


@dataclass(frozen=True)
class Case:
    """Triggers on a table and changes of it."""

    name: str
    setup: str
    changes: tuple[str, ...] = CHANGES


def trigger(kind: str, *options: str, when: str = "after", table: str = "t") -> str:
    arguments = ", ".join("'" + option.replace("'", "''") + "'" for option in ("q", *options))
    return (
        f"; create trigger z {when} insert or update or delete on {table} "
        f"for each row execute function pgq.{kind}({arguments})"
    )


def on_truncate(kind: str, *options: str, when: str = "after") -> str:
    arguments = ", ".join(f"'{option}'" for option in ("q", *options))
    return (
        f"; create trigger r {when} truncate on t "
        f"for each statement execute function pgq.{kind}({arguments})"
    )


def option_cases(kind: str) -> list[Case]:
    with_backup = [
        Case(f"{option} and backup", TABLE + trigger(kind, option, "backup"))
        for option in (*EXPRESSIONS, *LISTS)
    ]
    after = trigger("logutriga").replace("trigger z", "trigger after_skip")
    return [
        Case("no option", TABLE + trigger(kind) + on_truncate(kind), (*CHANGES, "truncate t")),
        Case("backup", TABLE + trigger(kind, "backup")),
        *with_backup,
        *(Case(f"bad {bad!r}", TABLE + trigger(kind, bad), CHANGES[:1]) for bad in BAD),
        *(
            Case(f"truncate {option}", TABLE + on_truncate(kind, option), ("truncate t",))
            for option in ON_TRUNCATE
        ),
        Case(
            "truncate skipped before",
            TABLE + on_truncate(kind, "SKIP", when="before"),
            (CHANGES[0], "truncate t", CHANGES[0]),
        ),
        Case("SKIP before", TABLE + trigger(kind, "SKIP", when="before") + after),
        Case("SKIP after", TABLE + trigger(kind, "SKIP"), CHANGES[:1]),
        Case("deny", TABLE + trigger(kind, "deny")),
        Case(
            "local",
            TABLE + trigger(kind, "deny"),
            ("set session_replication_role = local", *CHANGES),
        ),
        Case(
            "replica", TABLE + trigger(kind), ("set session_replication_role = replica", *CHANGES)
        ),
        Case(
            "twice", TABLE + trigger(kind, "ev_extra3=1", "ev_extra3=2", "when=true", "when=false")
        ),
        Case("ignore twice", TABLE + trigger(kind, "ignore=a", "ignore=b")),
        Case("statement", TABLE + trigger(kind).replace("each row", "each statement"), CHANGES[:1]),
        Case("no argument", TABLE + trigger(kind).replace("('q')", "()"), CHANGES[:1]),
        Case("unknown log", TABLE + trigger(kind).replace("('q')", "('missing')"), CHANGES[:1]),
    ]


def table_cases(kind: str) -> list[Case]:
    three = "insert into t values (1, 1)", "update t set a = 2", "delete from t"
    part = (
        "create table t (k int primary key, a int) partition by range (k); "
        "create table t1 partition of t for values from (0) to (10); "
        "create table t2 partition of t for values from (10) to (20)"
    )
    odd = (
        f'create schema "S ch,e"; create table {ODD} ("I d" int primary key, "cö,l" text, '
        '"sel""ect" text, "order" int, "%s" int, "A&B=" int)'
    )
    function = "create function s.f(int) returns text language sql as $$select 'f' || $1$$"
    return [
        Case("magic", MAGIC + trigger(kind), MAGIC_CHANGES),
        Case(
            "magic and options",
            MAGIC + trigger(kind, "ev_extra2=a", "backup", "ev_type='T'"),
            MAGIC_CHANGES,
        ),
        Case("magic and ignore", MAGIC + trigger(kind, "ignore=a"), MAGIC_CHANGES),
        Case("magic truncate", MAGIC + on_truncate(kind), ("truncate t",)),
        Case(
            "unknown magic",
            "create table t (id int primary key, _pgq_ev_x text)" + trigger(kind),
            ("insert into t values (1, 'x')",),
        ),
        Case("no key", "create table t (id int, a text, b text)" + trigger(kind)),
        Case(
            "null key",
            "create table t (k int, a int)" + trigger(kind, "pkey=k"),
            ("insert into t values (null, 1)", *three[1:], "update t set k = 1"),
        ),
        Case("no columns", "create table t ()" + trigger(kind), ("insert into t default values",)),
        Case(
            "order of the key",
            "create table t (a int, b int, c int, primary key (c, a))" + trigger(kind),
            ("insert into t values (1, 1, 1)", "update t set b = 2", "update t set b = b"),
        ),
        Case(
            "generated",
            "create table t (k int primary key, a int, b int generated always as (a * 2) stored)"
            + trigger(kind),
            three,
        ),
        Case(
            "before",
            "create table t (k int primary key, a int)" + trigger(kind, when="before"),
            three,
        ),
        Case(
            "table altered in the session",
            "create table t (x int, k int primary key, a int); alter table t drop x"
            + trigger(kind),
            (
                *three,
                "alter table t alter a type numeric using a / 3.0",
                "insert into t values (2, 2)",
                "alter table t drop a",
                "update t set k = k",
                "alter table t add c bool",
                "update t set c = true",
                "alter table t rename to t2",
                "delete from t2",
            ),
        ),
        Case(
            "two tables",
            "create table t (k int primary key, a int); create table u (a text, z int primary key)"
            + trigger(kind)
            + trigger(kind, table="u"),
            (*three, "insert into u values ('x', 1)", "update u set a = 'y'", *three),
        ),
        Case("partitions", part + trigger(kind), (*three[:2], "update t set k = 12", three[2])),
        Case(
            "view",
            "create table base (k int primary key, a int); create view t as select * from base"
            + trigger(kind, "pkey=k", when="instead of"),
            (three[0], "insert into base values (1, 1)", *three[1:]),
        ),
        Case(
            "odd names",
            odd + trigger(kind, "backup", table=ODD),
            (
                f"insert into {ODD} values (1, '', E'a\\n\\t\\x01\"\\\\', 3, 4, 5)",
                f'update {ODD} set "cö,l" = \'a b\', "order" = null',
                f"delete from {ODD}",
            ),
        ),
        Case(
            "functions found in the session's search_path",
            f"create table t (k int primary key, a int); {function}"
            + trigger(kind, "ev_extra2=f(k)", "when=f(k) is not null"),
            three[:1],
        ),
        Case(
            "functions not found in the session's search_path",
            f"create table t (k int primary key, a int); {function}"
            + trigger(kind, "ev_extra2=f(k)"),
            ("set search_path = public", "insert into s.t values (1, 1)"),
        ),
    ]


def type_cases(kind: str, settings: str) -> list[Case]:
    made = (
        "create type comp as (i int, t text); create domain dom as int; "
        "create type en as enum ('one', 'two'); create table t (id int primary key, v {})"
    )
    return [
        Case(
            f"type {name}",
            made.format(name) + trigger(kind, "backup"),
            (
                settings,
                *(f"insert into t values ({i}, {content})" for i, content in enumerate(contents)),
                "update t set v = v",
                "update t set v = null",
                "insert into t values (99)",
                "delete from t",
            ),
        )
        for name, contents in TYPES.items()
    ]


def outcome(connection: psycopg.Connection, case: Case) -> list[tuple]:
    """Return the errors of the changes, then the events."""
    connection.execute('reset all; drop schema if exists s, "S ch,e" cascade')
    connection.execute("create schema s; set search_path = s")
    connection.execute(case.setup)
    errors: list[tuple] = []
    for change in case.changes:
        try:
            connection.execute(change)
        except psycopg.Error as error:
            errors.append((change, error.diag.message_primary))
    connection.execute("reset session_replication_role")
    events = str(value(connection, "select queue_data_pfx from pgq.queue"))
    found = rows(
        connection,
        f"select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4 from {events} order by ev_id",
    )
    connection.execute(f"truncate {events}")
    return errors + found


def differing(both: tuple[psycopg.Connection, psycopg.Connection], cases: list[Case]) -> list[str]:
    mine, theirs = both
    for connection in both:
        connection.execute("select pgq.create_queue('q')")
    lines = []
    for case in cases:
        ours, pgqs = outcome(mine, case), outcome(theirs, case)
        if ours != pgqs:
            lines += [
                case.name,
                *(f"  ours {row}" for row in ours if row not in pgqs),
                *(f"  PgQ  {row}" for row in pgqs if row not in ours),
            ]
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_option_does_what_pgqs_does(both, kind):
    lines = differing(both, option_cases(kind))

    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_makes_the_events_that_pgqs_make(both, kind):
    lines = differing(both, table_cases(kind))

    assert not lines, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["select", TYPE_SETTINGS], ids=["defaults", "settings"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_written_as_pgqs_write_it(both, kind, settings):
    lines = differing(both, type_cases(kind, settings))

    assert not lines, "\n".join(lines)


# Beginning of a line of the list of differences in sql/pgq/README.md → a case that shows it.
KEYED = "create table t (k numeric primary key, a numeric, b text)"
DIFFERENCES = {
    "a trigger knows the key by its columns": Case(
        "renamed",
        "create table t (a int primary key, b int); alter table t rename a to k",
        ("insert into t values (1, 1)", "update t set b = 2"),
    ),
    "a column has changed when its text differs": Case(
        "scale", KEYED, ("insert into t values (1, 1.0)", "update t set a = 1.00, b = 'y'")
    ),
    "a key that changes is always refused": Case(
        "late key",
        "create table t (a int, b int, k int primary key)",
        ("insert into t values (1, 1, 1)", "update t set a = 2, k = 3"),
    ),
    "an expression of a trigger is SQL over the row": Case(
        "quoted", TABLE, ("insert into t values (1, 'x', 'y')",)
    ),
    "an expression that gives no row is null": Case(
        "no row", TABLE, ("insert into t values (1, 'x', 'y')",)
    ),
    "a trigger BEFORE UPDATE has generated columns as null": Case(
        "generated",
        "create table t (k int primary key, a int, b int generated always as (a * 2) stored)",
        ("insert into t values (1, 1)", "update t set a = 2"),
    ),
}
OPTIONS = {
    "a column has changed when its text differs": ("ignore=b",),
    "a key that changes is always refused": ("ignore=b",),
    "an expression of a trigger is SQL over the row": ('ev_extra3=r.a || "b"',),
    "an expression that gives no row is null": ("ev_extra3=1 where false",),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reason", DIFFERENCES)
def test_every_difference_is_in_the_readme(both, kind, reason):
    case = DIFFERENCES[reason]
    when = "before" if "BEFORE" in reason else "after"
    made = trigger(kind, *OPTIONS.get(reason, ()), when=when)
    lines = differing(both, [Case(case.name, case.setup + made, case.changes)])

    assert f"\n| {reason}" in README.read_text()
    # PgQ's sqltriga compares every column.
    assert lines or (kind == "sqltriga" and reason.startswith("a key that changes"))
