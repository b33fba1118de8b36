"""Many queues, with traffic on some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.wide.costs import Call, Dimension, Site, Step
from bench.wide.duties import DUTIES, page, session, statement

ACTIVE = 100
_AT_ONCE = 200  # their tables are locked until the end of the transaction


def make(site: Site, size: int) -> None:
    """Create queues."""
    row = site.execute("select count(*) from pgmq.meta").fetchone()
    for first in range(row[0] if row else 0, size, _AT_ONCE):
        upto = min(first + _AT_ONCE, size) - 1
        site.execute(
            "select count(pgmq.create('queue_' || n)) from generate_series(%s::integer, %s) as n",
            [first, upto],
        )
    site.execute("vacuum analyze")
    site.execute("checkpoint")


@contextmanager
def traffic(site: Site) -> Iterator[Call]:
    """Send, claim and acknowledge a message in each of the active queues."""
    with session(site) as connection:
        found = connection.execute(
            "select queue_name from pgmq.meta order by created_at, queue_name limit %s", [ACTIVE]
        )
        names = [name for (name,) in found.fetchall()]

        def call() -> int:
            for name in names:
                connection.execute("select pgmq.send(%s, '{}'::jsonb)", [name])
                rows = connection.execute(
                    "select msg_id from sluice.claim_messages(%s, 30, 1)", [name]
                ).fetchall()
                connection.execute("select pgmq.delete(%s, %s::bigint)", [name, rows[0][0]])
            return len(names)

        yield call


QUEUES = Dimension(
    "queues",
    ("queues_small", "queues_middle", "queues_large"),
    make,
    (
        Step("send, claim and acknowledge", "message", traffic, growth=0.0),
        statement(
            "create and drop a queue",
            "select pgmq.create('one'), pgmq.drop_queue('one')",
            growth=0.0,
        ),
        *DUTIES,
        statement("pgmq.metrics_all()", "select * from pgmq.metrics_all()", is_read=True),
        page("/queues"),
    ),
)
