"""The page on capacity: its tables are computed from the newest result files."""

from __future__ import annotations

import pytest
from bench import capacity
from bench.workloads import constants, spark_size


def known(cpu_us: float = 100.0, wal_bytes: float = 1_000.0, disk_bytes: float = 500.0):
    """Return constants in which a payload of 1,000 bytes costs twice as much as one of 100."""
    results = []
    for question in constants.QUESTIONS:
        cost = {
            constants.CPU: cpu_us / 1e6,
            constants.WAL: wal_bytes / 1e6,
            constants.DISK: disk_bytes / 1e6,
            constants.WORKER_CPU: 40e-6,
            constants.SERVER_CPU: 150e-6,
        }[question.unit]
        times = 2 if question.size == 1_000 else 1
        results.append({"question": question.name, "median": {"pgsluice": 1 / (cost * times)}})
    rounds = [
        {"events": 10, "cpu_us_per_event": {"executors": 9.0, "driver": 3.0, "server": 2.0}},
        {"events": 30, "cpu_us_per_event": {"executors": 5.0, "driver": 3.0, "server": 2.0}},
    ]
    return capacity.Constants(
        {"results": results}, {"details": {spark_size.SOME: {"rounds": rounds}}}
    )


def value(rows, what: str) -> float:
    return next(row.value for row in rows if row.what == what)


def test_cost_is_linear_in_the_payload():
    cost = known().cost(capacity.SEND, 550)

    assert cost.cpu_us == pytest.approx(150)
    assert cost.wal_bytes == pytest.approx(1_500)
    assert cost.disk_bytes == pytest.approx(750)
    assert known().cost(capacity.DELETE, 100).disk_bytes == 0


def test_lake_cost_is_the_mean_of_the_rounds_by_events():
    assert known().lake_us(spark_size.EXECUTORS) == pytest.approx(6)


def test_queue_needs_rate_times_cost():
    rows = capacity.queue_rows(known(), rate=1_000, payload_bytes=100, keep_days=2)

    # The worker adds to the calls what its server used beyond them: 150 - 100.
    assert value(rows, "CPU of the server") == pytest.approx(1_000 * (100 + 50 + 100) / 1e6)
    assert value(rows, "CPU of workers") == pytest.approx(0.04)
    assert value(rows, "WAL") == pytest.approx(2)
    assert value(rows, "archive") == pytest.approx(1_000 * 86_400 * 2 * 500 / 1e12)


def test_queue_without_archive_has_no_archive():
    rows = capacity.queue_rows(known(), rate=1_000, payload_bytes=100, keep_days=0)

    assert "archive" not in [row.what for row in rows]


def test_log_is_divided_among_servers_and_its_executors_are_not():
    of_one, of_two = (
        capacity.log_rows(known(), bytes_per_day=8.64e9, payload_bytes=100, servers=servers)
        for servers in (1, 2)
    )

    assert value(of_one, "events") == pytest.approx(1_000)
    assert value(of_two, "WAL of each server") == pytest.approx(
        value(of_one, "WAL of each server") / 2
    )
    assert value(of_two, "CPU of Spark's executors") == value(of_one, "CPU of Spark's executors")


def test_first_limit_is_the_resource_that_is_used_most():
    rows = capacity.queue_rows(
        known(),
        rate=1_000,
        payload_bytes=100,
        server=capacity.Server(cores=16, wal_mb_s=4, disk_tb=2),
    )

    assert capacity.first_limit(rows).what == "WAL"


def test_tables_of_the_page_are_those_computed_from_the_newest_results():
    computed = capacity.tables(capacity.Constants.newest())
    shown = dict(capacity.parts(capacity.PAGE.read_text(encoding="utf-8")))

    assert shown.keys() == computed.keys()
    for name, table in computed.items():
        assert shown[name] == table, "write the page with: python -m bench.capacity"
