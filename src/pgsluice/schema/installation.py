"""Install and upgrade the schemas, and print the SQL of an installation."""

from __future__ import annotations

from typing import Any

import psycopg

from pgsluice.errors import NotInstalledError, SchemaError
from pgsluice.schema import parts, texts
from pgsluice.schema.foreign import refuse_foreign
from pgsluice.schema.ledger import check_server, has_legacy, installed_versions, pending_migrations
from pgsluice.schema.texts import Migration, functions, ledger_row, pinned, read, run, translated


def install(connection: psycopg.Connection[Any], *, legacy: bool = False) -> tuple[str, ...]:
    """Install the schemas, or upgrade them to this release. Idempotent.

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
    if any(not version.startswith("pgmq/") for version in installed_versions(connection)):
        raise SchemaError(
            "the functions are installed in this database and need all tables; upgrade both to this "
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
    """Upgrade installed schemas to this release; as `install`, but they must exist.

    Args:
        connection: As for `install`.
        allow_breaking: Also run migrations that break clients of the previous release.

    Raises:
        NotInstalledError: The schemas are not installed.
        SchemaError: As for `install`, or a breaking migration is not allowed; the message names it with its reason.
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
    """Return the SQL that installs into an empty database, for `psql -1 -f`.

    Args:
        legacy: As for `install`.
    """
    sql = [
        "-- pgsluice: message queues (pgmq), event logs (pgq), and the functions beyond both (sluice).",
        "-- For an empty database, in one transaction: psql -1 -v ON_ERROR_STOP=1 -f this_file",
        read("lock.sql"),
        read("begin.sql"),
    ]
    for migration in texts.migrations(legacy=legacy):
        sql += [migration.sql, ledger_row(migration)]
    last = ("hand_over.sql", "readers.sql", "end.sql")
    return "\n".join([*sql, *functions(legacy=legacy), *map(read, last)])


def install_release(connection: psycopg.Connection[Any], *, legacy: bool) -> list[Migration]:
    """Install the schemas without upgrading queues and logs; return the migrations that ran."""
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
