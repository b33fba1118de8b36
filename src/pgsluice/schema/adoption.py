"""Convert PGMQ's and PgQ's schemas to ours in place, with the SQL of `sql/adopt/`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice.errors import SchemaError
from pgsluice.schema import parts
from pgsluice.schema.foreign import refuse_foreign
from pgsluice.schema.ledger import (
    check_server,
    has_legacy,
    installed_versions,
    pending_migrations,
)
from pgsluice.schema.repair import missing
from pgsluice.schema.texts import (
    BASELINE,
    LEGACY,
    execute,
    fetch,
    functions,
    ledger_row,
    migrations,
    pinned,
    read,
    run,
    signatures,
    translated,
)

_PROJECTS = {"pgmq": "PGMQ", "pgq": "PgQ", LEGACY: "PGMQ 0.20"}
_FOLDERS = {"pgmq": "adopt", "pgq": "adopt/pgq", LEGACY: "adopt/legacy"}

_TYPE = re.compile(r"^create type pgmq\.(\w+) as \((.*?)\n\);", re.MULTILINE | re.DOTALL)
_CREATED = re.compile(
    r"^create (table|index|type|sequence) (?:(pgm?q\.\w+)|(pgm?q\.\w+|\w+) on)(?= |;)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Adoption:
    """The effect of adopting a database.

    Attributes:
        steps: Changes, in order, with counts.
        objections: Reasons against it, each with the way to remove it; empty if it can be adopted.
    """

    steps: tuple[str, ...]
    objections: tuple[str, ...]


def adopt(connection: psycopg.Connection[Any], *, lock_deadline_s: float = 60.0) -> tuple[str, ...]:
    """Convert a database with PGMQ, 0.20 or 1.5 to 1.13, or PgQ, 3.2 to 3.5, or both to ours in place. Idempotent.

    One transaction. Tables, messages, events, ticks, ids, grants, policies and users' triggers stay. The functions are
    replaced; roles that could call them still can, and sessions that call them meanwhile wait. PGMQ 0.20's tables move
    from schema `public` to `pgmq`, also where pgsluice is installed. docs/guides/adopt.md describes the way back.

    Args:
        connection: Of the owner of their objects, with the right to create schemas, or of a superuser. The work is
            part of its open transaction, or a transaction of its own.
        lock_deadline_s: Deadline for locking the tables, seconds. Each attempt blocks other sessions for moments; once
            locked, the tables stay locked until the end of the transaction.

    Returns:
        The changes, in order; empty if the schemas were ours already.

    Raises:
        SchemaError: There is nothing to adopt, or objections prevent it; each is named with the way to remove it.
            Nothing was changed.
        RetryableError: The tables could not be locked within the deadline. Nothing was changed.
    """
    check_server(connection)
    with translated(), pinned(connection):
        run(connection, read("lock.sql"))
        projects = _adoptable(connection)
        if not projects:
            return ()
        found = _inspect(connection, projects, lock_deadline_s)
        if found.objections:
            names = " and ".join(_PROJECTS[name] for name in projects)
            raise SchemaError(f"{names} cannot be adopted: {'. Also: '.join(found.objections)}")
        _lock(connection, projects)
        run(connection, read("begin.sql"))
        _take_over(connection, projects)
        _forget(connection)
        left = parts.bring(connection)
        run(connection, read("end.sql"))
        refuse_foreign(connection)
    parts.finish(connection, left)
    return found.steps


def plan_adoption(connection: psycopg.Connection[Any]) -> Adoption:
    """Return what `adopt` would do and the objections; reads the catalog only, and takes no locks.

    Returns:
        Steps and objections; both empty if the schemas are ours already.

    Raises:
        SchemaError: There is nothing to adopt.
    """
    check_server(connection)
    with translated(), connection.transaction(force_rollback=True), pinned(connection):
        projects = _adoptable(connection)
        if not projects:
            return Adoption(steps=(), objections=())
        return _inspect(connection, projects, lock_deadline_s=0)


def _adoptable(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return the adoptable parts, of `pgmq`, `pgq` and `legacy`; empty if pgsluice is installed and there is none."""
    absent = missing(connection)
    if absent:
        raise SchemaError(f"this database has a part of pgsluice: {'. Also: '.join(absent)}")
    found = tuple(name for (name,) in fetch(connection, read("adopt/exists.sql")))
    if not found and not installed_versions(connection):
        raise SchemaError(
            "this database has neither PGMQ nor PgQ to adopt; install with `pgsluice schema install`"
        )
    return found


def _inspect(
    connection: psycopg.Connection[Any], found: Sequence[str], lock_deadline_s: float
) -> Adoption:
    """Return steps and objections; leave the data for the steps in temporary tables of the transaction."""
    is_legacy = str(has_legacy(installed_versions(connection))).lower()
    texts = (_signatures(), json.dumps(_types()), str(lock_deadline_s), " ".join(found), is_legacy)
    execute(connection, read("adopt/texts.sql"), *texts)
    run(connection, read("adopt/prepare.sql"))
    steps: list[str] = []
    objections: dict[str, None] = {}  # PGMQ and PgQ may have the same ones
    for name in found:
        folder = _FOLDERS[name]
        run(connection, read(f"{folder}/look.sql"))
        steps += [line for (line,) in fetch(connection, read(f"{folder}/steps.sql"))]
        for what, hint in fetch(connection, read(f"{folder}/objections.sql")):
            objections[f"{what}; {hint}"] = None
    return Adoption(steps=tuple(steps), objections=tuple(objections))


def _lock(connection: psycopg.Connection[Any], found: Sequence[str]) -> None:
    """Lock all objects that change, and remove those that would block `begin.sql`."""
    run(connection, read("adopt/lock.sql"))
    for name in found:
        run(connection, read(f"{_FOLDERS[name]}/unchanged.sql"))
    run(connection, read("adopt/detach.sql"))
    for name in found:
        run(connection, read(f"{_FOLDERS[name]}/clear.sql"))


def _forget(connection: psycopg.Connection[Any]) -> None:
    """Drop the temporary tables of `look`, and continue as the owner of the schemas."""
    run(connection, read("adopt/end.sql"))
    run(connection, read("adopt/as_owner.sql"))


def _take_over(connection: psycopg.Connection[Any], found: Sequence[str]) -> None:
    """Apply the steps that `look` returned; `begin.sql` has run in between."""
    of_queues, of_logs, of_legacy = "pgmq" in found, "pgq" in found, LEGACY in found
    legacy = of_legacy or has_legacy(installed_versions(connection))
    pending = pending_migrations(connection, legacy=legacy)
    # PGMQ and PgQ have made a part of these objects: only statements for missing objects, grants and comments run.
    partial = [f"{name}/{BASELINE}" for name in ("pgmq", "pgq") if name in found]
    run(connection, read("adopt/as_adopter.sql"))
    _hand_over(connection, of_queues)
    for migration in pending:
        # The tables of queues belong to their creators; all objects of a log belong to the schemas' owner by now.
        of_them = of_queues and migration.version.startswith("pgmq/")
        run(connection, read("adopt/as_adopter.sql" if of_them else "adopt/as_owner.sql"))
        if migration.version in partial:
            for statement in _missing(connection, migration.sql):
                run(connection, statement)
        else:
            run(connection, migration.sql)
        run(connection, ledger_row(migration))
    if of_queues:
        run(connection, read("adopt/as_adopter.sql"))
        run(connection, read("adopt/create_rights.sql"))
        run(connection, read("adopt/as_owner.sql"))
        run(connection, read("adopt/monitor_rights.sql"))
    run(connection, read("adopt/as_adopter.sql"))
    _hand_over(connection, of_queues)
    run(connection, read("adopt/as_owner.sql"))
    for text in functions(legacy=legacy):
        run(connection, text)
    run(connection, read("rows.sql"))
    if of_logs:
        run(connection, read("adopt/pgq/segments.sql"))
        run(connection, read("adopt/pgq/retries.sql"))
    if of_legacy:
        run(connection, read("adopt/as_adopter.sql"))
        run(connection, read("adopt/legacy/move.sql"))
        run(connection, read("adopt/as_owner.sql"))
    if of_queues or of_legacy:
        run(connection, read("hand_over.sql"))
    run(connection, read("adopt/as_adopter.sql"))
    if of_queues:
        run(connection, read("adopt/queues.sql"))
        run(connection, read("adopt/grants.sql"))
    if of_legacy:
        run(connection, read("adopt/legacy/queues.sql"))


def _hand_over(connection: psycopg.Connection[Any], of_queues: bool) -> None:
    if of_queues:
        run(connection, read("adopt/hand_over.sql"))
    run(connection, read("adopt/hand_over_rest.sql"))


def _signatures() -> list[str]:
    # Without those that take a type of schema pgq: PgQ lacks these types, and PostgreSQL 15 raises an error
    # when it looks up a function with an argument type of a missing schema.
    pattern = r"(?:pgm?q|public)\.\w+\((?!.*\bpgq\.).*\)"
    return [s for s in signatures(legacy=True) if re.fullmatch(pattern, s)]


def _types() -> dict[str, list[str]]:
    """Return each composite type with its attributes, name and type, as the baseline writes them."""
    first = next(m for m in migrations() if m.version == f"pgmq/{BASELINE}")
    return {
        name: [line.strip().rstrip(",") for line in attributes.strip().splitlines()]
        for name, attributes in _TYPE.findall(first.sql)
    }


def _missing(connection: psycopg.Connection[Any], sql: str) -> list[str]:
    """Return the statements of a baseline without those that create existing objects."""
    existing = {(kind, name) for kind, name in fetch(connection, read("adopt/there.sql"))}
    return [
        statement
        for statement in re.split(r"(?<=;)\n", sql)
        if (created := _CREATED.search(statement)) is None
        or (created[1], re.sub(r"^pgm?q\.", "", created[2] or created[3])) not in existing
    ]
