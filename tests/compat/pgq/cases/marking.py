"""Steps of a case: statements, and statements with an intended difference."""

from __future__ import annotations

from typing import NamedTuple


class Differs(NamedTuple):
    """A statement whose result differs on purpose.

    Attributes:
        statement: SQL.
        line: Beginning of a line of "Differences from PgQ 3.5".
    """

    statement: str
    line: str


Step = str | Differs
Scenarios = dict[str, list[Step]]

# A queue that ticks on every call; from the second tick on, event counts equal PgQ's.
QUEUE: list[Step] = [
    "select * from pgq.create_queue('q')",
    "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'",
    "select * from pgq.insert_event('q', 'first', 'event')",
    "select * from pgq.ticker('q')",
]
CONSUMER: list[Step] = [*QUEUE, "select * from pgq.register_consumer('q', 'c')"]
# The consumer's first batch, with the events 2, 3 and 4, is open.
BATCH: list[Step] = [
    *CONSUMER,
    "select pgq.insert_event('q', 'type ' || n, 'data ' || n, '1', '2', '3', '4') from generate_series(1, 3) as n",
    "select * from pgq.ticker('q')",
    "select * from pgq.next_batch('q', 'c')",
]
