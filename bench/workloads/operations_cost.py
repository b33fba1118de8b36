"""Cost of the worker registry, of samples and of traces: throughput, CPU time, statements and dead rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from bench.cpu import backend_cpu_s, server_cpu_s
from bench.goal import Goal
from bench.place import Place
from bench.statements import logged
from bench.systems.pgsluice import Pgsluice
from bench.systems.variants import (
    REPORT_S,
    SAMPLE_S,
    Bare,
    Reporting,
    Sampling,
    SwitchedOff,
    Traced,
    take_samples,
)
from bench.systems.worker import QueueWorker
from bench.working import Child
from bench.workloads.worker_noop import PAYLOAD, new_database
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls.operations import WorkerIdentity, report_worker

TITLE = "Cost of registry, samples and traces"
UNIT = (
    "messages a second, also per second of CPU time of server and worker; 1 / share of a core; minutes per statement; "
    "1 / (1 + dead rows)"
)
SYSTEMS = [Pgsluice()]
WARM_UP = False  # each run starts with a new database
OPTIONS = {
    "cost_messages": 15_000,
    "worker_concurrency": 50,
    "cost_reports": 500,
    "cost_idle_seconds": 60,
    "cost_held_calls": 4_000,
}
NOTES = [
    "worker: no-op handler, 50 concurrent calls, `pgsluice maintain` alongside; until all are acknowledged",
    "as shipped: a report every 30 s, samples every 10 s, OpenTelemetry installed and not configured",
    "tracing: a provider with SimpleSpanProcessor, exporter in memory, and metrics; if on, messages have trace context",
    "1 / share of a core: interval divided by the CPU time of a call; of a report that of server and client",
    "samples: every sixth call includes the summary of a minute, as in operation",
    "idle statements and dead rows: measured once",
]
SHIPPED, BARE = "worker as shipped", f"worker, {Bare.name}"
SILENT_S = 10
NOISE = "1 % is less than the variation between runs: compare ranges, and the shares of a core"
BUDGET = "up to 5,000 messages are counted per queue; a call ends soon after 100 ms"


@dataclass(frozen=True)
class Question:
    """Measured question.

    Attributes:
        name: Label in the results table.
        measure: Function that measures it.
        is_once: Measure it in the first repetition only.
    """

    name: str
    measure: Callable[[Place], float]
    is_once: bool = False


_cpu: dict[str, float] = {}


def measure(place: Place, question: Question) -> float:
    """Measure one question.

    Returns:
        The measured value; higher is better.
    """
    return question.measure(place)


def throughput(make: Callable[[], QueueWorker], place: Place) -> float:
    """Complete a backlog; return messages per second."""
    system, messages = make(), OPTIONS["cost_messages"]
    with new_database(place, system) as connection:
        url = place.server.url(connection.info.dbname)
        asyncio.run(system.fill(url, PAYLOAD, messages))
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
        numbers = {"messages": messages, "concurrency": OPTIONS["worker_concurrency"]}
        with system.beside(url), Child("cost", system.name, url, **numbers) as it:
            before_s = server_cpu_s(place.server)
            it.go()
            seconds, worker_s = it.answer()
            server_s = server_cpu_s(place.server) - before_s
        ((reported, sampled),) = connection.execute(
            "select (select count(*) from sluice.process_report where ended_at is null), "
            "(select count(*) from sluice.sample where slot < 3)"
        ).fetchall()
    _cpu[system.name] = messages / (worker_s + server_s)
    print(
        f"  {system.name}: {messages / seconds:,.0f} a second; CPU time per message: worker "
        f"{worker_s / messages * 1e6:.1f} us, server {server_s / messages * 1e6:.1f} us; "
        f"{reported} reports, {sampled} samples in {seconds:.1f} s"
    )
    return messages / seconds


def per_cpu(make: Callable[[], QueueWorker], place: Place) -> float:
    """Return the messages per second of CPU time of the previous run, or of a new one."""
    name = make().name
    if name not in _cpu:
        throughput(make, place)
    return _cpu.pop(name)


def reports(running: int, place: Place) -> float:
    """Return 1 / share of a core that the reports of a worker with running calls need."""
    with kept_database(place, 3, 6_000) as connection:
        runner = Runner(connection)
        report(runner, 0, running)
        before_s = backend_cpu_s(connection) + time.thread_time()
        for number in range(OPTIONS["cost_reports"]):
            report(runner, number % 20, running)
        spent_s = backend_cpu_s(connection) + time.thread_time() - before_s
    each_s = spent_s / OPTIONS["cost_reports"]
    print(
        f"  report_worker, {running} running calls: {each_s * 1000:.2f} ms of CPU time, "
        f"{100 * each_s / REPORT_S:.4f} % of a core"
    )
    return REPORT_S / each_s


def report(runner: Runner, number: int, running: int) -> None:
    """Report one of several workers."""
    sources, counts = ["queue bench"], {"bench": {"done": 1_234_567, "retry": 89}}
    me = WorkerIdentity(f"host:1:{number:04x}", "bench", "host", 1, "1.0", sources, 50)
    calls = [
        {"handler": "bench", "queue": "bench", "msg_id": 1_000_000 + n, "running_s": n / 1000}
        for n in range(running)
    ]
    runner.run(report_worker(me, 3600, calls, counts, None))


def samples(queues: int, messages: int, place: Place) -> float:
    """Return 1 / share of a core that samples of queues need."""
    calls = 30 if queues < 10 else 6
    with kept_database(place, queues, messages) as connection:
        take_samples(connection)  # reads the catalog
        spent_s = 0.0
        for number in range(calls):
            if number % 6 == 0:  # the summary of a minute is due
                connection.execute("truncate sluice.sample_3, sluice.sample_4, sluice.sample_5")
            before_s = backend_cpu_s(connection)
            take_samples(connection)
            spent_s += backend_cpu_s(connection) - before_s
    print(
        f"  take_samples, {queues} queues of {messages:,} messages: {spent_s / calls * 1000:.1f} ms of CPU time, "
        f"{100 * spent_s / calls / SAMPLE_S:.3f} % of a core"
    )
    return SAMPLE_S * calls / spent_s


@contextmanager
def kept_database(
    place: Place, queues: int, messages: int
) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Connect to a database with filled queues, which is created once."""
    name = f"bench_{queues}_{messages}"
    found = place.connection.execute("select from pg_database where datname = %s", [name])
    is_new = found.fetchone() is None
    if is_new:
        place.connection.execute(f"create database {name}")
    with psycopg.connect(place.server.url(name), autocommit=True) as connection:
        if is_new:
            Pgsluice().install(connection)
            create_queues(connection, queues, messages)
            connection.execute("vacuum analyze")
            place.connection.execute("checkpoint")
        yield connection


def create_queues(connection: psycopg.Connection[Any], queues: int, messages: int) -> None:
    """Create queues with messages."""
    for number in range(queues):
        connection.execute("select pgmq.create(%s)", [f"queue_{number}"])
        connection.execute(
            "select from pgmq.send_batch(%s, array(select to_jsonb(%s::text) from generate_series(1, %s)))",
            [f"queue_{number}", PAYLOAD, messages],
        )


def idle(place: Place) -> float:
    """Return minutes per statement that an idle worker sends because of the registry."""
    minutes = OPTIONS["cost_idle_seconds"] / 60
    with ExitStack() as stack:
        since = stack.enter_context(logged(place))
        for system in (QueueWorker(), Bare()):
            name = f"bench_{type(system).__name__.lower()}"
            stack.enter_context(new_database(place, system, name))
            url = place.server.url(name)
            stack.enter_context(system.beside(url))
            worker = Child("serve", system.name, url, messages=1, concurrency=10)
            stack.enter_context(worker).go()
        time.sleep(SILENT_S)  # they have started by now
        since()
        time.sleep(OPTIONS["cost_idle_seconds"])
        sent = [one for one in since() if one.application_name == "pgsluice app"]
    shipped = [one.text for one in sent if one.database == "bench_queueworker"]
    bare = [one.text for one in sent if one.database == "bench_bare"]
    own = [text for text in shipped if text not in bare]
    said = (
        f"idle worker: {len(shipped) / minutes:.1f} statements a minute, {len(own) / minutes:.1f} of these of the "
        f"registry; {len(bare) / minutes:.1f} without it"
    )
    print(f"  {said}")
    NOTES.append(said)
    # No statement at all counts as one.
    return minutes / max(len(own), 1)


def held(place: Place) -> float:
    """Report and sample under a held snapshot; return 1 / (1 + dead rows) of the tables of both."""
    calls, system = OPTIONS["cost_held_calls"], QueueWorker()
    with new_database(place, system) as connection:
        create_queues(connection, 3, 100)
        connection.execute("vacuum")
        runner = Runner(connection)
        with psycopg.connect(place.server.url(connection.info.dbname)) as holder:
            holder.execute("set transaction isolation level repeatable read")
            holder.execute("select 1")
            ((_, _, of_catalog_before),) = dead_rows(connection)
            for number in range(calls):
                report(
                    runner, number % 5, 10
                )  # few workers: their reports are truncated more often
                take_samples(connection)
            ((dead, size, of_catalog),) = dead_rows(connection)
    said = (
        f"{calls:,} reports and {calls:,} samples of four queues under a held snapshot: {dead} dead rows, "
        f"{size:,.0f} kB; {of_catalog - of_catalog_before} dead rows in the catalog, from truncation"
    )
    print(f"  {said}")
    NOTES.append(said)
    return 1 / (1 + dead)


def dead_rows(connection: psycopg.Connection[Any]) -> list[tuple[int, int, int]]:
    """Return dead rows, also removed ones, and kB of the tables of registry and samples; dead rows of the catalog."""
    connection.execute("select pg_stat_force_next_flush()")
    return connection.execute(
        """select sum(greatest(n_dead_tup, n_tup_upd + n_tup_del)) filter (where schemaname = 'sluice')::integer,
            sum(pg_total_relation_size(relid)) filter (where schemaname = 'sluice')::bigint / 1024,
            sum(n_dead_tup) filter (where schemaname = 'pg_catalog')::integer
        from pg_stat_all_tables
        where schemaname = 'sluice' and relname ~ '^(process|process_report|sample.*)$' or schemaname = 'pg_catalog'"""
    ).fetchall()


_SHARES: dict[str, Callable[[Place], float]] = {
    "report of an idle worker": partial(reports, 0),
    "report with 50 running calls": partial(reports, 50),
    "samples of 3 queues with 6,000 messages": partial(samples, 3, 6_000),
    "samples of 100 queues with 100 messages": partial(samples, 100, 100),
    "samples of 100 queues with 6,000 messages": partial(samples, 100, 6_000),
}
_WORKERS = {
    SHIPPED: QueueWorker,
    BARE: Bare,
    f"worker, {Reporting.name}": Reporting,
    f"worker, {Sampling.name}": Sampling,
    f"worker, {SwitchedOff.name}": SwitchedOff,
    f"worker, {Traced.name}": Traced,
}
CPU = ", CPU time"
IDLE, HELD = "idle worker, statements of the registry", "dead rows under a held snapshot"
QUESTIONS = (
    *(Question(name, partial(throughput, make)) for name, make in _WORKERS.items()),
    *(Question(name + CPU, partial(per_cpu, make)) for name, make in _WORKERS.items()),
    *(Question(f"{name}, 1 / share of a core", of) for name, of in _SHARES.items()),
    Question(IDLE, idle, is_once=True),
    Question(HELD, held, is_once=True),
)
GOALS = {
    SHIPPED: Goal(0.99, of=BARE, why_missed=NOISE),
    SHIPPED + CPU: Goal(0.99, of=BARE + CPU, why_missed=NOISE),
    f"worker, {SwitchedOff.name}{CPU}": Goal(0.99, of=SHIPPED + CPU, why_missed=NOISE),
    **{
        f"{name}, 1 / share of a core": Goal(
            100,
            of=None,
            unit="= 1 % of a core",
            why_missed=BUDGET if name.startswith("samples") else "",
        )
        for name in _SHARES
    },
    IDLE: Goal(1 / 2, of=None, unit="minutes per statement"),
    HELD: Goal(1, of=None, unit="= no dead row"),
}
