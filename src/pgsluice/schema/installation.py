"""Install and upgrade the schemas, and print the SQL of an installation."""

from __future__ import annotations

from typing import Any

import psycopg

from pgsluice.errors import SchemaError
from pgsluice.schema import parts, repair, texts
from pgsluice.schema.catalog import grant_missing
from pgsluice.schema.foreign import refuse_foreign
from pgsluice.schema.ledger import (
    check_server,
    has_legacy,
    has_tables_only,
    installed_versions,
    known_migrations,
    lost_schemas,
    not_installed,
    pending_migrations,
)
from pgsluice.schema.texts import (
    Migration,
    fetch,
    functions,
    ledger_row,
    pinned,
    read,
    run,
    translated,
)


def install(connection: psycopg.Connection[Any], *, legacy: bool = False) -> tuple[str, ...]:
    """Install the schemas, or upgrade them to this release. Idempotent.

    What is missing of an installation, such as a dropped schema or table, is created again, empty, with a warning for
    each; `missing` lists it before.

    Args:
        connection: Of a role with CREATE on the database; neither superuser nor extension is needed. The work is
            part of its transaction; nothing is committed unless the connection is in autocommit mode. In that mode,
            thousands of queues and logs are upgraded in several transactions, after that of the installation. In the
            caller's transaction, queues and logs beyond the capacity of the server's lock table stay as they are, and a
            notice names the command that completes the installation.
        legacy: Also install the seventeen `pgmq_…` functions of PGMQ 0.20, in schema `public`. Once installed, they are
            upgraded without it.

    Returns:
        The versions of the migrations that ran, in order; empty if all had run before.

    Raises:
        SchemaError: PostgreSQL is too old, a schema of the same name is not ours, an applied migration differs from
            that of this release, or an untrusted role owns code in our schemas. Nothing was changed.
        PrivilegeError: The role may not create schemas, or does not own ours.
    """
    check_server(connection)
    with translated(), pinned(connection):
        pending = install_release(connection, legacy=legacy)
        run(connection, read("hand_over.sql"))
        left = parts.bring(connection)
        grant_missing(connection)
        run(connection, read("end.sql"))
    parts.finish(connection, left)
    return tuple(migration.version for migration in pending)


def install_tables(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Install the tables of a `TableQueue`, and no function. Idempotent.

    That is schema `pgmq` with its tables and types, and the ledger, so that `install` can add the rest later.

    Args:
        connection: As for `install`.

    Returns:
        The versions of the migrations that ran, in order; empty if all had run before.

    Raises:
        SchemaError: As for `install`, or the functions are installed already. Nothing was changed.
        PrivilegeError: As for `install`.
    """
    check_server(connection)
    installed = installed_versions(connection)
    if installed and not has_tables_only(installed):
        raise SchemaError(
            "the functions are installed in this database and need all tables; upgrade both to this "
            "release with `pgsluice schema upgrade`"
        )
    with translated(), pinned(connection):
        pending = install_release_tables(connection)
        grant_missing(connection)
        run(connection, read("end.sql"))
    return tuple(migration.version for migration in pending)


def upgrade(
    connection: psycopg.Connection[Any], *, allow_breaking: bool = False
) -> tuple[str, ...]:
    """Upgrade installed schemas to this release; as `install`, but they must exist.

    After `install_tables` it upgrades the tables, and adds no functions.

    Args:
        connection: As for `install`.
        allow_breaking: Also run migrations that break clients of the previous release.

    Raises:
        NotInstalledError: The schemas are not installed.
        SchemaError: As for `install`, or a breaking migration is not allowed; the message names it with its reason.
    """
    installed = installed_versions(connection)
    if not installed:
        raise not_installed(connection)
    known = known_migrations(installed)
    breaking = [m for m in known if m.version not in installed and m.breaking]
    if breaking and not allow_breaking:
        names = "; ".join(f"{m.version}: {m.breaking}" for m in breaking)
        raise SchemaError(
            f"the upgrade would break running clients ({names}); stop or upgrade them first, then allow it "
            "with --allow-breaking"
        )
    if has_tables_only(installed):
        return install_tables(connection)
    return install(connection)


def print_sql(*, legacy: bool = False) -> str:
    """Return the SQL that installs into an empty database, for `psql -1 -f`.

    Args:
        legacy: As for `install`.
    """
    sql = [
        "-- pgsluice: message queues (pgmq), event logs (pgq), and the functions beyond both (sluice).",
        "-- For an empty database, in one transaction: psql -1 -v ON_ERROR_STOP=1 -f this_file",
        read("lock.sql"),
        read("begin.sql"),
        *([read("legacy/refuse.sql")] if legacy else []),
    ]
    for migration in texts.migrations(legacy=legacy):
        sql += [migration.sql, ledger_row(migration)]
    last = ("rows.sql", "hand_over.sql", "readers.sql", "end.sql")
    return "\n".join([*sql, *functions(legacy=legacy), *map(read, last)])


def install_release(connection: psycopg.Connection[Any], *, legacy: bool) -> list[Migration]:
    """Install the schemas without upgrading queues and logs; return the migrations that ran.

    Parts that are missing, such as a dropped schema, are created again, empty, with a warning for each.
    """
    run(connection, read("lock.sql"))
    kept, lines = _begin(connection)
    legacy = legacy or has_legacy(installed_versions(connection))
    if legacy:
        run(connection, read("legacy/refuse.sql"))
    pending = pending_migrations(connection, legacy=legacy)
    for migration in pending:
        run(connection, migration.sql)
        run(connection, ledger_row(migration))
    lines += repair.create_missing(connection, texts.SCHEMAS) if kept else []
    for text in functions(legacy=legacy):
        run(connection, text)
    run(connection, read("rows.sql"))
    if lines:
        repair.fill(connection, lines)
    return pending


def install_release_tables(connection: psycopg.Connection[Any]) -> list[Migration]:
    """Install the tables of queues as `install_release` does, and no function; return the migrations that ran."""
    run(connection, read("lock.sql"))
    kept, lines = _begin(connection)
    pending = [
        m for m in pending_migrations(connection, legacy=False) if m.version.startswith("pgmq/")
    ]
    for migration in pending:
        run(connection, migration.sql)
        run(connection, ledger_row(migration))
    lines += repair.create_missing(connection, ("pgmq",)) if kept else []
    if lines:
        repair.fill(connection, lines)
    run(connection, read("tables_only.sql"))
    return pending


def _begin(connection: psycopg.Connection[Any]) -> tuple[bool, list[str]]:
    """Run `begin.sql`, and correct a ledger that does not match the schemas.

    Returns:
        True if something was installed; and lines about whole schemas that are missing.
    """
    is_installed = bool(installed_versions(connection))
    lost = lost_schemas(connection) if is_installed else ()
    kept = () if is_installed else repair.remains(connection)
    lines = (
        [line.rpartition("; ")[0] for line in repair.missing(connection)] if lost or kept else []
    )
    if not lost and not kept:
        refuse_foreign(connection)
    if kept:
        fetch(connection, read("accept.sql"), " ".join(kept))
    run(connection, read("begin.sql"))
    if lost or kept:
        repair.restore_ledger(connection, kept, lost)
        refuse_foreign(connection)
    return is_installed or bool(kept), lines
