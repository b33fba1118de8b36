"""Compare tables, views, sequences and types of our schemas with those of this release."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg

from pgsluice.schema.texts import CREATE_AGAIN, execute, fetch, pinned, read, translated

# Kinds of rows that harm where the release has none; others, such as a user's own index, do not.
_RELATIONS = ("table", "view", "sequence", "type")
_HARMFUL = ("column", "constraint", "row trigger before", "rule", "invalid index")
_CATALOG, _HINTS = "catalog.txt", "catalog_hints.txt"


class CatalogRow(NamedTuple):
    """A row of catalog.sql.

    Attributes:
        kind: `table`, `view`, `sequence`, `type`, `column`, `index`, `invalid index`, `constraint`, `parent`,
            `trigger`, `row trigger before`, `rule` or `grant`.
        owner: The table or other relation that it belongs to, with its schema.
        name: Name within the relation; of a grant, the privilege.
        definition: SQL of it; of a grant, the role.
    """

    kind: str
    owner: str
    name: str
    definition: str


class CatalogDifference(NamedTuple):
    """A difference between the installed schemas and this release, which no installation corrects.

    Attributes:
        is_missing: True if the release has it and the database not.
        what: The object, what is wrong with it, and the solution if that is not a statement.
        command: The SQL statement that corrects it; empty if there is none.
        is_harmless: True if everything works with it.
    """

    is_missing: bool
    what: str
    command: str = ""
    is_harmless: bool = False


def catalog_text(connection: psycopg.Connection[Any]) -> str:
    """Return the content of catalog.txt for the installed schemas."""
    with translated(), pinned(connection):
        rows = fetch(connection, read("catalog.sql"))
    return "".join("\t".join(row) + "\n" for row in rows)


def catalog_differences(connection: psycopg.Connection[Any]) -> list[CatalogDifference]:
    """Compare with catalog.txt. Where functions are not installed, only the tables of queues are compared."""
    released = [CatalogRow(*line.split("\t")) for line in read(_CATALOG).splitlines()]
    with translated(), pinned(connection):
        found = {CatalogRow(*row) for row in fetch(connection, read("catalog.sql"))}
        [(schemas, roles, schema_owner)] = fetch(connection, read("catalog_names.sql"))
    expected = {
        row
        for row in released
        if row.owner.split(".")[0] in schemas and (row.kind != "grant" or row.definition in roles)
    }
    return list(_differences(expected, found, schema_owner))


def grant_missing(connection: psycopg.Connection[Any]) -> None:
    """Grant what this release grants on tables, to roles that were created after the tables, for example.

    Tables of other owners are left to `verify`.
    """
    for difference in catalog_differences(connection):
        if difference.command.startswith("grant "):
            with (
                contextlib.suppress(psycopg.errors.InsufficientPrivilege),
                connection.transaction(),
            ):
                execute(connection, difference.command)


def _differences(
    expected: set[CatalogRow], found: set[CatalogRow], schema_owner: str
) -> Iterator[CatalogDifference]:
    relations = {row.owner for row in found}
    named = {row[:3]: row for row in found}
    for row in sorted(expected - found):
        other = named.get(row[:3])
        if row.owner not in relations and row.kind not in _RELATIONS:
            continue  # its relation is missing
        if row.kind != "grant" and other is not None:
            yield _changed(row, other, schema_owner)
        elif ("invalid index", row.owner, row.name) not in named:
            yield _missing(row, schema_owner)
    known = {row.owner for row in expected}
    same = {row[:3] for row in expected}
    for row in sorted(found - expected):
        if row.owner in known and row.kind in _HARMFUL and row[:3] not in same:
            is_harmless = row.kind in ("column", "invalid index")
            command = _hint(f"exceeding {row.kind}", row, schema_owner)
            yield CatalogDifference(False, _exceeding(row), command, is_harmless)


def _named(row: CatalogRow) -> str:
    match row.kind:
        case "grant":
            return f"grant {row.name} on {row.owner} to {row.definition}"
        case "index":
            return f"index {row.name} of {row.owner}"
        case "parent":
            return f"inheritance of {row.owner} from {row.name}"
    return f"{row.kind} {row.owner}.{row.name}" if row.name else f"{row.kind} {row.owner}"


def _missing(row: CatalogRow, schema_owner: str) -> CatalogDifference:
    command = _hint(f"missing {row.kind}", row, schema_owner)
    what = f"{_named(row)} is missing"
    if row.kind in ("table", "view", "type"):
        what += f"{': its rows are gone' if row.kind == 'table' else ''}; {CREATE_AGAIN}"
    elif not command:
        what += "; restore it from a backup"
    elif row.kind == "sequence":
        what += "; when created, set it above all numbers in use with setval()"
    return CatalogDifference(True, what, command)


def _changed(row: CatalogRow, found: CatalogRow, schema_owner: str) -> CatalogDifference:
    """Return the difference of an object that has another definition."""
    change = found.definition.partition(" ")[0]
    match change:
        case "unlogged":
            what = "is unlogged: a crash of the server empties it"
        case "row":
            what = "has row-level security without a policy: other roles see no row"
        case "owner":
            role = found.definition.partition(" ")[2]
            what = f"belongs to {role}: functions of the schema's owner cannot use it"
        case "disabled":
            what = "is disabled"
        case "on":
            what = "is enabled on replicas only"
        case _:
            change = ""
            what = (
                f"is {found.definition!r}, and in this release {row.definition!r}; change it back"
            )
    return CatalogDifference(False, f"{_named(row)} {what}", _hint(change, row, schema_owner))


def _exceeding(row: CatalogRow) -> str:
    match row.kind:
        case "row trigger before":
            return f"trigger {row.name} of {row.owner} runs before each row, and can discard it"
        case "rule":
            return f"rule {row.name} rewrites writes of {row.owner}"
        case "invalid index":
            return f"index {row.name} is invalid"
    return f"{_named(row)} is none of this release"


def _hint(difference: str, row: CatalogRow, schema_owner: str) -> str:
    """Return the statement that corrects a difference; empty if there is none."""
    statements = dict(line.split("\t") for line in read(_HINTS).splitlines())
    create, _, method = row.definition.partition(" USING ")
    # An index is created in the schema of its table.
    names = row._asdict() | (
        {"name": row.name.rpartition(".")[2]} if difference == "missing index" else {}
    )
    names["definition"] = row.definition.replace("generated as", "generated always as")
    on = "sequence " if row.owner.endswith("_seq") else ""
    return statements.get(difference, "").format(
        **names, create=create.lower(), method=method, on=on, schema_owner=schema_owner
    )
