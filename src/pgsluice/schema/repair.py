"""Missing parts of installed schemas, such as after a half-done reset: find them, and create them again, empty."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import psycopg

from pgsluice.errors import SchemaError
from pgsluice.schema.ledger import installed_versions, lost_schemas, resolvable_signatures
from pgsluice.schema.texts import (
    CREATE_AGAIN,
    LEGACY,
    execute,
    fetch,
    guard_grants,
    ledger_row,
    migrations,
    pinned,
    read,
    run,
    translated,
)

_CONTENTS = {
    "pgmq": "queues, messages, archives and topic bindings",
    "pgq": "logs, events, consumers and their positions, and triggers that captured changes",
    "pgq_coop": "functions",
    "sluice": "dead letters, schedules, limits, retention, deduplication, share groups, exports and captures of tables",
}
# Kinds that are looked for; the others are parts of a table, and created with it.
_LOOKED_FOR = ("type", "sequence", "table", "column", "constraint", "index", "view")


@dataclass(frozen=True, slots=True)
class Part:
    """A database object of this release that is not a function.

    Attributes:
        kind: Such as `table`, `column`, `grant`.
        relation: Table, view, type or sequence to which it belongs, with its schema.
        name: Unique name among its kind.
        statement: SQL that creates it.
    """

    kind: str
    relation: str
    name: str
    statement: str

    @property
    def schema(self) -> str:
        """The schema of the relation."""
        return self.relation.partition(".")[0]


@cache
def released() -> tuple[Part, ...]:
    """Return the parts of this release, in an order in which they can be created."""
    return tuple(Part(*json.loads(line)) for line in read("objects.jsonl").splitlines())


def missing(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """List schemas, tables, types, columns, indexes and constraints of an installation that are missing.

    Returns:
        One line each: the name, its contents that are gone, and the solution. Empty if nothing is installed, if
        nothing is missing, or if migrations are pending, except for whole schemas.
    """
    with translated(), pinned(connection):
        installed = installed_versions(connection)
        if not installed:
            return _without_ledger(remains(connection))
        lost = lost_schemas(connection)
        lines = [
            f"schema {name} is missing: its {_CONTENTS[name]} are gone; {CREATE_AGAIN}"
            for name in lost
        ]
        of_them = {version.partition("/")[0] for version in installed} - set(lost)
        if any(
            m.version not in installed and m.version.partition("/")[0] in of_them
            for m in migrations()
        ):
            return tuple(lines)
        return (*lines, *(_line(part) for part in _absent(connection, of_them)))


def _without_ledger(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    where = (
        "schema sluice is missing" if "sluice" not in names else "table sluice.migration is missing"
    )
    gone = (
        f": its {_CONTENTS['sluice']} are gone"
        if "sluice" not in names
        else ", the record of migrations"
    )
    return (f"{where}{gone}, and {', '.join(names)} remain; {CREATE_AGAIN}",)


def _line(part: Part) -> str:
    gone = ": its rows are gone" if part.kind == "table" else ""
    return f"{part.kind} {part.name} is missing{gone}; {CREATE_AGAIN}"


def remains(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return our schemas, and `legacy`, in a database whose ledger is gone; empty if there is a ledger."""
    known = resolvable_signatures(connection, legacy=True)
    return tuple(sorted(name for (name,) in fetch(connection, read("remains.sql"), known)))


def restore_ledger(
    connection: psycopg.Connection[Any], kept: Sequence[str], lost: Sequence[str]
) -> None:
    """Record the migrations of accepted schemas as applied, and forget those of lost schemas.

    Raises:
        SchemaError: A kept schema lacks a table or column of this release, so that its migrations are not known.
    """
    if lost:
        execute(connection, read("ledger_forget.sql"), list(lost))
    for part in _absent(connection, set(kept)):
        if part.relation != "sluice.migration" and part.kind in ("table", "column"):
            raise SchemaError(
                f"the record of migrations, sluice.migration, is gone, and {part.kind} {part.name} of this release "
                "is missing; install the release that created these schemas first, or restore a backup"
            )
    for migration in migrations(legacy=LEGACY in kept):
        if migration.version.partition("/")[0] in kept:
            run(connection, ledger_row(migration))


def create_missing(connection: psycopg.Connection[Any], schemas: Iterable[str]) -> list[str]:
    """Create the missing parts of these schemas after their migrations; return a line for each."""
    lines = [_line(part).rpartition("; ")[0] for part in _absent(connection, set(schemas))]
    if not lines:
        return []
    created: set[str] = set()
    for _, parts in groupby(
        (p for p in released() if p.schema in schemas), key=lambda part: part.kind
    ):
        present = _present(connection)
        for part in parts:
            if (part.kind, part.name) in present:
                continue
            if part.kind in _LOOKED_FOR or part.relation in created:
                run(connection, guard_grants(part.statement))
                created.add(part.relation)
    return lines


def fill(connection: psycopg.Connection[Any], lines: Sequence[str]) -> None:
    """Insert the rows that created tables need, and raise a warning for each line; the functions exist by now."""
    run(connection, read("repair_rows.sql"))
    fetch(
        connection,
        read("repair_noted.sql"),
        json.dumps([f"{line}; it was created again, empty" for line in lines]),
    )
    run(connection, read("repair_note.sql"))


def _present(connection: psycopg.Connection[Any]) -> set[tuple[str, str]]:
    return {(kind, name) for kind, _, name, _ in fetch(connection, read("objects.sql"))}


def _absent(connection: psycopg.Connection[Any], schemas: set[str]) -> list[Part]:
    """Return missing parts of these schemas, without those of a missing table."""
    present = _present(connection)
    absent = [
        part
        for part in released()
        if part.schema in schemas
        and part.kind in _LOOKED_FOR
        and (part.kind, part.name) not in present
    ]
    gone = {part.relation for part in absent if part.kind in ("table", "view")}
    return [part for part in absent if part.kind in ("table", "view") or part.relation not in gone]
