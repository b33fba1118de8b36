"""CPU time, WAL and disk per message and event: the constants of the page on capacity."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.competing import ShareGroup
from bench.cpu import backend_cpu_s, server_cpu_s
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from bench.systems.variants import KEYS, Keyed
from bench.systems.worker import QueueWorker
from bench.working import Child, Cost
from bench.workloads.worker_noop import new_database

TITLE = "Messages or events for each second of CPU time, megabyte of WAL and megabyte on disk"
UNIT = "messages or events for each second of CPU time, or megabyte of WAL or disk"
SYSTEMS = [Pgsluice()]
OPTIONS = {"constant_messages": 20_000, "constant_worker_messages": 100_000, "constant_served": 400}
NOTES = [
    "CPU of a call: of the session's backend, without the client; the server's other processes are not in it",
    "WAL: without full-page images; the first change of a page after a checkpoint adds up to 8 kB",
    "disk: tables and indexes of waiting, archived or logged rows, divided by their number",
    "worker: of its process, and of the server's processes meanwhile, with a no-op handler",
    "wake-up: the same, with the send, for single messages at a fixed rate; each wakes an idle worker",
]
NAME = "bench"
SIZES = (100, 1_000)
CPU, WAL, DISK = "second of CPU", "megabyte of WAL", "megabyte on disk"
WORKER_CPU, SERVER_CPU = "second of CPU of the worker", "second of CPU of the server"
WAKEUPS_PER_S = 20
BATCH = 10_000
GOALS: dict[str, Any] = {}

Connection = psycopg.Connection[Any]


@dataclass(frozen=True)
class Flow:
    """Calls whose cost is measured.

    Attributes:
        name: Label.
        qty: Messages or events per call.
        prepare: Called before, with the connection, the payload and the number of messages.
        call: Called repeatedly with the connection, the payload and `qty`.
        relation: Returns the relation whose size grows by the calls; None: none does.
        is_log: True if the calls are those of an event log.
    """

    name: str
    qty: int
    prepare: Callable[[Connection, str, int], None]
    call: Callable[[Connection, str, int], None]
    relation: Callable[[Connection], str] | None = None
    is_log: bool = False


@dataclass(frozen=True)
class Question:
    """Measured question.

    Attributes:
        flow: The calls, or `worker` or `wake-up`.
        size: Bytes of the payload.
        unit: Divisor of the number of messages.
        name: Label in the results table.
    """

    flow: str
    size: int
    unit: str
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.flow}, {self.size:,} bytes, for each {self.unit}")


def nothing(_connection: Connection, _payload: str, _messages: int) -> None:
    pass


def send(connection: Connection, payload: str, _qty: int) -> None:
    connection.execute("select pgmq.send(%s, to_jsonb(%s::text))", [NAME, payload])


def send_batch(connection: Connection, payload: str, qty: int) -> None:
    connection.execute(
        "select count(*) from pgmq.send_batch(%s, array_fill(to_jsonb(%s::text), array[%s]))",
        [NAME, payload, qty],
    )


def fill_queue(connection: Connection, payload: str, messages: int) -> None:
    send_batch(connection, payload, messages)
    connection.execute(f"vacuum analyze pgmq.q_{NAME}")


def completing(how: str) -> Callable[[Connection, str, int], None]:
    def complete(connection: Connection, _payload: str, qty: int) -> None:
        rows = connection.execute(
            "select msg_id from pgmq.read(%s, 600, %s)", [NAME, qty]
        ).fetchall()
        if len(rows) != qty:
            raise RuntimeError(f"{len(rows)} messages instead of {qty} were read")
        connection.execute(
            f"select count(*) from pgmq.{how}(%s, %s::bigint[])", [NAME, [row[0] for row in rows]]
        )

    return complete


def insert_event(connection: Connection, payload: str, _qty: int) -> None:
    connection.execute("select pgq.insert_event(%s, 'type', %s)", [NAME, payload])


def insert_events(connection: Connection, payload: str, qty: int) -> None:
    connection.execute(
        "select sluice.insert_events(%s, array_fill('type'::text, array[%s]), array_fill(%s::text, array[%s]))",
        [NAME, qty, payload, qty],
    )


def fill_log(connection: Connection, payload: str, messages: int) -> None:
    connection.execute("select pgq.register_consumer(%s, 'bench')", [NAME])
    connection.execute(
        """update pgq.queue
           set queue_ticker_max_lag = '0', queue_ticker_max_count = 1, queue_ticker_idle_period = '0'"""
    )
    for _ in range(messages // BATCH):
        insert_events(connection, payload, BATCH)
        connection.execute("select pgq.ticker(%s)", [NAME])


def consume(connection: Connection, _payload: str, qty: int) -> None:
    ((batch,),) = connection.execute("select pgq.next_batch(%s, 'bench')", [NAME]).fetchall()
    found = connection.execute("select * from pgq.get_batch_events(%s)", [batch]).fetchall()
    if len(found) != qty:
        raise RuntimeError(f"{len(found)} events instead of {qty} are in a batch")
    connection.execute("select pgq.finish_batch(%s)", [batch])


def fill_group(connection: Connection, payload: str, messages: int) -> None:
    connection.execute("select sluice.create_group(%s, %s)", [NAME, NAME])
    insert_events(connection, payload, messages)
    connection.execute("select pgq.force_tick(%s), pgq.ticker(%s)", [NAME, NAME])


def acknowledge(connection: Connection, _payload: str, qty: int) -> None:
    group = ShareGroup(NAME)
    claimed, found = group.claim(connection, qty)
    if found != qty:
        raise RuntimeError(f"{found} events instead of {qty} were claimed")
    group.complete(connection, claimed)


def queue_table(_connection: Connection) -> str:
    return f"pgmq.q_{NAME}"


def archive_table(_connection: Connection) -> str:
    return f"pgmq.a_{NAME}"


def event_table(connection: Connection) -> str:
    ((name,),) = connection.execute("select pgq.current_event_table(%s)", [NAME]).fetchall()
    return str(name)


FLOWS = {
    flow.name: flow
    for flow in (
        Flow("send, 1 per call", 1, nothing, send, queue_table),
        Flow("send_batch, 100 per call", 100, nothing, send_batch, queue_table),
        Flow("read and delete, 1 per call", 1, fill_queue, completing("delete")),
        Flow("read and delete, 100 per call", 100, fill_queue, completing("delete")),
        Flow(
            "read and archive, 100 per call", 100, fill_queue, completing("archive"), archive_table
        ),
        Flow("insert_event, 1 per call", 1, nothing, insert_event, event_table, is_log=True),
        Flow("insert_events, 100 per call", 100, nothing, insert_events, event_table, is_log=True),
        Flow(f"batch of {BATCH:,} events to one consumer", BATCH, fill_log, consume, is_log=True),
        Flow("claim and acknowledge, 100 per call", 100, fill_group, acknowledge, is_log=True),
    )
}
WORKER, WAKEUP = "worker with a no-op handler", "worker that each message wakes up"
KEYED = f"worker with a no-op handler, {KEYS} keys, one message of each at a time"
QUESTIONS = tuple(
    Question(flow.name, size, unit)
    for flow in FLOWS.values()
    for size in SIZES
    for unit in (CPU, WAL, *([DISK] if flow.relation else []))
) + tuple(
    Question(of_worker, SIZES[0], unit)
    for of_worker, units in (
        (WORKER, (WORKER_CPU, SERVER_CPU, WAL)),
        (KEYED, (WORKER_CPU, SERVER_CPU, WAL)),
        (WAKEUP, (WORKER_CPU, SERVER_CPU)),
    )
    for unit in units
)
_runs: dict[tuple[str, int], dict[str, float]] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question: one run answers all questions of a flow and size.

    Returns:
        Messages or events per unit.
    """
    key = (question.flow, question.size)
    if question.unit not in _runs.get(key, {}):
        if question.flow in FLOWS:
            _runs[key] = run(place, FLOWS[question.flow], "x" * question.size)
        else:
            _runs[key] = run_worker(place, question.flow)
    return _runs[key].pop(question.unit)


def run(place: Place, flow: Flow, payload: str) -> dict[str, float]:
    """Call repeatedly; return the number of messages per unit of each cost."""
    connection = place.connection
    connection.prepare_threshold = 1
    messages = max(OPTIONS["constant_messages"] // flow.qty, 2) * flow.qty
    warm = flow.qty * max(1, min(20, messages // flow.qty // 10))
    connection.execute(
        "select pgq.create_queue(%s)" if flow.is_log else "select pgmq.create(%s)", [NAME]
    )
    try:
        connection.execute("checkpoint")
        flow.prepare(connection, payload, messages + warm)
        for _ in range(warm // flow.qty):
            flow.call(connection, payload, flow.qty)
        before = spent(connection, flow)
        for _ in range(messages // flow.qty):
            flow.call(connection, payload, flow.qty)
        after = spent(connection, flow)
    finally:
        connection.execute(
            "select pgq.drop_queue(%s, true)" if flow.is_log else "select pgmq.drop_queue(%s)",
            [NAME],
        )
    return {unit: messages / (after[unit] - before[unit]) for unit in after}


def spent(connection: Connection, flow: Flow) -> dict[str, float]:
    """Return CPU seconds of the backend, megabytes of WAL, and of the relation on disk."""
    (wal_bytes,) = connection.execute(
        "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
    ).fetchone() or (0,)
    found = {CPU: backend_cpu_s(connection), WAL: float(wal_bytes) / 1e6}
    if flow.relation is not None:
        (size_bytes,) = connection.execute(
            "select pg_total_relation_size(%s::regclass)", [flow.relation(connection)]
        ).fetchone() or (0,)
        found[DISK] = int(size_bytes) / 1e6
    return found


def run_worker(place: Place, flow: str) -> dict[str, float]:
    """Complete a backlog, or single messages at a fixed rate; return messages per unit of each cost."""
    system, is_woken = Keyed() if flow == KEYED else QueueWorker(), flow == WAKEUP
    messages = OPTIONS["constant_served" if is_woken else "constant_worker_messages"]
    numbers = {"messages": messages, "concurrency": 50}
    with new_database(place, system) as connection, ExitStack() as stack:
        url = place.server.url(connection.info.dbname)
        if not is_woken:
            asyncio.run(system.fill(url, "x" * SIZES[0], messages))
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
        stack.enter_context(system.beside(url))
        worker = stack.enter_context(Child("cost", system.name, url, **numbers))
        if is_woken:
            sender = stack.enter_context(
                Child("send", system.name, url, messages=messages, per_s=WAKEUPS_PER_S)
            )
        wal_bytes, server_s = Cost.of(connection).wal_bytes, server_cpu_s(place.server)
        worker.go()
        if is_woken:
            sender.go()
        _seconds, worker_s = worker.answer()
        server_s = server_cpu_s(place.server) - server_s
        wal_bytes = Cost.of(connection).wal_bytes - wal_bytes
    return {
        WORKER_CPU: messages / worker_s,
        SERVER_CPU: messages / server_s,
        WAL: messages * 1e6 / wal_bytes,
    }
