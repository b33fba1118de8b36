"""Install, upgrade, verify, print and remove the schemas `pgmq`, `pgq` and `sluice`.

The SQL lives beside this file, in `sql/`: numbered migrations make tables and run once, functions are replaced
whole at every installation. Everything here works inside the transaction of the connection it is given and never
commits: an application can install in the transaction of its own migration.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from pgsluice.errors import NotInstalledError, SchemaError, translate

SCHEMAS = ("pgmq", "pgq", "sluice")
SERVER_VERSION_MIN = 150_000

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


@dataclass(frozen=True, slots=True)
class Plan:
    """What an installation or upgrade would do.

    Attributes:
        migrations: Those that would run, in order.
        changes: Lines that the catalog would lose (`-`) or gain (`+`) besides, sorted by object.
    """

    migrations: tuple[Migration, ...]
    changes: tuple[str, ...]

    @property
    def breaking(self) -> tuple[Migration, ...]:
        """The migrations after which clients of the release before no longer run."""
        return tuple(m for m in self.migrations if m.breaking)


def install(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Install the schemas, or bring them to this release; twice does no harm.

    Args:
        connection: Of a role that may create schemas in this database. No superuser, no extension. The work is
            part of its transaction; nothing is committed unless the connection is in autocommit mode.

    Returns:
        The versions of the migrations that ran, in order; empty when all of them had run before.

    Raises:
        SchemaError: PostgreSQL is too old, a schema of the same name is not ours, or an applied migration is not
            the one this release knows. Nothing was changed.
        PrivilegeError: The role may not create schemas, or does not own ours.
    """
    _check_server(connection)
    with _translated(), connection.transaction():
        _run(connection, _read("begin.sql"))
        pending = _pending(connection)
        for migration in pending:
            _run(connection, migration.sql)
            _run(connection, _ledger_row(migration))
        for text in (*_functions(), _read("readers.sql")):
            _run(connection, text)
        _run(connection, _read("end.sql"))
    return tuple(migration.version for migration in pending)


def install_tables(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Install what a `TableQueue` works on, and no function; twice does no harm.

    That is schema `pgmq` with its tables and types, and the ledger, so that `install` later adds the rest.

    Args:
        connection: As for `install`.

    Returns:
        The versions of the migrations that ran, in order; empty when all of them had run before.

    Raises:
        SchemaError: As for `install`, or the functions are installed already. Nothing was changed.
        PrivilegeError: As for `install`.
    """
    _check_server(connection)
    if any(not version.startswith("pgmq/") for version in installed_versions(connection)):
        raise SchemaError(
            "the functions are installed in this database, and need their tables whole; bring both to this "
            "release with `pgsluice schema upgrade`"
        )
    with _translated(), connection.transaction():
        _run(connection, _read("begin.sql"))
        pending = [m for m in _pending(connection) if m.version.startswith("pgmq/")]
        for migration in pending:
            _run(connection, migration.sql)
            _run(connection, _ledger_row(migration))
        _run(connection, _read("end.sql"))
    return tuple(migration.version for migration in pending)


def upgrade(
    connection: psycopg.Connection[Any], *, allow_breaking: bool = False
) -> tuple[str, ...]:
    """Bring installed schemas to this release; as `install`, but they must be there.

    Args:
        connection: As for `install`.
        allow_breaking: Also run migrations after which clients of the release before no longer run.

    Raises:
        NotInstalledError: There is nothing to upgrade.
        SchemaError: As for `install`, or a breaking migration was not allowed; it is named with its reason.
    """
    installed = installed_versions(connection)
    if not installed:
        raise NotInstalledError(
            "pgsluice is not installed in this database; install it with `pgsluice schema install`"
        )
    breaking = [m for m in _migrations() if m.version not in installed and m.breaking]
    if breaking and not allow_breaking:
        names = "; ".join(f"{m.version}: {m.breaking}" for m in breaking)
        raise SchemaError(
            f"the upgrade would break running clients ({names}); stop or upgrade them first, then allow it "
            "with --allow-breaking"
        )
    return install(connection)


def plan(connection: psycopg.Connection[Any]) -> Plan:
    """Say what `install` would change, by doing it and rolling it back.

    Args:
        connection: As for `install`. Takes the same locks for as long as it runs.
    """
    before = set(installed_versions(connection))
    with _translated(), connection.transaction(force_rollback=True):
        catalog_before = fingerprint(connection)
        install(connection)
        catalog_after = fingerprint(connection)
    lines = difflib.unified_diff(catalog_before, catalog_after, lineterm="", n=0)
    return Plan(
        migrations=tuple(m for m in _migrations() if m.version not in before),
        changes=tuple(line for line in lines if re.match(r"[-+](?![-+])", line)),
    )


def verify(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Compare what is installed with this release.

    Returns:
        One line per difference, from the database's side: `+` what it lacks, `-` what it has besides or otherwise.
        Empty when it is as this release would install it. Tables of users' queues and logs are not compared.

    Raises:
        NotInstalledError: There is nothing to verify.
        SchemaError: An applied migration is not the one this release knows.
    """
    if not installed_versions(connection):
        raise NotInstalledError(
            "pgsluice is not installed in this database; install it with `pgsluice schema install`"
        )
    difference = plan(connection)
    missing = (f"+ migration {migration.version}" for migration in difference.migrations)
    return (*missing, *difference.changes)


def uninstall(connection: psycopg.Connection[Any], *, drop_data: bool = False) -> None:
    """Drop the three schemas. The roles stay: other databases of the server may use them.

    Args:
        connection: Of the schemas' owner; part of its transaction.
        drop_data: Also when queues, logs or dead letters hold data.

    Raises:
        NotInstalledError: There is nothing of ours to drop.
        SchemaError: There is data and `drop_data` is False; what there is, is named. Nothing was dropped.
    """
    if not installed_versions(connection):
        raise NotInstalledError("pgsluice is not installed in this database; nothing was dropped")
    with _translated(), connection.transaction():
        holding = _fetch(connection, _read("contents.sql"))
        if holding and not drop_data:
            names = ", ".join(f"{kind} {name}" for kind, name in holding)
            raise SchemaError(
                f"the schemas hold data ({names}); drop it with them by --drop-data, or drop the queues and "
                "logs first"
            )
        _run(connection, _read("uninstall.sql"))


def print_sql() -> str:
    """Return one plain SQL text that installs into an empty database: `psql -1 -f`."""
    parts = [
        "-- pgsluice: message queues (pgmq), event logs (pgq) and what neither has (sluice).",
        "-- For an empty database, in one transaction: psql -1 -v ON_ERROR_STOP=1 -f this_file",
        _read("begin.sql"),
    ]
    for migration in _migrations():
        parts += [migration.sql, _ledger_row(migration)]
    return "\n".join([*parts, *_functions(), _read("readers.sql"), _read("end.sql")])


def installed_versions(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return the versions in the ledger, sorted; empty when pgsluice is not installed here."""
    with _translated():
        if _fetch(connection, _read("ledger_exists.sql")) == [(False,)]:
            return ()
        return tuple(version for version, _ in _fetch(connection, _read("ledger.sql")))


def fingerprint(connection: psycopg.Connection[Any]) -> list[str]:
    """Describe the catalog of the three schemas, one object a line, sorted.

    Owners, grants, definitions and comments are in it; object ids, times and users' queues and logs are not. Two
    databases with equal fingerprints behave alike.
    """
    with _translated():
        return [line for (line,) in _fetch(connection, _read("fingerprint.sql"))]


def _check_server(connection: psycopg.Connection[Any]) -> None:
    version = connection.info.server_version
    if version < SERVER_VERSION_MIN:
        raise SchemaError(
            f"the server is PostgreSQL {version // 10_000}; pgsluice needs 15 or later"
        )


def _pending(connection: psycopg.Connection[Any]) -> list[Migration]:
    applied = dict(_fetch(connection, _read("ledger.sql")))
    known = _migrations()
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaError(
                f"migration {migration.version} was applied with another text than this release has; install "
                "the release that applied it, or restore its file"
            )
    unknown = sorted(set(applied) - {migration.version for migration in known})
    if unknown:
        raise SchemaError(
            f"the database is newer than this release: it has {', '.join(unknown)}; upgrade pgsluice instead"
        )
    return [migration for migration in known if migration.version not in applied]


def _migrations() -> list[Migration]:
    found = []
    for schema in SCHEMAS:
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


def _ledger_row(migration: Migration) -> str:
    row = _read("ledger_row.sql")
    for column in ("version", "checksum", "breaking"):
        value = getattr(migration, column)
        literal = "null" if value is None else "'" + value.replace("'", "''") + "'"
        row = row.replace(f":{column}", literal)
    return row


def _functions() -> list[str]:
    return [
        guard_grants(file.read_text(encoding="utf-8"))
        for schema in SCHEMAS
        for file in _sql_files(schema, "functions")
    ]


def guard_grants(sql: str) -> str:
    """Let each `grant … to sluice_…;` that begins a line run only where the role exists.

    The files say plainly who may do what; a server where the installer may not create roles skips those lines.
    """

    def guarded(match: re.Match[str]) -> str:
        return "\n".join(_guarded_grant(match["what"], role) for role in match["roles"].split(", "))

    return _GRANT.sub(guarded, sql)


def _guarded_grant(what: str, role: str) -> str:
    statement = f"grant {what} to {role};"
    if not role.startswith("sluice_"):
        return statement
    return (
        f"do $grant$ begin if pg_catalog.to_regrole('{role}') is not null then {statement} "
        "end if; end; $grant$;"
    )


def _sql_files(schema: str, folder: str) -> list[Traversable]:
    files = resources.files("pgsluice").joinpath("sql", schema, folder).iterdir()
    return sorted((f for f in files if f.name.endswith(".sql")), key=lambda f: f.name)


def _read(name: str) -> str:
    text = resources.files("pgsluice").joinpath("sql", name).read_text(encoding="utf-8")
    return guard_grants(text)


def _run(connection: psycopg.Connection[Any], sql: str) -> None:
    # Several statements in one text need the simple protocol, which psycopg uses when there are no parameters.
    connection.execute(sql, prepare=False)


def _fetch(connection: psycopg.Connection[Any], sql: str) -> list[Any]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(sql, prepare=False).fetchall()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.DuplicateSchema as error:
        raise SchemaError(
            f"{error.diag.message_primary}; {error.diag.message_hint}", sqlstate=error.sqlstate
        ) from error
    except psycopg.Error as error:
        raise translate(error) from error
