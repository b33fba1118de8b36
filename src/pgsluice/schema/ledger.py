"""The ledger of migrations: installed versions, and their compatibility with this release."""

from __future__ import annotations

from typing import Any

import psycopg

from pgsluice.errors import NotInstalledError, SchemaError
from pgsluice.schema import texts
from pgsluice.schema.texts import BASELINE, LEGACY, Migration, fetch, read, translated

SERVER_VERSION_MIN = 150_000
ONLY_TABLES = (
    "only the tables are installed in this database, for clients that use TableQueue (`--tables-only`); add the "
    "functions with `pgsluice schema install`"
)


def installed_versions(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return the versions in the ledger, sorted; empty if pgsluice is not installed."""
    with translated():
        if fetch(connection, read("ledger_exists.sql")) == [(False,)]:
            return ()
        return tuple(dict(fetch(connection, read("ledger.sql"))))


def has_tables_only(versions: tuple[str, ...]) -> bool:
    """True after `pgsluice schema install --tables-only`, for clients that use no functions."""
    return bool(versions) and all(version.startswith("pgmq/") for version in versions)


def refuse_development(versions: tuple[str, ...]) -> None:
    """Raise if the schemas have the migrations of a version before 0.1.0, which cannot be upgraded."""
    schemas = {version.partition("/")[0] for version in versions} - {LEGACY}
    old = sorted(name for name in schemas if f"{name}/{BASELINE}" not in versions)
    if old:
        raise SchemaError(
            f"schema {', '.join(old)} is of a development version before 0.1.0, which cannot be upgraded; dump the "
            "data of the queues' tables, pgmq.q_… and pgmq.a_…, with pg_dump, then run `pgsluice schema uninstall "
            "--drop-data` and `pgsluice schema install`, create the queues again, and load the dump"
        )


def known_migrations(versions: tuple[str, ...]) -> list[Migration]:
    """Return the migrations of this release for what is installed: with `legacy`, or those of tables only."""
    known = texts.migrations(legacy=has_legacy(versions))
    if has_tables_only(versions):
        return [migration for migration in known if migration.version.startswith("pgmq/")]
    return known


def is_complete(versions: tuple[str, ...]) -> bool:
    """True if the installed schemas have the migrations of this release, and no others."""
    return set(versions) == {migration.version for migration in known_migrations(versions)}


def present_schemas(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return those of our schemas that exist, by name."""
    return tuple(name for (name,) in fetch(connection, read("schemas.sql")))


def lost_schemas(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return our schemas that do not exist, in a database with a ledger."""
    present = present_schemas(connection)
    return tuple(name for name in texts.SCHEMAS if name not in present)


def resolvable_signatures(connection: psycopg.Connection[Any], *, legacy: bool) -> list[str]:
    """Return the signatures of this release's functions, without those that have a type that does not exist."""
    released = texts.signatures(legacy=legacy)
    return [signature for (signature,) in fetch(connection, read("resolvable.sql"), released)]


def not_installed(connection: psycopg.Connection[Any]) -> NotInstalledError:
    """Return the error of a database without a ledger; it names the schemas that are left."""
    with translated():
        left = present_schemas(connection)
    if not left:
        return NotInstalledError(
            "pgsluice is not installed in this database; install it with `pgsluice schema install`"
        )
    return NotInstalledError(
        f"the record of the installation, table sluice.migration, is missing, but there are schemas named "
        f"{', '.join(left)}; if they are pgsluice's, `pgsluice schema install` creates what is missing, empty"
    )


def require(connection: psycopg.Connection[Any]) -> None:
    """Raise unless this release can work on the installed schemas; reads the ledger and the names of schemas only.

    Raises:
        NotInstalledError: Nothing or only the tables are installed, or schemas or migrations are missing.
        SchemaError: The server is too old, or a later release has made a breaking change.
        PrivilegeError: The role may not read the ledger.
    """
    check_server(connection)
    installed = installed_versions(connection)
    if not installed:
        raise not_installed(connection)
    with translated():
        lost = lost_schemas(connection)
    if lost:
        raise NotInstalledError(
            f"schema {', '.join(lost)} is missing in this database; `pgsluice schema verify` lists its lost contents, "
            "and `pgsluice schema install` creates it again, empty"
        )
    if has_tables_only(installed):
        raise NotInstalledError(ONLY_TABLES)
    refuse_development(installed)
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
    refuse_development(tuple(applied))
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
