"""Limits that handlers declare: stored when a worker starts, compared with those of an operator, in order of keys under retry."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.worker import App
from pgsluice.worker.worker import Worker
from support import rows


def stored(observer, queue_name):
    """What is stored for a queue: (fleet_concurrency, key_concurrency, rate, seconds of it, when_waiting), or None."""
    found = rows(
        observer,
        "select fleet_concurrency, key_concurrency, rate, extract(epoch from rate_interval)::integer, when_waiting "
        "from sluice.queue_limits where queue_name = %s",
        queue_name,
    )
    return found[0] if found else None


async def started(url, queue_name, *, name="tested", **limits):
    """Start and end a worker with one handler that declares these limits."""
    app = App(url, name="tests")

    @app.handler(queue_name, name=name, **limits)
    async def handle(_payload):
        pass

    await Worker(app).run_until_empty(idle_s=0)


def warnings(caplog):
    return [
        line
        for each in caplog.records
        if each.levelno >= logging.WARNING and "limits" in (line := each.getMessage())
    ]


async def test_declared_limits_that_change_replace_those_declared_before(
    worker_url, observer, queue_name
):
    for limits, wanted in (
        ({"fleet_concurrency": 5}, (5, None, None, None, None)),
        ({"fleet_concurrency": 1}, (1, None, None, None, None)),
        ({"rate": 7, "rate_s": 60}, (None, None, 7, 60, None)),
        ({"key_concurrency": 2}, (None, 2, None, None, None)),
        ({}, None),
    ):
        await started(worker_url, queue_name, **limits)

        assert stored(observer, queue_name) == wanted


async def test_limits_of_an_operator_stay_and_the_difference_is_logged(
    worker_url, observer, queue_name, caplog
):
    WorkQueue(observer).set_queue_limits(queue_name, fleet_concurrency=3)

    await started(worker_url, queue_name)
    await started(worker_url, queue_name, fleet_concurrency=3)

    assert warnings(caplog) == []

    await started(worker_url, queue_name, fleet_concurrency=5, rate=2)

    assert stored(observer, queue_name) == (3, None, None, None, None)
    (line,) = warnings(caplog)
    assert "fleet_concurrency=5 rate=2/1s" in line
    assert "fleet_concurrency=3" in line
    assert "an operator" in line
    assert f"pgsluice queue limits drop {queue_name}" in line


async def test_a_change_of_declared_limits_is_logged_with_both_values(
    worker_url, observer, queue_name, caplog
):
    await started(worker_url, queue_name, name="old", fleet_concurrency=5)
    await started(worker_url, queue_name, name="new", fleet_concurrency=1)

    (line,) = warnings(caplog)
    assert "fleet_concurrency=5" in line
    assert "test_queue_limits.old" in line
    assert "fleet_concurrency=1" in line
    (limits,) = [
        each for each in WorkQueue(observer).list_queue_limits() if each.queue_name == queue_name
    ]
    assert (limits.fleet_concurrency, limits.declared_by) == (1, f"{__name__}.new")


@pytest.mark.parametrize(
    ("declared", "before"),
    [({"fleet_concurrency": 5}, None), ({"fleet_concurrency": 5}, 2), ({}, 2)],
    ids=["nothing-stored", "other-limits-stored", "none-declared"],
)
async def test_a_worker_that_may_not_declare_limits_logs_what_is_declared_and_what_is_stored(
    worker_url, observer, queue_name, member, caplog, declared, before
):
    if before is not None:
        await started(worker_url, queue_name, fleet_concurrency=before)
        caplog.clear()

    await started(member("sluice_reader"), queue_name, **declared)

    (line,) = warnings(caplog)
    assert ("fleet_concurrency=5" if declared else "declared: none") in line
    assert ("fleet_concurrency=2" if before else "stored: none") in line
    assert "sluice_admin" in line
    assert stored(observer, queue_name) == (
        None if before is None else (before, None, None, None, None)
    )


async def test_processes_that_start_at_once_with_other_limits_end_with_those_of_one(
    worker_url, observer, queue_name, caplog
):
    WorkQueue(observer).send_batch(queue_name, list(range(40)))
    versions = [{"fleet_concurrency": 5, "key_concurrency": 2}, {"rate": 1_000}, {}] * 2

    async with asyncio.timeout(60):
        await asyncio.gather(*(started(worker_url, queue_name, **limits) for limits in versions))

    assert stored(observer, queue_name) in {
        (5, 2, None, None, None),
        (None, None, 1_000, 1, None),
        None,
    }
    assert not [each for each in caplog.messages if "deadlock" in each]


@pytest.fixture
def member(worker_url, observer):
    """Make the URL of a login role that is a member of a role; the role is dropped at the end."""
    names = []

    def make(member_of):
        name = f"limits_{member_of}_{len(names)}"
        observer.execute(f"create role {name} login password 'x' in role {member_of}")
        names.append(name)
        return psycopg.conninfo.make_conninfo(worker_url, user=name, password="x")

    yield make
    for name in names:
        observer.execute(f"drop role {name}")
