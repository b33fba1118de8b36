"""The SQL of an installation: reading `sql/` in execution order, and running it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import psycopg

from pgsluice.connection import tuple_cursor
from pgsluice.errors import SchemaError, translate

SCHEMAS = ("pgmq", "pgq", "pgq_coop", "sluice")
CREATE_AGAIN = "create it again, empty, with: pgsluice schema install"  # of what is missing
LEGACY = "legacy"

_GRANT = re.compile(
    r"^(?P<what>grant [^;]+?\sto|revoke [^;]+?\sfrom) (?P<roles>[\w, ]+);$", re.MULTILINE
)
_COMMENTED_FUNCTION = re.compile(
    r"^comment on function ((?:pgmq|pgq|pgq_coop|sluice|public)\.\w+\(.*?\)) is", re.MULTILINE
)
_BREAKING = re.compile(r"-- breaking: (?P<why>.+)")


BASELINE = "0000_baseline"


@dataclass(frozen=True, slots=True)
class Migration:
    """The baseline of a schema's tables, or a numbered migration after it.

    Attributes:
        version: `schema/0000_baseline` or `schema/NNNN_words`; the order of execution within a schema.
        sql: SQL text, grants guarded.
        checksum: SHA-256 of the text as released.
        breaking: Reason why clients of the previous release cannot run on it; None if they can.
    """

    version: str
    sql: str
    checksum: str
    breaking: str | None


def migrations(*, legacy: bool = False) -> list[Migration]:
    """Return the baselines and migrations of this release in execution order."""
    found = []
    for schema in _folders(legacy):
        tables = [file.read_text(encoding="utf-8") for file in _sql_files(schema, "tables")]
        if tables:
            found.append(_migration(f"{schema}/{BASELINE}", "\n".join(tables), breaking="no"))
        for file in _sql_files(schema, "migrations"):
            text = file.read_text(encoding="utf-8")
            breaking = _BREAKING.match(text)
            if breaking is None:
                raise SchemaError(f"migration {file.name} does not begin with `-- breaking:`")
            version = f"{schema}/{file.name.removesuffix('.sql')}"
            found.append(_migration(version, text, breaking=breaking["why"]))
    return found


def _migration(version: str, text: str, *, breaking: str) -> Migration:
    return Migration(
        version=version,
        sql=guard_grants(text),
        checksum=hashlib.sha256(text.encode()).hexdigest(),
        breaking=None if breaking == "no" else breaking,
    )


def ledger_row(migration: Migration) -> str:
    """Return the statement that records a migration in the ledger."""
    row = read("ledger_row.sql")
    for column in ("version", "checksum", "breaking"):
        value = getattr(migration, column)
        literal = "null" if value is None else "'" + value.replace("'", "''") + "'"
        row = row.replace(f":{column}", literal)
    return row


def functions(*, legacy: bool = False) -> list[str]:
    """Return the text of every function file in execution order."""
    return [
        guard_grants(file.read_text(encoding="utf-8"))
        for schema in _folders(legacy)
        for file in _sql_files(schema, "functions")
    ]


def read(name: str) -> str:
    """Return a file of `sql/`, grants guarded."""
    text = resources.files("pgsluice").joinpath("sql", name).read_text(encoding="utf-8")
    return guard_grants(text)


def run(connection: psycopg.Connection[Any], sql: str) -> None:
    """Run SQL text of one or more statements."""
    # Several statements in one text need the simple protocol, which psycopg uses without parameters.
    connection.execute(sql, prepare=False)


def fetch(connection: psycopg.Connection[Any], sql: str, *parameters: object) -> list[Any]:
    """Return the rows of the last statement as tuples, regardless of the connection's row factory."""
    with tuple_cursor(connection) as cursor:
        cursor.execute(sql, parameters or None, prepare=False)
        while cursor.nextset():
            pass
        return cursor.fetchall()


def execute(connection: psycopg.Connection[Any], sql: str, *parameters: object) -> None:
    """Run one statement with parameters, regardless of the connection's cursor factory."""
    with tuple_cursor(connection) as cursor:
        cursor.execute(sql, parameters, prepare=False)


def signatures(*, legacy: bool = False) -> list[str]:
    """Return the signature of every function of this release, in the format of `to_regprocedure`."""
    return list(_signatures(legacy))


@cache
def _signatures(legacy: bool) -> tuple[str, ...]:
    # Reading and guarding all files takes most of the time of a check of the doctor.
    return tuple(s for text in functions(legacy=legacy) for s in _COMMENTED_FUNCTION.findall(text))


@contextmanager
def pinned(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Pin the search path, and how literals are read and names written; restore the caller's settings at the end.

    Another schema of the path may hold a function or operator of another role that matches our call better.
    """
    with atomic(connection):
        [(before, *_)] = fetch(connection, read("pin.sql"))
        yield
        execute(connection, read("unpin.sql"), before)


@contextmanager
def translated() -> Iterator[None]:
    """Translate psycopg errors to ours."""
    try:
        yield
    except psycopg.errors.DuplicateSchema as error:
        raise SchemaError(
            f"{error.diag.message_primary}; {error.diag.message_hint}", sqlstate=error.sqlstate
        ) from error
    except psycopg.Error as error:
        raise translate(error) from error


@contextmanager
def atomic(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Run as a savepoint of the connection's transaction, or as a transaction in autocommit mode."""
    if not connection.autocommit:
        # Begin the caller's transaction if none is open: psycopg's block would begin one and commit it.
        connection.execute("")
    with connection.transaction():
        yield


def guard_grants(sql: str) -> str:
    """Run each `grant … to` and `revoke … from` of a role `sluice_…` or `pgq_…` only if the role exists.

    Only statements at the beginning of a line. Where the installer may not create roles, they are skipped.
    """

    def guarded(match: re.Match[str]) -> str:
        return "\n".join(_guarded_grant(match["what"], role) for role in match["roles"].split(", "))

    return _GRANT.sub(guarded, sql)


def _guarded_grant(what: str, role: str) -> str:
    statement = f"{what} {role};"
    if not role.startswith(("sluice_", "pgq_")):
        return statement
    return (
        f"do $grant$ begin if pg_catalog.to_regrole('{role}') is not null then {statement} "
        "end if; end; $grant$;"
    )


def _sql_files(schema: str, folder: str) -> list[Traversable]:
    place = resources.files("pgsluice").joinpath("sql", schema, folder)
    return sorted(_sql_files_below(place), key=lambda file: file.name)


def _sql_files_below(place: Traversable) -> Iterator[Traversable]:
    for entry in (
        place.iterdir() if place.is_dir() else ()
    ):  # a schema may have no tables, and no migrations
        if entry.is_dir():
            yield from _sql_files_below(entry)
        elif entry.name.endswith(".sql"):
            yield entry


def _folders(legacy: bool) -> tuple[str, ...]:
    return (*SCHEMAS, LEGACY) if legacy else SCHEMAS
