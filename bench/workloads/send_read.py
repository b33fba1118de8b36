"""Throughput of sending, and of reading and deleting."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from bench.goal import Goal
from bench.pgbench import pgbench
from bench.place import Place

TITLE = "Messages a second through SQL, prepared statements of pgbench, one client if not named"
UNIT = "messages a second, median of the repetitions"
QUEUE = "bench"
MESSAGE = json.dumps({"order": 4711, "state": "paid", "note": "x" * 60})  # about 100 bytes
BATCH, LARGE_BATCH = 100, 10_000
SINGLES = 2_000  # messages of a question with single sends or reads
BATCHED = 24_000  # messages of a question with batches of a hundred


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        call: What a transaction does.
        script: Transaction script for pgbench.
        messages: Total messages sent, or read and deleted, by all clients together.
        each: Batch size.
        reads: True if the queue is filled first.
        clients: Number of sessions.
        synchronous_commit: Setting of the sessions; None for the server's.
        name: Label in the results table.
    """

    call: str
    script: str
    messages: int
    each: int
    reads: bool
    clients: int = 1
    synchronous_commit: str | None = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        clients = f", {self.clients} clients" if self.clients > 1 else ""
        commit = f", {self.synchronous_commit}" if self.synchronous_commit else ""
        object.__setattr__(self, "name", self.call + clients + commit)


def send_batch(each: int) -> str:
    return f"select count(*) from pgmq.send_batch('{QUEUE}', array_fill('{MESSAGE}'::jsonb, array[{each}]));"


SEND = Question(
    "send(1)", f"select pgmq.send('{QUEUE}', '{MESSAGE}'::jsonb);", SINGLES, 1, reads=False
)
SEND_BATCH = Question(f"send_batch({BATCH})", send_batch(BATCH), BATCHED, BATCH, reads=False)
SEND_LARGE_BATCH = Question(
    f"send_batch({LARGE_BATCH:,})",
    send_batch(LARGE_BATCH),
    5 * LARGE_BATCH,
    LARGE_BATCH,
    reads=False,
)
READ = Question(
    "read(1) + delete(1)",
    f"select msg_id from pgmq.read('{QUEUE}', 60, 1) \\gset\n"
    f"select pgmq.delete('{QUEUE}', (:msg_id)::bigint);",
    SINGLES,
    1,
    reads=True,
)
READ_BATCH = Question(
    f"read({BATCH}) + delete({BATCH})",
    f"select array_agg(msg_id) as ids from pgmq.read('{QUEUE}', 60, {BATCH}) \\gset\n"
    f"select count(*) from pgmq.delete('{QUEUE}', (:ids)::bigint[]);",
    BATCHED,
    BATCH,
    reads=True,
)
POP = Question("pop(1)", f"select msg_id from pgmq.pop('{QUEUE}');", SINGLES, 1, reads=True)
CONCURRENT = (SEND, SEND_BATCH, READ, READ_BATCH, POP)
QUESTIONS = (
    SEND,
    SEND_BATCH,
    SEND_LARGE_BATCH,
    READ,
    READ_BATCH,
    POP,
    *(replace(question, clients=clients) for clients in (2, 8) for question in CONCURRENT),
    *(replace(READ, clients=clients, synchronous_commit="on") for clients in (1, 2, 8)),
)

CHECKS = "probably because each row is checked against the predicates of two partial indexes"
FLUSHES = "each waits for the flush of two commits, which costs the same in both"
ROWS = "writing rows and the commits cost the same in both"
CALLS = {
    SEND.call: Goal(
        1.0, why_missed="both plan one insert per call; ours also pins the search path"
    ),
    SEND_BATCH.call: Goal(1.0, why_missed=CHECKS),
    SEND_LARGE_BATCH.call: Goal(1.0, why_missed=CHECKS),
    READ.call: Goal(1.5, why_missed=ROWS),
    READ_BATCH.call: Goal(1.5, why_missed=ROWS),
    POP.call: Goal(1.5, why_missed=ROWS),
}
GOALS = {
    question.name: CALLS[question.call]
    if question.synchronous_commit is None
    else Goal(1.3, why_missed=FLUSHES)
    for question in QUESTIONS
}


def measure(place: Place, question: Question) -> float:
    """Measure one question on a new queue.

    Returns:
        Messages a second.

    Raises:
        RuntimeError: The queue has an unexpected number of messages afterwards.
    """
    connection = place.connection
    connection.execute("select pgmq.create(%s)", [QUEUE])
    filled = 2 * question.messages if question.reads else 0
    try:
        if filled:
            connection.execute(
                "select count(*) from pgmq.send_batch(%s, array_fill(%s::jsonb, array[%s]))",
                [QUEUE, MESSAGE, filled],
            )
        # Keeps autovacuum and the checkpoint of the fill out of the measurement.
        connection.execute(f"vacuum analyze pgmq.q_{QUEUE}")
        connection.execute("checkpoint")
        transactions = question.messages // question.each // question.clients
        per_second = pgbench(
            place.server,
            connection.info.dbname,
            question.script,
            transactions,
            clients=question.clients,
            synchronous_commit=question.synchronous_commit,
        )
        (left,) = connection.execute(f"select count(*) from pgmq.q_{QUEUE}").fetchone() or (None,)
        if left != question.messages:
            raise RuntimeError(f"{question.name} left {left} messages, not {question.messages}")
        return per_second * question.each
    finally:
        connection.execute("select pgmq.drop_queue(%s)", [QUEUE])
