"""Turn PGMQ's and PgQ's schemas into ours in place, over `sql/adopt/`. `pgsluice.schema` has the calls."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice.schema_texts import (
    Migration,
    fetch,
    functions,
    ledger_row,
    migrations,
    read,
    run,
    signatures,
)

# What these make PGMQ has made, all or a part of it: of them only what is missing runs, and the grants and comments.
BASELINE = ("pgmq/0001_queues", "pgmq/0002_topics", "pgmq/0004_notify")
# The same of PgQ.
BASELINE_OF_LOGS = ("pgq/0001_log",)
# What these do to queues that are there, pgmq._create_queue does to each adopted one in the end.
_DONE_BY_QUEUE = ("pgmq/0003_ready_and_deferred",)

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


def there(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return which schemas can be adopted: `pgmq`, `pgq`, both or none."""
    return tuple(name for (name,) in fetch(connection, read("adopt/exists.sql")))


def look(
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


def lock(connection: psycopg.Connection[Any], found: Sequence[str]) -> None:
    """Lock all that changes, and take what blocks `begin.sql` out of the way."""
    run(connection, read("adopt/lock.sql"))
    for name in found:
        run(connection, read(f"{_FOLDERS[name]}/unchanged.sql"))
    run(connection, read("adopt/detach.sql"))
    for name in found:
        run(connection, read(f"{_FOLDERS[name]}/clear.sql"))


def forget(connection: psycopg.Connection[Any]) -> None:
    """Drop what `look` left, and continue as the owner of the schemas."""
    run(connection, read("adopt/end.sql"))
    run(connection, read("adopt/as_owner.sql"))


def take_over(
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
