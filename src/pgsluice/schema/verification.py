"""Compare the installed schemas with this release."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice.errors import ServerError
from pgsluice.schema import parts, repair
from pgsluice.schema.catalog import CatalogDifference, catalog_differences
from pgsluice.schema.foreign import foreign_objects
from pgsluice.schema.installation import install_release, install_release_tables
from pgsluice.schema.ledger import (
    has_tables_only,
    installed_versions,
    known_migrations,
    not_installed,
)
from pgsluice.schema.texts import Migration, fetch, pinned, read, run, translated


@dataclass(frozen=True, slots=True)
class Plan:
    """The effect of an installation or upgrade.

    Attributes:
        migrations: Pending migrations, in order.
        changes: Other lines that the catalog would lose (`-`) or gain (`+`), sorted by object.
        remaining: Differences from this release that would remain, each with its solution.
    """

    migrations: tuple[Migration, ...]
    changes: tuple[str, ...]
    remaining: tuple[str, ...] = ()

    @property
    def breaking(self) -> tuple[Migration, ...]:
        """The migrations that break clients of the previous release."""
        return tuple(m for m in self.migrations if m.breaking)


def plan(connection: psycopg.Connection[Any]) -> Plan:
    """Return what `upgrade` would change, by installing and rolling back.

    Args:
        connection: As for `install`. Takes the same locks until it returns.
    """
    before = installed_versions(connection)
    with translated(), connection.transaction(force_rollback=True), pinned(connection):
        catalog_before = fingerprint(connection)
        if has_tables_only(before):
            install_release_tables(connection)
            outdated: tuple[str, ...] = ()
        else:
            install_release(connection, legacy=False)
            outdated = parts.outdated(connection)
        run(connection, read("end.sql"))
        catalog_after = fingerprint(connection)
        remaining = catalog_differences(connection)
    lines = difflib.unified_diff(catalog_before, catalog_after, lineterm="", n=0)
    return Plan(
        migrations=tuple(m for m in known_migrations(before) if m.version not in before),
        changes=(
            *(line for line in lines if re.match(r"[-+](?![-+])", line)),
            *outdated,
        ),
        remaining=tuple(map(_line, remaining)),
    )


def _line(difference: CatalogDifference) -> str:
    sign = "+" if difference.is_missing else "-"
    return sign + "; ".join(filter(None, (difference.what, difference.command)))


def verify(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Compare the installed schemas with this release.

    Returns:
        One line per difference, from the database's side: `+` what it lacks, `-` what differs or exceeds the release.
        Empty if there is no difference. Tables of users' queues and logs are not compared. Foreign functions in our
        schemas, foreign queue tables and rights to create in our schemas come first, each with its solution, then
        queues and logs with missing tables. If `install` would refuse a function or a table, no other lines follow.
        After `install_tables` only the tables are compared.

        If schemas, tables or columns are missing, only these are listed.

    Raises:
        NotInstalledError: pgsluice is not installed.
        SchemaError: An applied migration differs from that of this release.
    """
    absent = repair.missing(connection)
    if absent:
        return tuple(f"+{line}" for line in absent)
    if not installed_versions(connection):
        raise not_installed(connection)
    with translated(), pinned(connection):
        found = foreign_objects(connection)
    if has_tables_only(installed_versions(connection)):
        # There, roles create queues themselves and own their tables.
        found = [row for row in found if row[3]]
    foreign = tuple(f"-{what} {why}; {hint}" for what, why, hint, _ in found)
    foreign += tuple(f"-{problem}" for problem in problems(connection))
    if any(is_refused for *_, is_refused in found):
        # The plan installs, which is refused while foreign code is in the schemas.
        return foreign
    try:
        difference = plan(connection)
    except ServerError as error:
        # Such as that of an event trigger; what does not need an installation is compared.
        with translated(), pinned(connection):
            triggers = fetch(connection, read("event_triggers.sql"))
        causes = "".join(f"; event trigger {name} runs {function}" for name, function in triggers)
        lines = (f"-an upgrade would fail: {error}{causes}",)
        return (*foreign, *lines, *map(_line, catalog_differences(connection)))
    missing = (f"+ migration {migration.version}" for migration in difference.migrations)
    return (*foreign, *missing, *difference.changes, *difference.remaining)


def problems(connection: psycopg.Connection[Any], *, rows: bool = True) -> tuple[str, ...]:
    """List queues and logs that cannot work: missing or changed tables, sequences or rows, and invalid names.

    Also lists functions of `queue_extra_maint` that maintenance does not call.

    Args:
        connection: Of a role that may read the ledger.
        rows: Also look at ticks, positions and claims, which needs one of the roles sluice_monitor, sluice_reader,
            sluice_admin, pgq_reader or pgq_admin; without them they are left out.

    Returns:
        One line each, with the name, the problem and the solution. Empty if the schemas are not installed.
    """
    installed = installed_versions(connection)
    has_logs = any(version.startswith("pgq/") for version in installed)
    files = ["queue_problems.sql"] * bool(installed) + ["log_problems.sql"] * has_logs
    with translated(), pinned(connection):
        if rows and has_logs and fetch(connection, read("may_list_problems.sql")) == [(True,)]:
            files.append("row_problems.sql")
        if has_logs and fetch(connection, read("may_read_extra_maint.sql")) == [(True,)]:
            files.append("extra_maint.sql")
        found = [row for file in files for row in _found(connection, file)]
    return tuple(
        f"{kind} {name!r}: {problem}; {hint}" for kind, name, problem, hint in sorted(found)
    )


def _found(connection: psycopg.Connection[Any], file: str) -> list[Any]:
    """Return the rows of a query; none if a part of the schema is missing that `catalog_differences` names."""
    try:
        with connection.transaction():
            return fetch(connection, read(file))
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedColumn,
        psycopg.errors.UndefinedFunction,
    ):
        return []


def fingerprint(connection: psycopg.Connection[Any]) -> list[str]:
    """Return a description of our schemas' catalog, one object per line, sorted.

    It contains owners, grants, definitions and comments, but no object ids, times, users' queues or logs. Two
    databases with equal fingerprints behave alike.
    """
    with translated(), pinned(connection):
        return [line for (line,) in fetch(connection, read("fingerprint.sql"))]
