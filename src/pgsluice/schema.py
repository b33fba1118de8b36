"""Install, upgrade, verify, print and remove the schemas `pgmq`, `pgq`, `pgq_coop` and `sluice`.

The SQL lives beside this file, in `sql/`: numbered migrations make tables and run once, functions are replaced
whole at every installation. Everything here works inside the transaction of the connection it is given and never
commits: an application can install in the transaction of its own migration. On a connection in autocommit mode, what
concerns hundreds of queues and logs takes several transactions.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice import adoption, schema_parts
from pgsluice.adoption import Adoption
from pgsluice.errors import NotInstalledError, SchemaError
from pgsluice.schema_texts import (
    LEGACY,
    Migration,
    fetch,
    functions,
    ledger_row,
    pinned,
    read,
    run,
    signatures,
    translated,
)
from pgsluice.schema_texts import migrations as _migrations

SERVER_VERSION_MIN = 150_000
_ADOPTED = {"pgmq": "PGMQ", "pgq": "PgQ"}


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
    _check_server(connection)
    with translated(), pinned(connection):
        pending = _install_release(connection, legacy=legacy)
        run(connection, read("hand_over.sql"))
        left = schema_parts.bring(connection)
        run(connection, read("end.sql"))
    schema_parts.finish(connection, left)
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
    with translated(), pinned(connection):
        run(connection, read("lock.sql"))
        _refuse_foreign(connection)
        run(connection, read("begin.sql"))
        pending = [m for m in _pending(connection, legacy=False) if m.version.startswith("pgmq/")]
        for migration in pending:
            run(connection, migration.sql)
            run(connection, ledger_row(migration))
        run(connection, read("tables_only.sql"))
        run(connection, read("end.sql"))
    return tuple(migration.version for migration in pending)


def adopt(connection: psycopg.Connection[Any], *, lock_deadline_s: float = 60.0) -> tuple[str, ...]:
    """Turn a database with PGMQ, 1.5 to 1.13, or PgQ, 3.2 to 3.5, or both into ours in place; twice does no harm.

    One transaction. Tables, messages, events, ticks, ids, grants, policies and triggers of users stay; the functions
    are replaced, whoever could call them goes on, and sessions that are in the middle of it wait. docs/guides/adopt.md
    has the way back.

    Args:
        connection: Of the owner of their objects, with the right to create schemas, or of a superuser. The work is
            part of the transaction that is open on it, or one of its own.
        lock_deadline_s: How long to try to lock the tables, seconds. While they are tried, other sessions wait for
            moments; from then on, until the end of the transaction.

    Returns:
        What was done, in order; empty when the schemas were ours already.

    Raises:
        SchemaError: There is nothing to adopt, or something stands against it; every reason is named with its way out.
            Nothing was changed.
        RetryableError: The tables could not be locked within the deadline. Nothing was changed.
    """
    _check_server(connection)
    with translated(), pinned(connection):
        run(connection, read("lock.sql"))
        if installed_versions(connection):
            return ()
        there = _there(connection)
        found = adoption.look(connection, there, lock_deadline_s)
        if found.objections:
            names = " and ".join(_ADOPTED[name] for name in there)
            raise SchemaError(f"{names} cannot be adopted: {'. Also: '.join(found.objections)}")
        adoption.lock(connection, there)
        run(connection, read("begin.sql"))
        adoption.take_over(connection, there, _pending(connection, legacy=False))
        adoption.forget(connection)
        left = schema_parts.bring(connection)
        run(connection, read("end.sql"))
        _refuse_foreign(connection)
    schema_parts.finish(connection, left)
    return found.steps


def plan_adoption(connection: psycopg.Connection[Any]) -> Adoption:
    """Say what `adopt` would do and what stands against it; reads the catalog only, and locks nothing.

    Returns:
        Steps and objections; neither when the schemas are ours already.

    Raises:
        SchemaError: There is nothing to adopt.
    """
    _check_server(connection)
    with translated(), connection.transaction(force_rollback=True), pinned(connection):
        if installed_versions(connection):
            return Adoption(steps=(), objections=())
        return adoption.look(connection, _there(connection), lock_deadline_s=0)


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
    known = _migrations(legacy=_has_legacy(installed))
    breaking = [m for m in known if m.version not in installed and m.breaking]
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
    before = installed_versions(connection)
    with translated(), connection.transaction(force_rollback=True), pinned(connection):
        catalog_before = fingerprint(connection)
        _install_release(connection, legacy=False)
        outdated = schema_parts.outdated(connection)
        run(connection, read("end.sql"))
        catalog_after = fingerprint(connection)
    lines = difflib.unified_diff(catalog_before, catalog_after, lineterm="", n=0)
    return Plan(
        migrations=tuple(
            m for m in _migrations(legacy=_has_legacy(before)) if m.version not in before
        ),
        changes=(
            *(line for line in lines if re.match(r"[-+](?![-+])", line)),
            *outdated,
        ),
    )


def verify(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Compare what is installed with this release.

    Returns:
        One line per difference, from the database's side: `+` what it lacks, `-` what it has besides or otherwise.
        Empty when it is as this release would install it. Tables of users' queues and logs are not compared. Functions
        of others in our schemas, queue tables of others and rights to create in our schemas come first, each with
        its way out, and then queues and logs with missing tables; where `install` would refuse a function or a table,
        they are all there is.

    Raises:
        NotInstalledError: There is nothing to verify.
        SchemaError: An applied migration is not the one this release knows.
    """
    if not installed_versions(connection):
        raise NotInstalledError(
            "pgsluice is not installed in this database; install it with `pgsluice schema install`"
        )
    with translated(), pinned(connection):
        found = _foreign(connection)
    foreign = tuple(f"-{what} {why}; {way_out}" for what, why, way_out, _ in found)
    foreign += tuple(f"-{problem}" for problem in problems(connection))
    if any(is_refused for *_, is_refused in found):
        # The plan installs, and that is refused beside code of others.
        return foreign
    difference = plan(connection)
    missing = (f"+ migration {migration.version}" for migration in difference.migrations)
    return (*foreign, *missing, *difference.changes)


def problems(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """List queues and logs that cannot work: missing tables and sequences, and names that no queue can have.

    Returns:
        One line each, with the name, the problem and the way out. Empty when the schemas are not installed.
    """
    if not any(version.startswith("pgq/") for version in installed_versions(connection)):
        return ()
    with translated():
        found = fetch(connection, read("problems.sql"))
    return tuple(f"{kind} {name!r}: {problem}; {way_out}" for kind, name, problem, way_out in found)


def uninstall(
    connection: psycopg.Connection[Any], *, drop_data: bool = False, drop_dependents: bool = False
) -> None:
    """Drop the schemas, and the older names if they are there.

    The roles stay: other databases of the server may use them.

    Args:
        connection: Of the schemas' owner; part of its transaction. In autocommit mode, hundreds of queues and logs are
            dropped in several transactions, before the schemas.
        drop_data: Also when queues, logs or dead letters hold data.
        drop_dependents: Also when objects outside the schemas depend on them: views, functions, triggers on captured
            tables, foreign keys. They are dropped, too.

    Raises:
        NotInstalledError: There is nothing of ours to drop.
        SchemaError: There is data and `drop_data` is False, or there are dependent objects and `drop_dependents` is
            False; what there is, is named; or one transaction cannot hold all the locks. Nothing was dropped.
    """
    installed = installed_versions(connection)
    if not installed:
        raise NotInstalledError("pgsluice is not installed in this database; nothing was dropped")
    is_idle = schema_parts.is_idle(connection)
    with translated(), pinned(connection):
        holding = fetch(connection, read("contents.sql"))
        if holding and not drop_data:
            names = ", ".join(f"{kind} {name}" for kind, name in holding)
            raise SchemaError(
                f"the schemas hold data ({names}); drop it with them by --drop-data, or drop the queues and "
                "logs first"
            )
        dependents = fetch(connection, read("dependents.sql"))
        if dependents and not drop_dependents:
            names = ", ".join(f"{kind} {name}" for kind, name in dependents)
            raise SchemaError(
                f"objects outside the schemas depend on them ({names}); drop them with the schemas by "
                "--drop-dependents, or drop them first"
            )
        parts = schema_parts.droppable(connection, is_idle=is_idle)
    with translated():
        for part in parts:
            with pinned(connection):
                for drop, name in part:
                    connection.execute(drop, (name,))
        with pinned(connection):
            if _has_legacy(installed):
                run(connection, read("legacy/uninstall.sql"))
            run(connection, read("uninstall.sql"))


def print_sql(*, legacy: bool = False) -> str:
    """Return one plain SQL text that installs into an empty database: `psql -1 -f`.

    Args:
        legacy: As for `install`.
    """
    parts = [
        "-- pgsluice: message queues (pgmq), event logs (pgq) and what neither has (sluice).",
        "-- For an empty database, in one transaction: psql -1 -v ON_ERROR_STOP=1 -f this_file",
        read("lock.sql"),
        read("begin.sql"),
    ]
    for migration in _migrations(legacy=legacy):
        parts += [migration.sql, ledger_row(migration)]
    texts = ("hand_over.sql", "readers.sql", "end.sql")
    return "\n".join([*parts, *functions(legacy=legacy), *map(read, texts)])


def _install_release(connection: psycopg.Connection[Any], *, legacy: bool) -> list[Migration]:
    """Install the schemas without the objects of queues and logs; return the migrations that ran."""
    run(connection, read("lock.sql"))
    _refuse_foreign(connection)
    run(connection, read("begin.sql"))
    legacy = legacy or _has_legacy(installed_versions(connection))
    pending = _pending(connection, legacy=legacy)
    for migration in pending:
        run(connection, migration.sql)
        run(connection, ledger_row(migration))
    for text in functions(legacy=legacy):
        run(connection, text)
    return pending


def installed_versions(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return the versions in the ledger, sorted; empty when pgsluice is not installed here."""
    with translated():
        if fetch(connection, read("ledger_exists.sql")) == [(False,)]:
            return ()
        return tuple(dict(fetch(connection, read("ledger.sql"))))


def require(connection: psycopg.Connection[Any]) -> None:
    """Look that this release can work on what is installed; reads the ledger, and changes nothing.

    Raises:
        NotInstalledError: Nothing is installed, or migrations of this release are missing.
        SchemaError: The server is too old, or a later release has changed what this one cannot work on.
        PrivilegeError: The role may not read the ledger.
    """
    _check_server(connection)
    installed = installed_versions(connection)
    if not installed:
        raise NotInstalledError(
            "pgsluice is not installed in this database; install it with `pgsluice schema install`"
        )
    known = _migrations(legacy=_has_legacy(installed))
    missing = [m.version for m in known if m.version not in installed]
    if missing:
        raise NotInstalledError(
            f"the schemas in this database are older than this release: {', '.join(missing)} is missing; bring them "
            "up with `pgsluice schema upgrade`"
        )
    with translated():
        breaking = [version for (version,) in fetch(connection, read("ledger_breaking.sql"))]
    unknown = sorted(set(breaking) - {m.version for m in known})
    if unknown:
        raise SchemaError(
            f"the schemas in this database are newer than this release can work on: {', '.join(unknown)}; upgrade "
            "pgsluice"
        )


def fingerprint(connection: psycopg.Connection[Any]) -> list[str]:
    """Describe the catalog of our schemas, one object a line, sorted.

    Owners, grants, definitions and comments are in it; object ids, times and users' queues and logs are not. Two
    databases with equal fingerprints behave alike.
    """
    with translated(), pinned(connection):
        return [line for (line,) in fetch(connection, read("fingerprint.sql"))]


def _check_server(connection: psycopg.Connection[Any]) -> None:
    version = connection.info.server_version
    if version < SERVER_VERSION_MIN:
        raise SchemaError(
            f"the server is PostgreSQL {version // 10_000}; pgsluice needs 15 or later"
        )


def _there(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    found = adoption.there(connection)
    if not found:
        raise SchemaError(
            "there is no PGMQ and no PgQ in this database to adopt; install with `pgsluice schema install`"
        )
    return found


def _has_legacy(versions: tuple[str, ...]) -> bool:
    return any(version.startswith(f"{LEGACY}/") for version in versions)


def _pending(connection: psycopg.Connection[Any], *, legacy: bool) -> list[Migration]:
    applied = dict(fetch(connection, read("ledger.sql")))
    known = _migrations(legacy=legacy)
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


def _foreign(connection: psycopg.Connection[Any]) -> list[tuple[str, str, str, bool]]:
    """Return what is in our schemas and not of this release: what, why, the way out, whether `install` refuses it."""
    installed = installed_versions(connection)
    if not installed:
        return []
    released = signatures(legacy=_has_legacy(installed))
    return fetch(connection, read("foreign.sql"), released)


def _refuse_foreign(connection: psycopg.Connection[Any]) -> None:
    """Raise if others could run code with the installer's rights."""
    refused = [
        f"{what} {why}, who could run code with the installer's rights through it; {way_out}"
        for what, why, way_out, is_refused in _foreign(connection)
        if is_refused
    ]
    if refused:
        raise SchemaError(". Also: ".join(refused))
