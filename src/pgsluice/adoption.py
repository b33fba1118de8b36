"""Turn PGMQ's schema into ours in place. `pgsluice.schema` has the calls; here is what they do, over `sql/adopt/`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice.schema_texts import Migration, fetch, functions, ledger_row, migrations, read, run

# What these make PGMQ has made, all or a part of it: of them only what is missing runs, and the grants and comments.
BASELINE = ("pgmq/0001_queues", "pgmq/0002_topics", "pgmq/0004_notify")
# What these do to queues that are there, pgmq._create_queue does to each adopted one in the end.
_DONE_BY_QUEUE = ("pgmq/0003_ready_and_deferred",)

_COMMENTED_FUNCTION = re.compile(r"^comment on function (pgmq\.\w+\(.*?\)) is", re.MULTILINE)
_TYPE = re.compile(r"^create type pgmq\.(\w+) as \((.*?)\n\);", re.MULTILINE | re.DOTALL)
_CREATED = re.compile(r"^create (table|index|type) (?:(pgmq\.\w+)|(\w+) on) ?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What adopting a database would do.

    Attributes:
        steps: What would be done, in order, with counts.
        objections: Why it cannot be done, each with its way out; empty when it can.
    """

    steps: tuple[str, ...]
    objections: tuple[str, ...]


def look(connection: psycopg.Connection[Any], lock_deadline_s: float) -> Adoption:
    """Say what adopting would do, and leave what the steps need in temporary tables of the transaction."""
    texts = (_signatures(), json.dumps(_types()), str(lock_deadline_s))
    connection.execute(read("adopt/texts.sql"), texts)
    run(connection, read("adopt/look.sql"))
    return Adoption(
        steps=tuple(line for (line,) in fetch(connection, read("adopt/steps.sql"))),
        objections=tuple(
            f"{what}; {way_out}"
            for what, way_out in fetch(connection, read("adopt/objections.sql"))
        ),
    )


def forget(connection: psycopg.Connection[Any]) -> None:
    """Drop what `look` left."""
    run(connection, read("adopt/end.sql"))


def take_over(connection: psycopg.Connection[Any], pending: Sequence[Migration]) -> None:
    """Do what `look` said; `begin.sql` has run in between."""
    run(connection, read("adopt/as_adopter.sql"))
    run(connection, read("adopt/hand_over.sql"))
    for migration in pending:
        if migration.version in BASELINE:
            for statement in _missing(connection, migration.sql):
                run(connection, statement)
        elif migration.version not in _DONE_BY_QUEUE:
            run(connection, migration.sql)
        run(connection, ledger_row(migration))
    run(connection, read("adopt/hand_over.sql"))
    run(connection, read("adopt/as_owner.sql"))
    for text in functions():
        run(connection, text)
    run(connection, read("adopt/as_adopter.sql"))
    run(connection, read("adopt/queues.sql"))
    run(connection, read("adopt/grants.sql"))


def _signatures() -> list[str]:
    return [signature for text in functions() for signature in _COMMENTED_FUNCTION.findall(text)]


def _types() -> dict[str, list[str]]:
    """Return each composite type with its attributes, as the migration writes them: name and type."""
    first = next(m for m in migrations() if m.version == BASELINE[0])
    return {
        name: [line.strip().rstrip(",") for line in attributes.strip().splitlines()]
        for name, attributes in _TYPE.findall(first.sql)
    }


def _missing(connection: psycopg.Connection[Any], sql: str) -> list[str]:
    """Return the statements of a migration without those that create what there is."""
    there = {(kind, name) for kind, name in fetch(connection, read("adopt/there.sql"))}
    return [
        statement
        for statement in re.split(r"(?<=;)\n", sql)
        if (created := _CREATED.search(statement)) is None
        or (created[1], (created[2] or created[3]).removeprefix("pgmq.")) not in there
    ]
