"""Many schedules that are due in the same second, and many dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg

from bench.wide.costs import Call, Dimension, Site, Step
from bench.wide.duties import DUTIES, page, pool, session, statement
from pgsluice.worker import Scheduler

# Letters of another queue, older than all others.
FEW = 100


def make_schedules(site: Site, size: int) -> None:
    """Create schedules with the same slots."""
    site.execute("select pgmq.create('target')")
    site.execute(
        "select count(sluice.schedule('schedule ' || n, 'target', '{}', '0 3 * * *')) "
        "from generate_series(1, %s::integer) as n",
        [size],
    )
    site.execute("vacuum analyze")
    site.execute("checkpoint")


@contextmanager
def fired(site: Site) -> Iterator[Call]:
    """Fire all schedules, as their slots of a day ago."""
    with pool(site) as opened, session(site) as connection:
        scheduler = Scheduler(opened)

        def call() -> int:
            connection.execute("delete from sluice.schedule_slot")
            connection.execute(
                "update sluice.schedule "
                "set next_slot = next_slot - interval '1 day', due_at = due_at - interval '1 day' where due_at > now()"
            )
            done = scheduler.run_once()
            row = connection.execute("select count(*) from sluice.schedule").fetchone()
            if row != (len(done),):
                raise RuntimeError(f"{len(done)} slots of {row} schedules were fired")
            return len(done)

        yield call


SCHEDULES = Dimension(
    "schedules",
    ("schedules_small", "schedules_middle", "schedules_large"),
    make_schedules,
    (
        Step("fire all schedules due", "message", fired, growth=0.0),
        statement(
            "next due schedule", "select min(s.due_at) from sluice.schedule as s", growth=0.0
        ),
        statement(
            "sluice.fire_schedules(), none due", "select * from sluice.fire_schedules()", growth=0.0
        ),
        *DUTIES,
        page("/schedules"),
    ),
)


def make_dead_letters(site: Site, size: int) -> None:
    """Dead-letter messages of one queue, behind some of another."""
    if site.execute("select from pgmq.meta").fetchone() is None:
        site.execute("select pgmq.create('few'), pgmq.create('many')")
        _dead_letter(site.connection, "few", FEW)
    row = site.execute(
        "select count(*) from sluice.dead_letter_message where queue_name = 'many'"
    ).fetchone()
    _dead_letter(site.connection, "many", size - (row[0] if row else 0))
    site.execute("vacuum analyze")
    site.execute("checkpoint")


def _dead_letter(connection: psycopg.Connection[Any], queue: str, count: int) -> None:
    connection.execute(
        """
        insert into sluice.dead_letter (
            queue_name, msg_id, read_ct, enqueued_at, message, reason, error_type, error, dead_at
        )
        select %s, n, 5, now() - interval '1 hour', '{}', 'too many attempts', 'KeyError', 'KeyError: row ' || n,
            now() - interval '1 hour' + n * interval '1 microsecond'
        from generate_series(1, %s::integer) as n
        """,
        [queue, count],
    )


@contextmanager
def redriven(site: Site, queue: str) -> Iterator[Call]:
    """Redrive 100 dead letters, and dead-letter as many."""
    with session(site) as connection:

        def call() -> int:
            rows = connection.execute(
                "select * from sluice.redrive(%s, qty => 100)", [queue]
            ).fetchall()
            _dead_letter(connection, queue, len(rows))
            return len(rows)

        yield call


@contextmanager
def purged(site: Site, queue: str) -> Iterator[Call]:
    """Purge 100 dead letters, and dead-letter as many."""
    with session(site) as connection:

        def call() -> int:
            row = connection.execute(
                "select sluice.purge_dead_letters(%s, older_than => '1 second', qty => 100)",
                [queue],
            ).fetchone()
            count = row[0] if row else 0
            _dead_letter(connection, queue, count)
            return int(count)

        yield call


@contextmanager
def reject(site: Site) -> Iterator[Call]:
    """Send, claim and reject messages."""
    with session(site) as connection:

        def call() -> int:
            for _ in range(20):
                connection.execute("select pgmq.send('few', '{}'::jsonb)")
                row = connection.execute(
                    "select msg_id, read_ct from sluice.claim_messages('few', 30, 1)"
                ).fetchone()
                connection.execute("select sluice.reject('few', %s, %s, 'invalid')", row)
            return 20

        yield call


DEAD_LETTERS = Dimension(
    "dead letters",
    ("dead_letters_small", "dead_letters_middle", "dead_letters_large"),
    make_dead_letters,
    (
        # Those that read come first: the others leave dead rows, which a read passes until vacuum removes them.
        *(
            step
            for queue in ("many", "few")
            for step in (
                statement(
                    f"list 100 of {queue}",
                    f"select * from sluice.list_dead_letters('{queue}', newest_first => true)",
                    growth=0.0,
                ),
                statement(
                    f"search {queue}",
                    f"select * from sluice.list_dead_letters('{queue}', "
                    """filter => '{"matching": "nowhere"}', scan => 5000)""",
                    growth=0.0,
                ),
                page("/dead-letters", growth=0.0, queue=queue),
            )
        ),
        statement("count those of many", "select sluice.count_dead_letters('many')"),
        statement("count those of few", "select sluice.count_dead_letters('few')", growth=0.0),
        statement("group by error", "select * from sluice.group_dead_letters('many')", growth=0.0),
        Step("send, claim and reject", "message", reject, growth=0.0),
        *(
            Step(f"{name} 100 of {queue}", "message", partial(work, queue=queue), growth=0.0)
            for queue in ("many", "few")
            for name, work in (("redrive", redriven), ("purge", purged))
        ),
        *DUTIES,
        page("/dead-letters", growth=0.0),
        page("/queue", growth=0.0, name="many"),
    ),
)
