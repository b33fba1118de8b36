"""Checks of worker processes and paused queues: each cause is made, reported, and corrected."""

from __future__ import annotations

import sys

import pytest

from pgsluice import WorkQueue
from support import value, wait_until
from support.doctor import QUIET, seen
from support.processes import kill, running

WORKER = """
from pgsluice.worker import App
app = App(name="shop")
@app.handler("orders")
def handle(message: dict) -> None:
    pass
"""


def test_paused_queue_with_messages_is_reported_until_it_is_resumed(doctor, connection):
    connection.execute("select pgmq.create('orders')")
    WorkQueue(connection).set_queue_options(
        "orders", paused=True, pause_reason="the bank is closed"
    )
    assert seen(doctor.finding("paused_queues")) == QUIET
    connection.execute("select pgmq.send('orders', '{}')")
    assert seen(doctor.finding("undrained_queues", undrained_s=0)) == QUIET

    found = doctor.finding("paused_queues")

    assert found.status == "warn"
    assert "queue 'orders' has been paused since" in found.what
    assert ": the bank is closed, and messages wait" in found.what
    doctor.run(found)
    assert seen(doctor.finding("paused_queues")) == QUIET
    assert doctor.finding("undrained_queues", undrained_s=0).status == "warn"


@pytest.mark.slow
def test_killed_worker_is_reported_until_another_runs(doctor, connection, database_18, tmp_path):
    connection.execute("select pgmq.create('orders')")
    (tmp_path / "shop.py").write_text(WORKER)
    command = [sys.executable, "-m", "pgsluice", "worker", "run", "shop:app"]
    # Before a worker reports its session, its end is noticed after 90 seconds.
    live = "select count(*) from sluice.list_workers() where is_live and has_session"
    with running(command, tmp_path, PGSLUICE_DSN=database_18.url) as process:
        wait_until(lambda: value(connection, live) == 1, "the worker to register")
        assert seen(doctor.finding("silent_workers")) == QUIET
        kill(process)
    wait_until(lambda: doctor.finding("silent_workers").status == "warn", "its session to end")
    found = doctor.finding("silent_workers")
    assert "queue orders: its last worker, app 'shop' on host" in found.what
    assert found.commands == ("pgsluice worker run MODULE:APP --queues orders",)

    arguments = found.commands[0].replace("MODULE:APP", "shop:app").split()[1:]
    with running([*command[:3], *arguments], tmp_path, PGSLUICE_DSN=database_18.url):
        wait_until(lambda: value(connection, live) == 1, "the worker to register")
        assert seen(doctor.finding("silent_workers")) == QUIET
