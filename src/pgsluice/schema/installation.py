"""Install and upgrade the schemas, and print the SQL that does it."""

from __future__ import annotations

from typing import Any

import psycopg

from pgsluice.errors import NotInstalledError, SchemaError
from pgsluice.schema import parts, texts
from pgsluice.schema.foreign import refuse_foreign
from pgsluice.schema.ledger import check_server, has_legacy, installed_versions, pending_migrations
from pgsluice.schema.texts import Migration, functions, ledger_row, pinned, read, run, translated


def install(connection: psycopg.Connection[Any], *, legacy: bool = False) -> tuple[str, ...]:
    """Install the schemas, or bring them to this release; twice does no harm.

    Args:
        connection: Of a role that may create schemas in this database. No superuser, no extension. The work is
            part of its transaction; nothing is committed unless the connection is in autocommit mode. Then thousands
            of queues and logs are brought to this release in several transactions, after that of the installation. In a
            transaction of the caller's, what does not fit into the server's table of locks remains as it is, and a
            notice names the command that completes the installation.
        legacy: Also the seventeen `pgmq_…` functions of PGMQ 0.20, in schema `public`. Once there, they stay and are
            kept current without it.

    Returns:
        The versions of the migrations that ran, in order; empty when all of them had run before.

    Raises:
        SchemaError: PostgreSQL is too old, a schema of the same name is not ours, an applied migration is not
            the one this release knows, or a role that is not trusted has code in our schemas. Nothing was changed.
        PrivilegeError: The role may not create schemas, or does not own ours.
    """
    check_server(connection)
    with translated(), pinned(connection):
        pending = install_release(connection, legacy=legacy)
        run(connection, read("hand_over.sql"))
        left = parts.bring(connection)
        run(connection, read("end.sql"))
    parts.finish(connection, left)
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
    check_server(connection)
    if any(not version.startswith("pgmq/") for version in installed_versions(connection)):
        raise SchemaError(
            "the functions are installed in this database, and need their tables whole; bring both to this "
            "release with `pgsluice schema upgrade`"
        )
    with translated(), pinned(connection):
        run(connection, read("lock.sql"))
        refuse_foreign(connection)
        run(connection, read("begin.sql"))
        pending = [
            m for m in pending_migrations(connection, legacy=False) if m.version.startswith("pgmq/")
        ]
        for migration in pending:
            run(connection, migration.sql)
            run(connection, ledger_row(migration))
        run(connection, read("tables_only.sql"))
        run(connection, read("end.sql"))
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
    known = texts.migrations(legacy=has_legacy(installed))
    breaking = [m for m in known if m.version not in installed and m.breaking]
    if breaking and not allow_breaking:
        names = "; ".join(f"{m.version}: {m.breaking}" for m in breaking)
        raise SchemaError(
            f"the upgrade would break running clients ({names}); stop or upgrade them first, then allow it "
            "with --allow-breaking"
        )
    return install(connection)


def print_sql(*, legacy: bool = False) -> str:
    """Return one plain SQL text that installs into an empty database: `psql -1 -f`.

    Args:
        legacy: As for `install`.
    """
    sql = [
        "-- pgsluice: message queues (pgmq), event logs (pgq) and what neither has (sluice).",
        "-- For an empty database, in one transaction: psql -1 -v ON_ERROR_STOP=1 -f this_file",
        read("lock.sql"),
        read("begin.sql"),
    ]
    for migration in texts.migrations(legacy=legacy):
        sql += [migration.sql, ledger_row(migration)]
    last = ("hand_over.sql", "readers.sql", "end.sql")
    return "\n".join([*sql, *functions(legacy=legacy), *map(read, last)])


def install_release(connection: psycopg.Connection[Any], *, legacy: bool) -> list[Migration]:
    """Install the schemas without the objects of queues and logs; return the migrations that ran."""
    run(connection, read("lock.sql"))
    refuse_foreign(connection)
    run(connection, read("begin.sql"))
    legacy = legacy or has_legacy(installed_versions(connection))
    pending = pending_migrations(connection, legacy=legacy)
    for migration in pending:
        run(connection, migration.sql)
        run(connection, ledger_row(migration))
    for text in functions(legacy=legacy):
        run(connection, text)
    return pending
