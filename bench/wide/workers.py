"""Many workers behind PgBouncer in transaction mode, and many in the registry."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from bench.pooler import pooled
from bench.wide.costs import Call, Dimension, Site, Step
from bench.wide.duties import DUTIES, page, session, statement
from pgsluice.worker import Maintainer

SESSIONS = 50
CLIENTS = 10_000
PROCESS = 125  # workers of a process
QUEUES = 10
MESSAGES = 20  # of each worker
TRAFFIC_S = 300.0


@dataclass(frozen=True)
class Counts:
    """Work of the workers since their start.

    Attributes:
        handled: Messages handled.
        cpu_s: CPU time of their processes.
        problems: Warnings and errors logged.
    """

    handled: int
    cpu_s: float
    problems: int


class Fleet:
    """Workers in some processes."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        """Take processes of `worker_child`."""
        self._processes = processes

    def counts(self) -> Counts:
        """Return their sums."""
        answers = []
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in self._processes:
            assert process.stdout is not None
            answers.append(json.loads(process.stdout.readline()))
        return Counts(*map(sum, zip(*answers, strict=True)))


def make_workers(site: Site, size: int) -> None:
    """Register workers, and create queues."""
    site.execute(
        "select count(pgmq.create('queue_' || n)) from generate_series(0, %s::integer) as n",
        [QUEUES - 1],
    )
    site.execute(
        """
        select count(sluice.report_worker(
            'host:' || n || ':0', 'wide', 'host', n, '1', array['queue queue_' || n %% %s], 1, '1 minute', '[]',
            '{"handle": {"done": 100}}', null, '[]',
            '[{"source": "queue queue_0", "handler": "handle", "max_s": 0.2, "buckets": [[0, 0.2, 99]]}]',
            '[]'
        ))
        from generate_series(1, %s::integer) as n
        """,
        [QUEUES, size],
    )
    site.execute("vacuum analyze")
    site.execute("checkpoint")


@contextmanager
def fleet(site: Site) -> Iterator[Fleet]:
    """Run as many workers as are registered, behind a pooler, and maintenance."""
    row = site.execute("select count(*) from sluice.process where host = 'host'").fetchone()
    left = row[0] if row else 0
    with ExitStack() as stack:
        url = stack.enter_context(
            pooled(
                site.url,
                site.server.data.parent,
                default_pool_size=SESSIONS,
                max_client_conn=CLIENTS,
                query_wait_timeout=120,
            )
        )
        stack.enter_context(Maintainer(site.url).in_background(join_s=10))
        processes = []
        while left > 0:
            number = min(left, PROCESS)
            left -= number
            command = [
                sys.executable,
                "-m",
                "bench.wide.worker_child",
                url,
                str(number),
                str(QUEUES),
            ]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.callback(process.wait)
            assert process.stdin is not None
            stack.callback(process.stdin.close)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("the workers have not started")
        yield Fleet(processes)


def noted(site: Site, what: str, before: Counts, after: Counts, seconds: float) -> None:
    """Note what the processes of the workers cost themselves."""
    site.note(
        f"{what}: {after.handled - before.handled:,} messages in {seconds:.1f} s, CPU time of the processes "
        f"{after.cpu_s - before.cpu_s:.1f} s, warnings and errors {after.problems - before.problems} "
        f"(at the start {before.problems})"
    )


def traffic() -> Step:
    """Return the step of messages that all workers handle."""

    @contextmanager
    def opened(site: Site) -> Iterator[Call]:
        row = site.execute("select count(*) from sluice.process where host = 'host'").fetchone()
        workers = row[0] if row else 0
        queues = min(workers, QUEUES)  # with a worker
        each = MESSAGES * workers // queues
        with fleet(site) as running, session(site) as connection:

            def call() -> int:
                before, began_s = running.counts(), time.monotonic()
                for number in range(queues):
                    connection.execute(
                        "select pgmq.send_batch(%s, array_fill('{}'::jsonb, array[%s::integer]))",
                        [f"queue_{number}", each],
                    )
                wanted = each * queues
                while (after := running.counts()).handled - before.handled < wanted:
                    if time.monotonic() > began_s + TRAFFIC_S:
                        raise TimeoutError(
                            f"{after.handled - before.handled} of {wanted} messages were handled"
                        )
                    time.sleep(0.05)
                noted(site, f"{workers:,} workers", before, after, time.monotonic() - began_s)
                return wanted

            yield call

    return Step(
        "workers behind PgBouncer, traffic",
        "message",
        opened,
        growth=0.0,
        calls=1,
        is_counted=False,
    )


def idle_workers(seconds: float) -> Step:
    """Return the step of an idle minute of all workers, measured for some seconds."""

    @contextmanager
    def opened(site: Site) -> Iterator[Call]:
        row = site.execute("select count(*) from sluice.process where host = 'host'").fetchone()
        with fleet(site) as running:

            def call() -> int:
                before, began_s = running.counts(), time.monotonic()
                time.sleep(seconds)
                noted(
                    site,
                    f"{row} idle workers",
                    before,
                    running.counts(),
                    time.monotonic() - began_s,
                )
                return 1

            yield call

    return Step(
        "workers behind PgBouncer, idle",
        "idle minute",
        opened,
        calls=1,
        is_counted=False,
        seconds=seconds,
    )


WORKERS = Dimension(
    "workers",
    ("workers_small", "workers_middle", "workers_large"),
    make_workers,
    (
        statement(
            "a worker's report",
            "select sluice.report_worker('host:1:0', 'wide', 'host', 1, '1', '{queue queue_1}', 1, '1 minute')",
            growth=0.0,
            calls=20,
        ),
        statement("sluice.list_workers()", "select * from sluice.list_workers()"),
        statement("sluice.list_handler_times()", "select * from sluice.list_handler_times()"),
        *DUTIES,
        page("/workers"),
    ),
)
