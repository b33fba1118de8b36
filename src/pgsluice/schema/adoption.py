"""Turn PGMQ's and PgQ's schemas into ours in place, over `sql/adopt/`."""

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
from pgsluice.schema.ledger import check_server, installed_versions, pending_migrations
from pgsluice.schema.texts import (
    Migration,
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

# What these make PGMQ has made, all or a part of it: of them only what is missing runs, and the grants and comments.
BASELINE = ("pgmq/0001_queues", "pgmq/0002_topics", "pgmq/0004_notify")
# The same of PgQ.
BASELINE_OF_LOGS = ("pgq/0001_log",)
# What these do to queues that are there, pgmq._create_queue does to each adopted one in the end.
_DONE_BY_QUEUE = ("pgmq/0003_ready_and_deferred",)

_PROJECTS = {"pgmq": "PGMQ", "pgq": "PgQ"}
_FOLDERS = {"pgmq": "adopt", "pgq": "adopt/pgq"}

_TYPE = re.compile(r"^create type pgmq\.(\w+) as \((.*?)\n\);", re.MULTILINE | re.DOTALL)
_CREATED = re.compile(
    r"^create (table|index|type|sequence) (?:(pgm?q\.\w+)|(pgm?q\.\w+|\w+) on)(?= |;)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What adopting a database would do.

    Attributes:
        steps: What would be done, in order, with counts.
        objections: Why it cannot be done, each with its way out; empty when it can.
    """

    steps: tuple[str, ...]
    objections: tuple[str, ...]


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
    check_server(connection)
    with translated(), pinned(connection):
        run(connection, read("lock.sql"))
        if installed_versions(connection):
            return ()
        there = _require_adoptable(connection)
        found = _look(connection, there, lock_deadline_s)
        if found.objections:
            names = " and ".join(_PROJECTS[name] for name in there)
            raise SchemaError(f"{names} cannot be adopted: {'. Also: '.join(found.objections)}")
        _lock(connection, there)
        run(connection, read("begin.sql"))
        _take_over(connection, there, pending_migrations(connection, legacy=False))
        _forget(connection)
        left = parts.bring(connection)
        run(connection, read("end.sql"))
        refuse_foreign(connection)
    parts.finish(connection, left)
    return found.steps


def plan_adoption(connection: psycopg.Connection[Any]) -> Adoption:
    """Say what `adopt` would do and what stands against it; reads the catalog only, and locks nothing.

    Returns:
        Steps and objections; neither when the schemas are ours already.

    Raises:
        SchemaError: There is nothing to adopt.
    """
    check_server(connection)
    with translated(), connection.transaction(force_rollback=True), pinned(connection):
        if installed_versions(connection):
            return Adoption(steps=(), objections=())
        return _look(connection, _require_adoptable(connection), lock_deadline_s=0)


def _require_adoptable(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return which schemas can be adopted: `pgmq`, `pgq` or both."""
    found = tuple(name for (name,) in fetch(connection, read("adopt/exists.sql")))
    if not found:
        raise SchemaError(
            "there is no PGMQ and no PgQ in this database to adopt; install with `pgsluice schema install`"
        )
    return found


def _look(
    connection: psycopg.Connection[Any], found: Sequence[str], lock_deadline_s: float
) -> Adoption:
    """Say what adopting would do, and leave what the steps need in temporary tables of the transaction."""
    texts = (_signatures(), json.dumps(_types()), str(lock_deadline_s), " ".join(found))
    connection.execute(read("adopt/texts.sql"), texts)
    run(connection, read("adopt/prepare.sql"))
    steps: list[str] = []
    objections: dict[str, None] = {}  # both may say the same
    for name in found:
        folder = _FOLDERS[name]
        run(connection, read(f"{folder}/look.sql"))
        steps += [line for (line,) in fetch(connection, read(f"{folder}/steps.sql"))]
        for what, way_out in fetch(connection, read(f"{folder}/objections.sql")):
            objections[f"{what}; {way_out}"] = None
    return Adoption(steps=tuple(steps), objections=tuple(objections))


def _lock(connection: psycopg.Connection[Any], found: Sequence[str]) -> None:
    """Lock all that changes, and take what blocks `begin.sql` out of the way."""
    run(connection, read("adopt/lock.sql"))
    for name in found:
        run(connection, read(f"{_FOLDERS[name]}/unchanged.sql"))
    run(connection, read("adopt/detach.sql"))
    for name in found:
        run(connection, read(f"{_FOLDERS[name]}/clear.sql"))


def _forget(connection: psycopg.Connection[Any]) -> None:
    """Drop what `look` left, and continue as the owner of the schemas."""
    run(connection, read("adopt/end.sql"))
    run(connection, read("adopt/as_owner.sql"))


def _take_over(
    connection: psycopg.Connection[Any], found: Sequence[str], pending: Sequence[Migration]
) -> None:
    """Do what `look` said; `begin.sql` has run in between."""
    of_queues, of_logs = "pgmq" in found, "pgq" in found
    baseline = (*(BASELINE if of_queues else ()), *(BASELINE_OF_LOGS if of_logs else ()))
    done_by_queue = _DONE_BY_QUEUE if of_queues else ()
    run(connection, read("adopt/as_adopter.sql"))
    _hand_over(connection, of_queues)
    for migration in pending:
        # The queues' tables belong to who made them; all of a log belongs to the owner of the schemas by now.
        of_them = of_queues and migration.version.startswith("pgmq/")
        run(connection, read("adopt/as_adopter.sql" if of_them else "adopt/as_owner.sql"))
        if migration.version in baseline:
            for statement in _missing(connection, migration.sql):
                run(connection, statement)
        elif migration.version not in done_by_queue:
            run(connection, migration.sql)
        run(connection, ledger_row(migration))
    run(connection, read("adopt/as_adopter.sql"))
    _hand_over(connection, of_queues)
    run(connection, read("adopt/as_owner.sql"))
    for text in functions():
        run(connection, text)
    if of_logs:
        run(connection, read("adopt/pgq/retries.sql"))
    if of_queues:
        run(connection, read("hand_over.sql"))
    run(connection, read("adopt/as_adopter.sql"))
    if of_queues:
        run(connection, read("adopt/queues.sql"))
        run(connection, read("adopt/grants.sql"))


def _hand_over(connection: psycopg.Connection[Any], of_queues: bool) -> None:
    if of_queues:
        run(connection, read("adopt/hand_over.sql"))
    run(connection, read("adopt/hand_over_rest.sql"))


def _signatures() -> list[str]:
    # Without those that take a type of schema pgq: PgQ has none of these types, and PostgreSQL 15 raises an error
    # when it looks up a function whose argument is of a schema that does not exist.
    return [s for s in signatures() if re.fullmatch(r"pgm?q\.\w+\((?!.*\bpgq\.).*\)", s)]


def _types() -> dict[str, list[str]]:
    """Return each composite type with its attributes, as the migration writes them: name and type."""
    first = next(m for m in migrations() if m.version == BASELINE[0])
    return {
        name: [line.strip().rstrip(",") for line in attributes.strip().splitlines()]
        for name, attributes in _TYPE.findall(first.sql)
    }


def _missing(connection: psycopg.Connection[Any], sql: str) -> list[str]:
    """Return the statements of a migration without those that create what there is."""
    existing = {(kind, name) for kind, name in fetch(connection, read("adopt/there.sql"))}
    return [
        statement
        for statement in re.split(r"(?<=;)\n", sql)
        if (created := _CREATED.search(statement)) is None
        or (created[1], re.sub(r"^pgm?q\.", "", created[2] or created[3])) not in existing
    ]
