"""Cost of a grouped read by number of groups."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.goal import Goal
from bench.place import Place

TITLE = "Reads in groups a second, 100,000 messages, groups in turn, create_fifo_index called"
UNIT = (
    "reads a second: of the median read of a repetition, median of the repetitions; "
    "a read that takes 5 s is cut off, counts as 0.2, and is not repeated"
)
MESSAGES = 100_000
READS = 5
CUT_OFF_S = 5


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        reader: Name of the SQL function.
        groups: Number of groups; message n is in group n modulo groups.
        qty: Requested messages per read.
    """

    reader: str
    groups: int
    qty: int

    @property
    def name(self) -> str:
        """Label in the results table."""
        return f"{self.reader}({self.qty}), {self.groups:,} groups of {MESSAGES // self.groups:,}"

    @property
    def expected(self) -> int:
        """Number of messages per read: one head per group, up to `qty`."""
        return min(self.qty, self.groups) if self.reader.endswith("_head") else self.qty


QUESTIONS = tuple(
    Question(reader, groups, qty)
    for groups in (1, 100, 1_000, 10_000, 100_000)
    for reader in ("read_grouped", "read_grouped_rr", "read_grouped_head")
    for qty in (1, 100)
)
GOALS = {question.name: Goal.at_most_ms(20) for question in QUESTIONS}
_cut_off: set[tuple[str, Question]] = set()


def measure(place: Place, question: Question) -> float:
    """Measure one question; its queue is filled on first use and kept.

    Read messages are deleted afterwards, so that no group is blocked.

    Returns:
        Reads a second, from the median read.
    """
    connection = place.connection
    key = (connection.info.dbname, question)
    if key in _cut_off:
        return 1 / CUT_OFF_S
    queue = f"groups_{question.groups}"
    made = connection.execute("select to_regclass(%s)", [f"pgmq.q_{queue}"]).fetchone()
    if made == (None,):
        fill(connection, queue, question.groups)
    times = []
    for _ in range(READS):
        begin = time.perf_counter()
        try:
            connection.execute(f"set statement_timeout = '{CUT_OFF_S}s'")
            ids = connection.execute(
                f"select msg_id from pgmq.{question.reader}(%s, 3600, %s)",
                [queue, question.qty],
            ).fetchall()
        except (psycopg.errors.QueryCanceled, psycopg.errors.OutOfMemory):
            # PGMQ takes one lock per group, and 100,000 locks exceed the lock table.
            _cut_off.add(key)
            return 1 / CUT_OFF_S
        finally:
            connection.execute("set statement_timeout = 0")
        times.append(time.perf_counter() - begin)
        if len(ids) != question.expected:
            raise RuntimeError(f"{question.name}: {len(ids)} messages, not {question.expected}")
        connection.execute("select pgmq.delete(%s, %s::bigint[])", [queue, [row[0] for row in ids]])
    return 1 / statistics.median(times)


def fill(connection: psycopg.Connection[Any], queue: str, groups: int) -> None:
    """Create and fill a queue with its group indexes."""
    connection.execute("select pgmq.create(%s)", [queue])
    connection.execute("select pgmq.create_fifo_index(%s)", [queue])
    connection.execute(
        f"""insert into pgmq.q_{queue} (vt, message, headers)
            select now(), '{{}}', jsonb_build_object('x-pgmq-group', (n %% %s)::text)
            from generate_series(1, %s) as n""",
        [groups, MESSAGES],
    )
    connection.execute(f"vacuum analyze pgmq.q_{queue}")
    connection.execute("checkpoint")
