"""A statement, or one that is answered otherwise on purpose."""

from __future__ import annotations

from typing import NamedTuple


class Differs(NamedTuple):
    """A statement whose answer differs.

    Attributes:
        statement: SQL.
        line: How a line of "Differences from PgQ 3.5" begins.
    """

    statement: str
    line: str


Step = str | Differs
Scenarios = dict[str, list[Step]]

# A queue that ticks whenever it is asked to, whose ticks count alike from the second on.
QUEUE: list[Step] = [
    "select * from pgq.create_queue('q')",
    "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'",
    "select * from pgq.insert_event('q', 'first', 'event')",
    "select * from pgq.ticker('q')",
]
CONSUMER: list[Step] = [*QUEUE, "select * from pgq.register_consumer('q', 'c')"]
# Its first batch has the events 2, 3 and 4 and is open.
BATCH: list[Step] = [
    *CONSUMER,
    "select pgq.insert_event('q', 'type ' || n, 'data ' || n, '1', '2', '3', '4') from generate_series(1, 3) as n",
    "select * from pgq.ticker('q')",
    "select * from pgq.next_batch('q', 'c')",
]
