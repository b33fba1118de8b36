"""Many event logs, and many consumers of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.wide.costs import Call, Dimension, Site, Step
from bench.wide.duties import DUTIES, page, session, statement

EVENTS = 20
_AT_ONCE = 50  # their tables are locked until the end of the transaction


def make_logs(site: Site, size: int) -> None:
    """Create logs, each with a consumer and a share group."""
    row = site.execute("select count(*) from pgq.queue").fetchone()
    for first in range(row[0] if row else 0, size, _AT_ONCE):
        numbers = [first, min(first + _AT_ONCE, size) - 1]
        site.execute(
            """
            select count(pgq.create_queue('log_' || n)), count(pgq.register_consumer('log_' || n, 'reader')),
                count(sluice.create_group('log_' || n, 'members'))
            from generate_series(%s::integer, %s) as n
            """,
            numbers,
        )
    site.execute("vacuum analyze")
    site.execute("checkpoint")


@contextmanager
def consumed(site: Site, consumer: str = "reader") -> Iterator[Call]:
    """Append events to a log, tick it, and read a batch of one consumer."""
    with session(site) as connection:

        def call() -> int:
            for number in range(EVENTS):
                connection.execute("select pgq.insert_event('log_0', 'type', %s)", [str(number)])
            connection.execute("select pgq.force_tick('log_0')")
            connection.execute("select pgq.ticker('log_0')")
            while (
                batch := connection.execute(
                    "select pgq.next_batch('log_0', %s)", [consumer]
                ).fetchone()
            ) != (None,):
                connection.execute("select count(*) from pgq.get_batch_events(%s)", batch)
                connection.execute("select pgq.finish_batch(%s)", batch)
            return EVENTS

        yield call


@contextmanager
def claimed(site: Site) -> Iterator[Call]:
    """Append an event to a log, claim it in its share group and acknowledge it."""
    with session(site) as connection:

        def call() -> int:
            for number in range(EVENTS):
                connection.execute("select pgq.insert_event('log_0', 'type', %s)", [str(number)])
                rows = connection.execute(
                    "select claim_id from sluice.claim('log_0', 'members', 1)"
                ).fetchall()
                connection.execute("select sluice.acknowledge('log_0', 'members', %s)", rows[0])
            return EVENTS

        yield call


FIGURES = (
    statement("pgq.get_queue_info()", "select * from pgq.get_queue_info()", is_read=True),
    statement("pgq.get_consumer_info()", "select * from pgq.get_consumer_info()", is_read=True),
    statement("sluice.list_consumers()", "select * from sluice.list_consumers(null)", is_read=True),
)
LOGS = Dimension(
    "logs",
    ("logs_small", "logs_middle", "logs_large"),
    make_logs,
    (
        Step("append, tick and consume", "message", consumed, growth=0.0),
        Step("append, claim and acknowledge", "message", claimed, growth=0.0),
        statement(
            "create and drop a log",
            "select pgq.create_queue('one'), pgq.drop_queue('one')",
            growth=0.0,
        ),
        *DUTIES,
        statement("sluice.rotate(), a page", "select * from sluice.rotate()"),
        statement("sluice.maintain_groups()", "select * from sluice.maintain_groups(null)"),
        statement("pgq.maint_retry_events()", "select pgq.maint_retry_events()"),
        *FIGURES,
        statement(
            "sluice.list_groups()", "select * from sluice.list_groups(null, null)", is_read=True
        ),
        page("/logs"),
    ),
)


def make_consumers(site: Site, size: int) -> None:
    """Register consumers of a log; all but the first have read nothing of 100 events."""
    site.execute("select pgq.create_queue('log_0') where not exists (select from pgq.queue)")
    site.execute(
        "select count(pgq.register_consumer('log_0', 'consumer_' || n)) from generate_series(1, %s::integer) as n",
        [size],
    )
    for _ in range(5):
        site.execute(
            "select pgq.insert_event('log_0', 'type', n::text) from generate_series(1, 20) as n"
        )
        site.execute("select pgq.force_tick('log_0')")
        site.execute("select pgq.ticker('log_0')")
    site.execute("vacuum analyze")
    site.execute("checkpoint")


@contextmanager
def produced(site: Site) -> Iterator[Call]:
    """Append events."""
    with session(site) as connection:

        def call() -> int:
            for number in range(EVENTS):
                connection.execute("select pgq.insert_event('log_0', 'type', %s)", [str(number)])
            return EVENTS

        yield call


CONSUMERS = Dimension(
    "consumers",
    ("consumers_small", "consumers_middle", "consumers_large"),
    make_consumers,
    (
        Step("append", "message", produced, growth=0.0),
        Step(
            "append, tick and consume, one consumer",
            "message",
            partial(consumed, consumer="consumer_1"),
            growth=0.0,
        ),
        *DUTIES,
        statement("sluice.rotate()", "select * from sluice.rotate()"),
        *FIGURES,
        page("/log", name="log_0"),
    ),
)
