"""sluice.list_handler_times: percentiles of durations over all live workers."""

from __future__ import annotations

import bisect
import json
import math
import random

import psycopg
import pytest

from pgsluice.worker.engine.run.call_times import BOUNDS_S, CallTimes
from support import rows, value

REPORT = (
    "select sluice.report_worker(%s::text, %s::text, 'h', 1, '1', array['queue Orders'], 4, '1 s', '[]', '{}', null, '[]', "
    "%s::jsonb)"
)
LIST = (
    "select source, handler, workers, calls, round(p50_s::numeric, 4)::float8, round(p95_s::numeric, 4)::float8, max_s "
    "from sluice.list_handler_times(%s, %s)"
)


def report(
    connection: psycopg.Connection,
    durations: list[float],
    worker: str = "w",
    app: str = "shop",
    source: str = "queue Orders",
    handler: str = "pack",
) -> None:
    """Report the calls of a handler."""
    times = CallTimes()
    for seconds in durations:
        times.add(seconds, 1, 0.0)
    reported = {
        "source": source,
        "handler": handler,
        "max_s": max(durations),
        "buckets": times.recent(0.0).buckets,
    }
    connection.execute(REPORT, (worker, app, json.dumps([reported])))


def test_percentiles_are_interpolated_in_the_sum_of_the_buckets(connection: psycopg.Connection):
    report(connection, [0.04] * 10, "a")
    report(connection, [0.04] * 30 + [0.08] * 59 + [0.4], "b")

    # The 50th of 100 calls is the 10th of 59 between 0.05 and 0.1 s, the 95th the 55th.
    assert rows(connection, LIST, None, None) == [
        ("queue Orders", "pack", 2, 100, 0.0585, 0.0966, 0.4)
    ]


def test_no_percentile_exceeds_the_longest_call(connection: psycopg.Connection):
    report(connection, [400.0, 400.0])

    assert rows(connection, LIST, None, None) == [
        ("queue Orders", "pack", 1, 2, 350.0, 395.0, 400.0)
    ]


def test_calls_are_listed_by_source_in_any_case_and_by_worker(connection: psycopg.Connection):
    report(connection, [0.2], "a")
    report(connection, [0.3, 0.3], "b")
    report(connection, [4.0], "c", source="log L group G")

    assert [row[3] for row in rows(connection, LIST, "queue orders", None)] == [3]
    assert [row[3] for row in rows(connection, LIST, None, "b")] == [2]
    assert [row[0] for row in rows(connection, LIST, "log L group G", None)] == ["log L group G"]
    assert rows(connection, LIST, "log l group g", None) == []
    assert rows(connection, LIST, "queue other", None) == []


def test_handlers_of_one_name_in_two_apps_are_listed_separately(connection: psycopg.Connection):
    report(connection, [0.2], "a", app="shop")
    report(connection, [0.2], "b", app="store")

    assert rows(connection, "select app, calls from sluice.list_handler_times(null, null)") == [
        ("shop", 1),
        ("store", 1),
    ]


def test_calls_of_a_silent_worker_are_not_counted(connection: psycopg.Connection):
    report(connection, [0.2], "a")
    report(connection, [0.3], "b")
    connection.execute(
        "update sluice.process_report set reported_at = now() - interval '2 min' where process_id = 'b'"
    )

    assert [row[3] for row in rows(connection, LIST, None, None)] == [1]


def test_newest_report_replaces_the_last_one(connection: psycopg.Connection):
    report(connection, [0.2])
    connection.execute(REPORT, ("w", "shop", "[]"))

    assert rows(connection, LIST, None, None) == []


def test_times_are_kept_when_reports_are_truncated(connection: psycopg.Connection):
    report(connection, [0.2])
    connection.execute(REPORT, ("ended", "shop", "[]"))
    connection.execute("select sluice.end_worker('ended')")
    assert value(connection, "select done from sluice._maintain_processes('0')") is True

    assert [row[3] for row in rows(connection, LIST, None, None)] == [1]


def test_percentiles_are_in_the_bucket_of_those_of_the_durations(
    connection: psycopg.Connection, seed: int
):
    """A model: the durations themselves, in order."""
    draw = random.Random(seed)
    for number in range(20):
        # From a call to thousands, of one scale or of several, by one worker or three.
        spread = draw.choice([0.2, 1.0, 3.0])
        durations = [
            min(draw.lognormvariate(math.log(0.05), spread), 600)
            for _ in range(draw.choice([1, 2, 5, 40, 3000]))
        ]
        app, count = f"app {number}", draw.choice([1, 3])
        parts = [durations[start::count] for start in range(count)]
        for worker, part in enumerate(parts):
            if part:
                report(connection, part, f"{app} {worker}", app)
        ((calls, *found),) = rows(
            connection,
            "select calls, p50_s, p95_s, max_s from sluice.list_handler_times(null, null) where app = %s",
            app,
        )
        durations.sort()
        expected = [durations[math.ceil(fraction * len(durations)) - 1] for fraction in (0.5, 0.95)]

        assert calls == len(durations)
        assert found[-1] == max(durations)
        for exact_s, found_s in zip(expected, found, strict=False):
            bucket = bisect.bisect_left(BOUNDS_S, exact_s)
            low_s = (0.0, *BOUNDS_S)[bucket]
            high_s = min((*BOUNDS_S, math.inf)[bucket], max(durations))
            assert low_s <= found_s <= high_s + 1e-9, (durations[:50], exact_s)


@pytest.mark.parametrize("member_of", ["sluice_monitor", "sluice_reader", "pgq_admin"])
def test_readers_and_monitors_list_times(connection: psycopg.Connection, as_member, member_of):
    report(connection, [0.2])

    query = "select calls from sluice.list_handler_times(null::text, null::text)"
    assert as_member(member_of, query) == [(1,)]
