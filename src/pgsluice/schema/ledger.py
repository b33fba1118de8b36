"""The ledger of migrations: installed versions, and their compatibility with this release."""

from __future__ import annotations

from typing import Any

import psycopg

from pgsluice.errors import NotInstalledError, SchemaError
from pgsluice.schema import texts
from pgsluice.schema.texts import LEGACY, Migration, fetch, read, translated

SERVER_VERSION_MIN = 150_000


def installed_versions(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return the versions in the ledger, sorted; empty if pgsluice is not installed."""
    with translated():
        if fetch(connection, read("ledger_exists.sql")) == [(False,)]:
            return ()
        return tuple(dict(fetch(connection, read("ledger.sql"))))


def require(connection: psycopg.Connection[Any]) -> None:
    """Raise unless this release can work on the installed schemas; reads the ledger only.

    Raises:
        NotInstalledError: Nothing is installed, or migrations of this release are missing.
        SchemaError: The server is too old, or a later release has made a breaking change.
        PrivilegeError: The role may not read the ledger.
    """
    check_server(connection)
    installed = installed_versions(connection)
    if not installed:
        raise NotInstalledError(
            "pgsluice is not installed in this database; install it with `pgsluice schema install`"
        )
    known = texts.migrations(legacy=has_legacy(installed))
    missing = [m.version for m in known if m.version not in installed]
    if missing:
        raise NotInstalledError(
            f"the schemas in this database are older than this release, which needs {', '.join(missing)}; upgrade "
            "them with `pgsluice schema upgrade`"
        )
    with translated():
        breaking = [version for (version,) in fetch(connection, read("ledger_breaking.sql"))]
    unknown = sorted(set(breaking) - {m.version for m in known})
    if unknown:
        raise SchemaError(
            f"the schemas in this database are newer than this release supports: {', '.join(unknown)}; upgrade "
            "pgsluice"
        )


def pending_migrations(connection: psycopg.Connection[Any], *, legacy: bool) -> list[Migration]:
    applied = dict(fetch(connection, read("ledger.sql")))
    known = texts.migrations(legacy=legacy)
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaError(
                f"migration {migration.version} was applied with another text than that of this release; install "
                "the release that applied it, or restore its file"
            )
    unknown = sorted(set(applied) - {migration.version for migration in known})
    if unknown:
        raise SchemaError(
            f"the database is newer than this release: it has {', '.join(unknown)}; upgrade pgsluice"
        )
    return [migration for migration in known if migration.version not in applied]


def has_legacy(versions: tuple[str, ...]) -> bool:
    return any(version.startswith(f"{LEGACY}/") for version in versions)


def check_server(connection: psycopg.Connection[Any]) -> None:
    version = connection.info.server_version
    if version < SERVER_VERSION_MIN:
        raise SchemaError(
            f"the server is PostgreSQL {version // 10_000}; pgsluice needs 15 or later"
        )
