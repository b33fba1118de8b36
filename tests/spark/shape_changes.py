"""Statements that change the definition of a captured table in each way that the guide tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.lake.names import TableName

if TYPE_CHECKING:
    from spark.shape_schedules import Schedule

COLUMNS = ("note", "Home Town", "w`ork", "_Seq", "д" * 20, "a.b", "x")
# Types, and values of each.
KINDS: dict[str, tuple[str, ...]] = {
    "int": ("0", "-7", "2147483647"),
    "bigint": ("1", "9007199254740993"),
    "text": ("", "a", "ä😀", "null", "7", "x" * 300, "\\", "\n"),
    "varchar(5)": ("a", "bc "),
    "char(5)": ("a", "b"),
    "numeric": ("1.50", "NaN", "1e20"),
    "numeric(8,2)": ("1.5", "-2.25", "-999999.99"),
    "real": ("0.1", "-0", "-Infinity"),
    "float8": ("0.1", "NaN", "1e300", "-0", "Infinity"),
    "boolean": ("t", "f"),
    "date": ("2026-01-01", "infinity", "-infinity"),
    "timestamp(3)": ("2026-01-01 12:34:56.789", "infinity"),
    "timestamptz": ("2026-01-01 00:00:00.000001+00", "-infinity", "9999-12-31 23:59:59.999999+00"),
    "bytea": ("\\x", "\\x00ff"),
    "uuid": ("00000000-0000-0000-0000-00000000000a",),
    "json": ('{"b": 1, "a": 2}', '"x"', "null", '{"a": [1.50, "b"]}'),
    "jsonb": ('{"b": 1, "a": 2}', '"1"', "1"),
    "mood": ("sad", "fine"),
    "spot": ("(1,2)",),
    "few": ("1", "3"),
    "int[]": ("{1,2}", "{}", "{NULL}"),
}
# Of each type, others that a column of it may get.
_RETYPED = {
    "int": ("bigint", "numeric", "float8", "text"), "bigint": ("numeric", "text"), "text": ("varchar(5)",),
    "varchar(5)": ("text", "char(5)"), "char(5)": ("text",), "numeric": ("int", "numeric(8,2)"),
    "numeric(8,2)": ("numeric", "int", "numeric(12,4)"), "real": ("float8",), "float8": ("real",),
    "timestamp(3)": ("timestamp(0)", "timestamp(6)"), "json": ("jsonb",), "jsonb": ("json",), "int[]": ("bigint[]",),
    "date": ("timestamptz",), "few": ("int",), "boolean": ("text",),
}  # fmt: skip


def definitions(
    schedule: Schedule, name: TableName, others: list[TableName], free: TableName
) -> dict[str, list[str]]:
    """Return the statements of each kind of change; those with random names and values have new ones at each call.

    Args:
        schedule: Has the tables, and decides.
        name: The table to change.
        others: Other tables.
        free: A name that no table has.
    """
    return (
        _of_columns(schedule, name)
        | _of_types(schedule, name)
        | _of_keys(schedule, name)
        | _of_names(schedule, name, others, free)
        | (_of_partitions(schedule, name) if schedule.is_partitioned(name) else {})
    )


def _of_columns(schedule: Schedule, name: TableName) -> dict[str, list[str]]:
    dice, table = schedule.dice, f"alter table {schedule.quoted(name)}"
    plain = [(column, kind) for column, kind, is_key in schedule.columns(name) if not is_key]
    column, kind = dice.choice(plain or [("id", "int")])
    one, new, added = f'"{column}"', f'"{dice.choice(COLUMNS)}"', dice.choice(list(KINDS))
    value = schedule.value(added, is_key=False).as_string(schedule.owner)
    back = short(kind)
    retyped = dice.choice(_RETYPED.get(back, (back,)))
    retype, retype_back = (
        f"{table} alter {one} type {to} using {one}::{to}" for to in (retyped, back)
    )
    expression = f"generated always as ({one} is null) stored"
    found = {
        "add": [f"{table} add {new} {added}"],
        "default": [f"{table} add {new} {added} default {value}"],
        "drop": [f"{table} drop {one}"],
        "readd": [f"{table} drop {one}, add {one} {dice.choice([back, added])}"],
        "rename": [f"{table} rename {one} to {new}"],
        "retype": [retype],
        "back": [retype, retype_back],
        "default only": [f"{table} alter {one} set default null"],
        "generated": [f"{table} add {new} bool {expression}"],
        "virtual": [f"{table} add {new} bool generated always as ({one} is null) virtual"],
        "expression": [
            f"{table} add g bool {expression}",
            f"{table} alter g set expression as ({one} is not null)",
        ][dice.randint(0, 1) :],
        "plain": [f"{table} alter g drop expression"],
        "full": [f"vacuum full {schedule.quoted(name)}"],
        "recreate": [f"drop table {schedule.quoted(name)}"],
    }
    if len(plain) > 1:
        (first, _), (second, _) = dice.sample(plain, 2)
        found["swap"] = [
            f'{table} rename "{first}" to "swapped"', f'{table} rename "{second}" to "{first}"',
            f'{table} rename "swapped" to "{second}"',
        ]  # fmt: skip
    return found


def _of_types(schedule: Schedule, name: TableName) -> dict[str, list[str]]:
    dice = schedule.dice
    number = dice.randint(1, 3)
    return {
        "label": [
            "alter type mood rename value 'sad' to 'blue'",
            "alter type mood rename value 'blue' to 'sad'",
        ][dice.randint(0, 1) :][: dice.randint(1, 2)],
        "new label": [
            f"alter type mood add value if not exists 'mood{number}' before '{dice.choice(['sad', 'fine'])}'"
        ],
        "attribute": [f"alter type spot add attribute z{number} int"],
        "no attribute": [f"alter type spot drop attribute if exists z{number}"],
    }


def _of_keys(schedule: Schedule, name: TableName) -> dict[str, list[str]]:
    dice, table = schedule.dice, f"alter table {schedule.quoted(name)}"
    columns = schedule.columns(name)
    keys = [f'"{column}"' for column, _, is_key in columns if is_key]
    other = dice.choice([f'"{column}"' for column, *_ in columns] or ["id"])
    drop = f"{table} drop constraint if exists {_constraint(schedule, name)}"
    key = (
        f"alter {keys[0]} type {dice.choice(['bigint', 'text'])}"
        if keys
        else "alter id set not null"
    )
    return {
        "no key": [drop],
        "another key": [f"{drop}, add primary key ({other})"],
        "longer key": [f"{drop}, add primary key ({', '.join({*keys, other})})"],
        "renamed key": [
            f'{table} rename {keys[0] if keys else other} to "key{dice.randint(1, 3)}"'
        ],
        "retyped key": [f"{table} {key}"],
        "captured again": [
            f"select sluice.capture({_literal(schedule.quoted(name))}::regclass, 'log')"
        ],
    }


def _of_names(
    schedule: Schedule, name: TableName, others: list[TableName], free: TableName
) -> dict[str, list[str]]:
    table = f"alter table {schedule.quoted(name)}"
    schema = "public" if name.schema != "public" else "Odd.Schema"
    rename = f'{table} rename to "{free.table}"'
    found = {
        "other name": [rename],
        "other schema": [f'{table} set schema "{schema}"'],
    }
    there = TableName(name.schema, free.table)
    if there not in others:
        change = schedule.dice.choice(
            ["insert into {} (id) values (5)", "delete from {}", "truncate {}"]
        )
        found["other name and back"] = [
            rename,
            change.format(schedule.quoted(there)),
            f'alter table {schedule.quoted(there)} rename to "{name.table}"',
        ]
    same = [other for other in others if other.schema == name.schema]
    if same:
        other = schedule.dice.choice(same)
        between = schedule.quoted(TableName(name.schema, "between"))
        found["exchanged names"] = [
            f'{table} rename to "between"',
            f'alter table {schedule.quoted(other)} rename to "{name.table}"',
            f'alter table {between} rename to "{other.table}"',
        ]
    return found


def _of_partitions(schedule: Schedule, name: TableName) -> dict[str, list[str]]:
    dice, table = schedule.dice, schedule.quoted(name)
    there, former = (schedule.partitions(name, attached=is_there) for is_there in (True, False))
    found: dict[str, list[str]] = {}
    if there:
        one = dice.choice(there)
        found["detach"] = [f"alter table {table} detach partition {one}"]
        found["concurrently"] = [f"alter table {table} detach partition {one} concurrently"]
        found["drop partition"] = [f"drop table {one}"]
        found["truncate partition"] = [f"truncate {one}"]
        found["truncate and detach"] = [
            f"truncate {one}", f"alter table {table} detach partition {one}"
        ]  # fmt: skip
        found["into partition"] = [f"insert into {one} (id) values ({dice.randint(1, 9)})"]
    for bounds in ("from (minvalue) to (4)", "from (4) to (maxvalue)"):
        new = f"part_{dice.getrandbits(40)}"
        if former:
            one = dice.choice(former)
            found[f"attach {bounds}"] = [
                f"alter table {table} attach partition {one} for values {bounds}"
            ]
            found["into former"] = [f"insert into {one} (id) values ({dice.randint(1, 9)})"]
        found[f"create {bounds}"] = [f"create table {new} partition of {table} for values {bounds}"]
    return found


def short(kind: str) -> str:
    """Return a type as the tables of these schedules write it."""
    for long, name in (
        ("character varying", "varchar"), ("character", "char"), ("integer", "int"), ("double precision", "float8"),
        ("timestamp with time zone", "timestamptz"),
    ):  # fmt: skip
        kind = kind.replace(long, name)
    return kind.replace(" without time zone", "")


def _constraint(schedule: Schedule, name: TableName) -> str:
    found = schedule.owner.execute(
        "select quote_ident(conname) from pg_constraint where conrelid = to_regclass(%s) and contype = 'p'",
        (schedule.quoted(name),),
    ).fetchone()
    return str(found[0]) if found else "none"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
