"""Time of each page of the dashboard over large tables, and what 50 open tabs cost the database."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from starlette.testclient import TestClient

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from pgsluice.client import EventLog, Schedules, ShareGroup, WorkQueue
from pgsluice.dashboard import app
from pgsluice.dashboard.pages import ROUTES

TITLE = (
    "Pages of the dashboard over 1,000 queues, one of them with 10,000,000 messages and as many archived ones, each "
    "read anew: inverse p95 of the time to answer; and the statements of one open tab to those of 50"
)
UNIT = "1 / p95 in seconds; for tabs, a ratio"
SYSTEMS = [Pgsluice()]
REPEATS = 3
OPTIONS = {
    "dashboard_queues": 1_000,
    "dashboard_messages": 10_000_000,
    "dashboard_events": 1_000_000,
}
NOTES: list[str] = []
LARGE, LOG, GROUP, CONSUMER, SCHEDULE = "queue_0", "log", "group", "consumer", "nightly"
CALLS = 40
TABS, TABS_S = 50, 10.0
ALL_TABS = f"{TABS} open tabs"

# The arguments of the pages that need some.
QUERIES: dict[str, dict[str, Any]] = {
    "queue": {"name": LARGE},
    "messages": {"queue": LARGE},
    "message": {"queue": LARGE, "msg_id": 5_000},
    "message_payload": {"queue": LARGE, "msg_id": 5_000},
    "dead_letters": {"queue": LARGE},
    "log": {"name": LOG},
    "events": {"log": LOG},
    "event": {"log": LOG, "ev_id": 5_000},
    "consumer": {"log": LOG, "consumer": CONSUMER},
    "group": {"log": LOG, "group": GROUP},
    "schedule": {"name": SCHEDULE},
}
# Pages that show nothing without an action, a download or a pipeline.
LEFT_OUT = {"act", "job", "pipeline", "dead_letters_export"}
PAGES = tuple(
    route.name
    for route in ROUTES
    if route.name not in LEFT_OUT and "GET" in (route.methods or ()) and "." not in route.name
)


@dataclass(frozen=True)
class Question:
    """A page, or the tabs.

    Attributes:
        name: Label in the results table.
        page: Name of its route; empty for the tabs.
    """

    name: str
    page: str


QUESTIONS = (*(Question(f"page {name}", name) for name in PAGES), Question(ALL_TABS, ""))
GOALS = {
    **{f"page {name}": Goal(1 / 0.150, of=None) for name in PAGES},
    ALL_TABS: Goal(0.9, of=None, unit="of the statements of one tab"),
}
WARM_UP = False  # the data take minutes; they are made by the first question
_made: set[str] = set()


def measure(place: Place, question: Question) -> float:
    """Measure one page, or the tabs."""
    if place.name not in _made:
        make(place.connection)
        _made.add(place.name)
    if not question.page:
        return tabs(place)
    times = []
    with opened(place, refresh_s=0.0) as client:
        path = client.app.url_path_for(question.page)  # type: ignore[attr-defined]
        for _ in range(CALLS):
            begin = time.perf_counter()
            answer = client.get(path, params=QUERIES.get(question.page))
            times.append(time.perf_counter() - begin)
            assert answer.status_code == 200, answer.text
    p95_s = statistics.quantiles(times, n=20)[-1]
    print(
        f"  {question.name}: p50 {statistics.median(times) * 1000:.0f} ms, p95 {p95_s * 1000:.0f} ms"
    )
    return 1 / p95_s


def make(connection: psycopg.Connection[Any]) -> None:
    """Fill the queues, the log, and an hour of samples."""
    work, logs = WorkQueue(connection), EventLog(connection)
    count = OPTIONS["dashboard_messages"]
    for number in range(OPTIONS["dashboard_queues"]):
        work.create(f"queue_{number}")
    connection.execute(
        "insert into pgmq.q_queue_0 (vt, message, headers) select clock_timestamp(), jsonb_build_object('id', n), "
        "jsonb_build_object('x-pgmq-group', mod(n, 1000)) from generate_series(1, %s::bigint) as n",
        [count],
    )
    connection.execute(
        "insert into pgmq.a_queue_0 (msg_id, read_ct, enqueued_at, vt, message) "
        "select n, 1, now(), now(), jsonb_build_object('id', n) from generate_series(%s + 1, 2 * %s::bigint) as n",
        [count, count],
    )
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason, error) "
        "select 'queue_0', n, 5, now(), '{}', 'failed', 'timeout of request ' || n "
        "from generate_series(1, 100000) as n"
    )
    logs.create(LOG)
    logs.register_consumer(LOG, CONSUMER)
    ShareGroup(connection, LOG, GROUP).create()
    connection.execute(
        "select count(pgq.insert_event(%s, 'type', n::text)) from generate_series(1, %s::bigint) as n",
        [LOG, OPTIONS["dashboard_events"]],
    )
    logs.force_tick(LOG)
    logs.ticker(LOG)
    Schedules(connection).schedule(SCHEDULE, LARGE, {}, cron="0 3 * * *")
    connection.execute("vacuum analyze")
    connection.execute(
        "select sluice._store_samples(array("
        "select row('queue', 'queue_' || q, '', s, s, 0, 0, 0, s * 9, s * 8, 0, null, null, null, null)"
        "::sluice.sample_figures from generate_series(0, %(queues)s::integer - 1) as q) "
        "|| row('queues', '', '', s * %(queues)s, s * %(queues)s, 0, 0, 0, s * 9 * %(queues)s, s * 8 * %(queues)s, "
        "0, null, null, null, null)::sluice.sample_figures, 0, now() - (360 - s) * interval '10 s') "
        "from generate_series(1, 360) as s",
        {"queues": OPTIONS["dashboard_queues"]},
    )
    connection.execute("checkpoint")


@contextlib.contextmanager
def opened(place: Place, refresh_s: float) -> Iterator[TestClient]:
    """Open a dashboard over the database, in this process."""
    dashboard = app(
        place.server.url(place.connection.info.dbname), refresh_s=refresh_s, timeout_s=5
    )
    with TestClient(dashboard, base_url="http://localhost", client=("127.0.0.1", 50_000)) as client:
        yield client


def tabs(place: Place) -> float:
    """Return the transactions of a dashboard with one tab, divided by those with 50 tabs."""
    counts = [transactions(place, number) for number in (1, TABS)]
    note = f"{ALL_TABS}: {counts[1]} transactions in {TABS_S:g} s, one tab: {counts[0]}"
    NOTES.append(note)
    print(f"  {note}")
    return counts[0] / counts[1]


def transactions(place: Place, number: int) -> int:
    """Return the transactions of the database while tabs show the overview, refreshed once per second."""

    def count() -> int:
        place.connection.execute("select pg_stat_force_next_flush()")
        row = place.connection.execute(
            "select xact_commit from pg_stat_database where datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])

    with opened(place, refresh_s=1.0) as client:
        client.get("/")
        before, end_s = count(), time.monotonic() + TABS_S

        def look() -> None:
            while time.monotonic() < end_s:
                time.sleep(1.0 - time.monotonic() % 1.0)  # the server's event comes at full seconds
                client.get("/")

        threads = [threading.Thread(target=look) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return count() - before
