"""The SQL that an installation is made of: what is in `sql/`, in the order in which it runs, and how it is run."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from pgsluice.errors import SchemaError

SCHEMAS = ("pgmq", "pgq", "sluice")
LEGACY = "legacy"

_GRANT = re.compile(r"^grant (?P<what>[^;]+?) to (?P<roles>[\w, ]+);$", re.MULTILINE)
_BREAKING = re.compile(r"-- breaking: (?P<why>.+)")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the tables.

    Attributes:
        version: `schema/NNNN_words`; they run in this order within a schema.
        sql: Its text, grants guarded.
        checksum: SHA-256 of the text as released.
        breaking: Why clients of the release before cannot run on it, or None: they can.
    """

    version: str
    sql: str
    checksum: str
    breaking: str | None


def migrations(*, legacy: bool = False) -> list[Migration]:
    """Return the migrations of this release in the order in which they run."""
    found = []
    for schema in _folders(legacy):
        for file in _sql_files(schema, "migrations"):
            text = file.read_text(encoding="utf-8")
            breaking = _BREAKING.match(text)
            if breaking is None:
                raise SchemaError(f"migration {file.name} does not begin with `-- breaking:`")
            found.append(
                Migration(
                    version=f"{schema}/{file.name.removesuffix('.sql')}",
                    sql=guard_grants(text),
                    checksum=hashlib.sha256(text.encode()).hexdigest(),
                    breaking=None if breaking["why"] == "no" else breaking["why"],
                )
            )
    return found


def ledger_row(migration: Migration) -> str:
    """Return the statement that puts a migration into the ledger."""
    row = read("ledger_row.sql")
    for column in ("version", "checksum", "breaking"):
        value = getattr(migration, column)
        literal = "null" if value is None else "'" + value.replace("'", "''") + "'"
        row = row.replace(f":{column}", literal)
    return row


def functions(*, legacy: bool = False) -> list[str]:
    """Return the text of every file of functions, in the order in which they run."""
    return [
        guard_grants(file.read_text(encoding="utf-8"))
        for schema in _folders(legacy)
        for file in _sql_files(schema, "functions")
    ]


def read(name: str) -> str:
    """Return a text of the folder `sql/`, grants guarded."""
    text = resources.files("pgsluice").joinpath("sql", name).read_text(encoding="utf-8")
    return guard_grants(text)


def run(connection: psycopg.Connection[Any], sql: str) -> None:
    """Run a text of one or several statements."""
    # Several statements in one text need the simple protocol, which psycopg uses when there are no parameters.
    connection.execute(sql, prepare=False)


def fetch(connection: psycopg.Connection[Any], sql: str) -> list[Any]:
    """Return the rows of one statement as tuples, whatever the connection's own rows are."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(sql, prepare=False).fetchall()


def guard_grants(sql: str) -> str:
    """Let each `grant … to sluice_…;` or `to pgq_…;` that begins a line run only where the role exists.

    The files say plainly who may do what; a server where the installer may not create roles skips those lines.
    """

    def guarded(match: re.Match[str]) -> str:
        return "\n".join(_guarded_grant(match["what"], role) for role in match["roles"].split(", "))

    return _GRANT.sub(guarded, sql)


def _guarded_grant(what: str, role: str) -> str:
    statement = f"grant {what} to {role};"
    if not role.startswith(("sluice_", "pgq_")):
        return statement
    return (
        f"do $grant$ begin if pg_catalog.to_regrole('{role}') is not null then {statement} "
        "end if; end; $grant$;"
    )


def _sql_files(schema: str, folder: str) -> list[Traversable]:
    files = resources.files("pgsluice").joinpath("sql", schema, folder).iterdir()
    return sorted((f for f in files if f.name.endswith(".sql")), key=lambda f: f.name)


def _folders(legacy: bool) -> tuple[str, ...]:
    return (*SCHEMAS, LEGACY) if legacy else SCHEMAS
