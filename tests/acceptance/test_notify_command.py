"""`pgsluice notify` as a process: wake-ups, failover when it is killed, and shutdown."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time

import pytest

from pgsluice import Listener, ListenerState, WorkQueue
from support import value, wait_until

HEARTBEAT_S = 0.5


@contextlib.contextmanager
def notifying(url):
    process = subprocess.Popen(
        [sys.executable, "-c", "from pgsluice.cli.main import main; main()", "notify",
         "--heartbeat-interval", str(HEARTBEAT_S), "--dsn", url],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def notifier_is_at_work(connection):
    age_s = value(
        connection,
        "select extract(epoch from clock_timestamp() - called_at)::float8 from sluice.leader('notifier')",
    )
    return age_s is not None and age_s < 1


@pytest.mark.slow
def test_listeners_are_woken_although_one_of_two_notifiers_is_killed(database_18):
    with (
        database_18.connect() as connection,
        notifying(database_18.url) as first,
        contextlib.ExitStack() as stack,
    ):
        WorkQueue(connection).create("orders")
        wait_until(lambda: notifier_is_at_work(connection), "the first notifier to lead")
        stack.enter_context(notifying(database_18.url))
        listener = stack.enter_context(
            Listener(database_18.url, heartbeat_s=HEARTBEAT_S, fallback_poll_s=600)
        )
        subscription = stack.enter_context(listener.subscribe("orders"))

        for killed in (False, True):
            if killed:
                first.kill()
                first.wait()
            WorkQueue(connection).send("orders", killed)
            began = time.monotonic()
            while not (messages := WorkQueue(connection).read("orders", 600)):
                assert subscription.wait(600)
            assert [message.message for message in messages] == [killed]
            assert time.monotonic() - began < 30
        wait_until(lambda: listener.state is ListenerState.LISTENING, "the second to lead")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_notify_stops_silently_on_a_signal(database_18, number):
    with database_18.connect() as connection, notifying(database_18.url) as process:
        wait_until(lambda: notifier_is_at_work(connection), "the notifier to lead")

        process.send_signal(number)
        output, _ = process.communicate(timeout=10)

    assert (process.returncode, output) == (0, "")


@pytest.mark.slow
def test_a_database_without_the_schema_is_said_to_have_none(server_18):
    with notifying(server_18.url("template1")) as process:
        output, _ = process.communicate(timeout=30)

    assert process.returncode == 3
    assert "pgsluice schema install" in output
