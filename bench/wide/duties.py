"""Steps that run in every database: notifier, maintenance, samples, doctor, dashboard, metrics and status."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from click.testing import CliRunner
from psycopg_pool import ConnectionPool
from starlette.testclient import TestClient

from bench.wide.costs import IDLE, Call, Site, Step
from pgsluice.cli.status import status
from pgsluice.connection import resolve
from pgsluice.dashboard import app
from pgsluice.ops.doctor import Thresholds, diagnose
from pgsluice.ops.metrics.collector import DatabaseCollector
from pgsluice.worker import Maintainer, Maintenance, Notifier, Ticker

TASKS = (
    "_maintain_schedules(10000)",
    "_maintain_retention(10000)",
    "_maintain_keys(10000)",
    "_maintain_attempts(5000)",
    "_maintain_successors(1000)",
    "_maintain_limits(10000)",
    "_maintain_sinks('1 day'::interval)",
    "_maintain_processes('1 hour'::interval)",
    "_maintain_actions(1000)",
    "_maintain_indexes(268435456)",
    "_maintain_captures()",
    "_maintain_partitions()",
)
DOCTOR_S = 2.0  # the budget of a check
LIMIT_S = 120.0


@contextmanager
def session(site: Site) -> Iterator[psycopg.Connection[Any]]:
    """Open a session of a step."""
    with psycopg.connect(site.url, autocommit=True) as connection:
        yield connection


@contextmanager
def pool(site: Site) -> Iterator[ConnectionPool[Any]]:
    """Open a pool with a session, as for a duty."""
    options = {"autocommit": True, "prepare_threshold": None}
    with ConnectionPool[Any](site.url, min_size=1, max_size=1, open=True, kwargs=options) as opened:
        opened.wait()
        yield opened


def statement(
    name: str,
    query: str,
    *,
    unit: str = "call",
    growth: float = 1.0,
    calls: int = 3,
    is_read: bool = False,
) -> Step:
    """Return a step that runs a statement."""

    @contextmanager
    def opened(site: Site) -> Iterator[Call]:
        with session(site) as connection:
            yield lambda: void(connection.execute(query).fetchall())

    return Step(name, unit, opened, growth, calls, is_read=is_read)


def void(_result: object) -> None:
    """Ignore a result: the call is one unit."""


@contextmanager
def notifier(site: Site) -> Iterator[Call]:
    """Run rounds of a notifier, in which each queue is polled that is due."""
    with pool(site) as opened:
        one = Notifier(opened)
        yield lambda: void(one.run_once())
        over = threading.Event()
        over.set()
        one.run(over)  # resigns, so that the next one need not wait


@contextmanager
def ticker(site: Site) -> Iterator[Call]:
    """Run passes of a ticker."""
    with pool(site) as opened:
        one = Ticker(opened)
        one.run_once()
        yield lambda: void(one.run_once())


@contextmanager
def maintenance(site: Site) -> Iterator[Call]:
    """Run full rounds of maintenance."""
    with pool(site) as opened:
        one = Maintenance(opened)

        def call() -> None:
            for step in one.run_once():
                site.note(f"maintenance: {step.task} {step.queue_name}: {step.detail}")

        yield call


def idle(seconds: float) -> Step:
    """Return the step of an idle minute of `pgsluice maintain`, measured for some seconds."""

    @contextmanager
    def opened(site: Site) -> Iterator[Call]:
        with Maintainer(site.url).in_background(join_s=10):
            yield lambda: void(
                time.sleep(seconds)
            )  # the first call is for the first rounds, which poll every queue

    return Step(IDLE, "idle minute", opened, calls=1, is_counted=False, seconds=seconds)


@contextmanager
def samples(site: Site) -> Iterator[Call]:
    """Take samples of all queues and logs, in as many calls as that takes."""
    with session(site) as connection:

        def call() -> None:
            row = connection.execute(
                "select (select count(*) from pgmq.meta) + (select count(*) from pgq.subscriber)"
            ).fetchone()
            left = row[0] if row else 0
            while left > 0:
                # As if the last ones were taken long ago.
                connection.execute("select setval('sluice.sample_turn', 1)")
                row = connection.execute("select sluice.take_samples('1 hour')").fetchone()
                left -= row[0] if row else 0

        yield call


@contextmanager
def doctor(site: Site) -> Iterator[Call]:
    """Run all checks, without their limit of time, and of all logs, as if all had ticked long ago."""
    with session(site) as connection:

        def call() -> None:
            began_s = time.monotonic()
            for finding in diagnose(connection, thresholds=Thresholds(tick_s=0), budget_s=LIMIT_S):
                took_s, began_s = time.monotonic() - began_s, time.monotonic()
                if took_s > DOCTOR_S:
                    site.note(
                        f"doctor: {finding.check} takes {took_s:.1f} s, its limit is {DOCTOR_S:g} s"
                    )
                if finding.status == "unknown":
                    site.note(f"doctor: {finding.check}: {finding.what}")

        yield call


@contextmanager
def metrics(site: Site) -> Iterator[Call]:
    """Collect the metrics."""
    collector = DatabaseCollector(resolve(site.url), cache_s=0, timeout_s=LIMIT_S)

    def call() -> None:
        for family in collector.collect():
            for sample in family.samples:
                if sample.name == "pgsluice_read_errors" and sample.value:
                    site.note(f"metrics: part {sample.labels} is not read")

    yield call


@contextmanager
def state(site: Site) -> Iterator[Call]:
    """Run `pgsluice status`."""

    def call() -> None:
        answer = CliRunner().invoke(status, ["--dsn", site.url])
        if answer.exit_code != 0:
            site.note(f"status: {answer.output[-300:]}")

    yield call


def page(path: str, growth: float = 1.0, **query: Any) -> Step:
    """Return the step that shows a page of the dashboard, read anew; other threads read for it too."""

    @contextmanager
    def opened(site: Site) -> Iterator[Call]:
        dashboard = app(site.url, refresh_s=0.0, timeout_s=LIMIT_S)
        with TestClient(
            dashboard, base_url="http://localhost", client=("127.0.0.1", 50_000)
        ) as client:

            def call() -> None:
                dashboard.state.dashboard.database.forget()
                answer = client.get(path, params=query)
                if answer.status_code != 200 or "not read within" in answer.text:
                    site.note(f"dashboard: {path} {query}: {answer.status_code}")

            yield call

    return Step(
        " ".join((f"dashboard {path}", *query.values())),
        "call",
        opened,
        growth,
        is_counted=False,
        is_read=True,
    )


def opened_by(name: str, opened: Any, **options: Any) -> Step:
    """Return a step of a call."""
    return Step(name, "call", opened, **options)


DUTIES = (
    opened_by("notifier, a round", notifier),
    statement("notifier, its list of queues", "select * from sluice.notifier_queues()"),
    opened_by("ticker, a pass", ticker),
    opened_by("maintenance, a round", maintenance, is_counted=False),  # of what is due
    *(
        statement(f"sluice.{task.partition('(')[0]}", f"select * from sluice.{task}")
        for task in TASKS
    ),
    opened_by("samples, all", samples, calls=1, is_counted=False),  # of what is due
    opened_by("doctor", doctor, calls=1, is_read=True),
    opened_by("metrics", metrics, is_read=True),
    opened_by("status", state, is_read=True),
    page("/"),
)
