"""Compare the installed schemas with this release."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice.errors import NotInstalledError
from pgsluice.schema import parts, texts
from pgsluice.schema.foreign import foreign_objects
from pgsluice.schema.installation import install_release
from pgsluice.schema.ledger import has_legacy, installed_versions
from pgsluice.schema.texts import Migration, fetch, pinned, read, run, translated


@dataclass(frozen=True, slots=True)
class Plan:
    """The effect of an installation or upgrade.

    Attributes:
        migrations: Pending migrations, in order.
        changes: Other lines that the catalog would lose (`-`) or gain (`+`), sorted by object.
    """

    migrations: tuple[Migration, ...]
    changes: tuple[str, ...]

    @property
    def breaking(self) -> tuple[Migration, ...]:
        """The migrations that break clients of the previous release."""
        return tuple(m for m in self.migrations if m.breaking)


def plan(connection: psycopg.Connection[Any]) -> Plan:
    """Return what `install` would change, by installing and rolling back.

    Args:
        connection: As for `install`. Takes the same locks until it returns.
    """
    before = installed_versions(connection)
    with translated(), connection.transaction(force_rollback=True), pinned(connection):
        catalog_before = fingerprint(connection)
        install_release(connection, legacy=False)
        outdated = parts.outdated(connection)
        run(connection, read("end.sql"))
        catalog_after = fingerprint(connection)
    lines = difflib.unified_diff(catalog_before, catalog_after, lineterm="", n=0)
    return Plan(
        migrations=tuple(
            m for m in texts.migrations(legacy=has_legacy(before)) if m.version not in before
        ),
        changes=(
            *(line for line in lines if re.match(r"[-+](?![-+])", line)),
            *outdated,
        ),
    )


def verify(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Compare the installed schemas with this release.

    Returns:
        One line per difference, from the database's side: `+` what it lacks, `-` what differs or exceeds the release.
        Empty if there is no difference. Tables of users' queues and logs are not compared. Foreign functions in our
        schemas, foreign queue tables and rights to create in our schemas come first, each with its way out, then queues
        and logs with missing tables. If `install` would refuse a function or a table, no other lines follow.

    Raises:
        NotInstalledError: pgsluice is not installed.
        SchemaError: An applied migration differs from that of this release.
    """
    if not installed_versions(connection):
        raise NotInstalledError(
            "pgsluice is not installed in this database; install it with `pgsluice schema install`"
        )
    with translated(), pinned(connection):
        found = foreign_objects(connection)
    foreign = tuple(f"-{what} {why}; {way_out}" for what, why, way_out, _ in found)
    foreign += tuple(f"-{problem}" for problem in problems(connection))
    if any(is_refused for *_, is_refused in found):
        # The plan installs, which is refused while foreign code is in the schemas.
        return foreign
    difference = plan(connection)
    missing = (f"+ migration {migration.version}" for migration in difference.migrations)
    return (*foreign, *missing, *difference.changes)


def problems(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """List queues and logs that cannot work: missing tables or sequences, and invalid names.

    Returns:
        One line each, with the name, the problem and the way out. Empty if the schemas are not installed.
    """
    if not any(version.startswith("pgq/") for version in installed_versions(connection)):
        return ()
    with translated():
        found = fetch(connection, read("problems.sql"))
    return tuple(f"{kind} {name!r}: {problem}; {way_out}" for kind, name, problem, way_out in found)


def fingerprint(connection: psycopg.Connection[Any]) -> list[str]:
    """Return a description of our schemas' catalog, one object per line, sorted.

    It contains owners, grants, definitions and comments, but no object ids, times, users' queues or logs. Two
    databases with equal fingerprints behave alike.
    """
    with translated(), pinned(connection):
        return [line for (line,) in fetch(connection, read("fingerprint.sql"))]
