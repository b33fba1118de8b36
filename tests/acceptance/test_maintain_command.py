"""`pgsluice maintain` as a process: ticks, log maintenance, failover and shutdown."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time

import psycopg
import pytest

from pgsluice import EventLog, Listener, ListenerState, WorkQueue, schema
from pgsluice.embedded import EmbeddedServer
from support import rows, value, wait_until
from support.servers import FAST

PGSLUICE = [sys.executable, "-c", "from pgsluice.cli.main import main; main()"]


@contextlib.contextmanager
def maintaining(url, *options):
    process = subprocess.Popen(
        [*PGSLUICE, "maintain", "--interval", "100ms", *options, "--dsn", url],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def once(url, *options, code=0):
    done = subprocess.run(
        [*PGSLUICE, "maintain", "--once", *options, "--dsn", url],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def log(database_18):
    with database_18.connect() as connection:
        log = EventLog(connection)
        log.create("changes")
        log.register_consumer("changes", "c")
        yield log


def name_extra(connection):
    """Register a maintenance function for the log."""
    connection.execute("create table extra (log text)")
    connection.execute(
        "create function note(log text) returns void language sql as 'insert into extra values (log)'"
    )
    connection.execute("update pgq.queue set queue_extra_maint = '{note}'")


def delivered(log):
    batch_id = log.next_batch("changes", "c")
    if batch_id is None:
        return None
    data = [event.ev_data for event in log.get_batch_events(batch_id)]
    log.batch_retry(batch_id, 0)
    log.finish_batch(batch_id)
    return data


@pytest.mark.slow
def test_ticks_retries_and_rotation_continue_when_one_of_two_maintainers_is_killed(
    database_18, log
):
    log.set_queue_config("changes", "rotation_period", "0")
    with maintaining(database_18.url) as first, maintaining(database_18.url):
        for data in ("before", "after"):
            log.insert_event("changes", "t", data)
            for _ in range(2):  # the second delivery is a retry
                wait_until(
                    lambda data=data: data in (delivered(log) or []), f"{data!r} to be delivered"
                )
            segment = log.get_queue_info("changes")[0].queue_cur_table
            wait_until(
                lambda segment=segment: log.get_queue_info("changes")[0].queue_cur_table != segment,
                "a rotation",
            )
            first.kill()
            first.wait()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_maintain_logs_its_work_and_stops_on_a_signal(database_18, log, number):
    log.set_queue_config("changes", "rotation_period", "0")
    with maintaining(database_18.url, "--json") as process:
        step = json.loads(process.stdout.readline())
        process.send_signal(number)
        process.communicate(timeout=30)

    assert (step["task"], step["queue_name"], step["done"]) == ("rotate", "changes", True)
    assert process.returncode == 0


@pytest.mark.slow
def test_maintain_waits_for_a_server_that_is_down_at_its_start(servers_folder):
    server = EmbeddedServer(servers_folder / "maintained", options=FAST)
    server.start()
    try:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            schema.install(connection)
            EventLog(connection).create("changes")
            EventLog(connection).insert_event("changes", "t", "x")
        server.stop()
        with maintaining(server.url()) as process:
            line = process.stdout.readline()
            assert "maintenance: " in line
            assert "; retry in" in line
            server.start()

            with psycopg.connect(server.url(), autocommit=True) as connection:
                wait_until(
                    lambda: not EventLog(connection).get_queue_info("changes")[0].ev_new,
                    "a tick",
                )
        server.stop()
        with maintaining(server.url()) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    finally:
        server.stop("immediate")


def test_once_does_all_there_is_and_ends(database_18, log):
    log.insert_event("changes", "t", "x")

    steps = json.loads(once(database_18.url, "--json"))

    assert {(step["task"], step["queue_name"]) for step in steps} == {("tick", "changes")}
    assert delivered(log) == ["x"]
    steps = json.loads(once(database_18.url, "--json"))
    assert [step["task"] for step in steps] == ["retry", "tick"]
    assert delivered(log) == ["x"]
    log.drop("changes", force=True)
    assert once(database_18.url) == "nothing to do\n"


@pytest.mark.slow
def test_functions_that_a_log_names_are_called_also_beside_one_that_fails(database_18, log):
    with database_18.connect() as connection:
        name_extra(connection)
        connection.execute("update pgq.queue set queue_extra_maint = '{missing,note}'")

        steps = json.loads(once(database_18.url, "--json", code=1))

        assert value(connection, "select log from extra") == "changes"
        extra = [(step["done"], step["detail"]) for step in steps if step["task"] == "extra"]
        assert extra[0] == (True, "note")
        assert not extra[1][0]
        assert "missing" in extra[1][1]

        with maintaining(database_18.url):
            wait_until(
                lambda: value(connection, "select count(*) from extra") > 1,
                "the function to be called",
            )


def standing(connection):
    """Return the process ids of the leaders' sessions and of the standbys' sessions."""
    found = dict(
        rows(
            connection,
            """select a.pid = l.pid, array_agg(a.pid) from pg_stat_activity as a
            cross join coalesce((select case when is_active then candidate end from sluice.leader('maintenance')), 0) as l (pid)
            where a.application_name = 'pgsluice leader' and a.datname = current_database() group by 1""",
        )
    )
    return found.get(True, []), found.get(False, [])


@pytest.mark.slow
def test_one_leads_and_the_other_takes_over_within_two_seconds_when_it_is_killed(database_18, log):
    WorkQueue(log_connection := database_18.connect()).create("orders")
    with (
        log_connection as connection,
        maintaining(database_18.url) as first,
        Listener(database_18.url) as listener,
        listener.subscribe("orders") as subscription,
    ):
        wait_until(lambda: len(standing(connection)[0]) == 1, "the first to lead")
        with maintaining(database_18.url):
            wait_until(lambda: len(standing(connection)[1]) == 1, "the second to stand by")
            (leader,), (standby,) = standing(connection)
            first.kill()
            first.wait()
            began_s = time.monotonic()
            wait_until(lambda: standing(connection)[0] == [standby], "the second to lead", 5)
            took_s = time.monotonic() - began_s

            assert leader != standby
            assert took_s < 2 + 1  # a second more for a busy machine
            # The new leader ticks events and announces messages.
            log.insert_event("changes", "t", "after")
            wait_until(lambda: "after" in (delivered(log) or []), "the event")
            wait_until(
                lambda: listener.state is ListenerState.LISTENING, "the listener to be ready"
            )
            WorkQueue(connection).send("orders", "after")
            while not WorkQueue(connection).read("orders", 600):
                assert subscription.wait(600)


@pytest.mark.slow
def test_a_database_without_the_schema_is_said_to_have_none(server_18):
    with maintaining(server_18.url("template1")) as process:
        output, _ = process.communicate(timeout=30)

    assert process.returncode == 3
    assert "pgsluice schema install" in output


@pytest.mark.slow
def test_the_statements_for_pg_cron_do_the_work(database_18, log):
    printed = subprocess.run(
        [*PGSLUICE, "maintain", "--print-cron"],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    log.insert_event("changes", "t", "x")
    with database_18.connect() as connection:
        name_extra(connection)
        # A failing function does not stop the next one.
        connection.execute("update pgq.queue set queue_extra_maint = '{missing, note}'")
        # Run each statement once, as pg_cron does.
        connection.execute("create schema cron")
        connection.execute("create table cron.job (name text, schedule text, command text)")
        connection.execute(
            "create function cron.schedule(text, text, text) returns void language sql "
            "as 'insert into cron.job values ($1, $2, $3)'"
        )
        connection.execute(printed)
        jobs = rows(connection, "select name, schedule, command from cron.job")
        for _, _, command in jobs:
            connection.execute(command)

        assert value(connection, "select count(*) from pgq.tick where tick_queue = 1") == 2
        assert value(connection, "select is_active from sluice.leader('notifier')")
        assert value(connection, "select log from extra") == "changes"

    assert [name for name, _, _ in jobs] == [
        f"pgsluice {task}"
        for task in ("tick", "schedules", "retry", "notify", "rotate", "maintain", "extra")
    ]
    assert all(re.fullmatch(r"[1-9]\d? seconds?", schedule) for _, schedule, _ in jobs)


@pytest.mark.slow
def test_options_that_contradict_each_other_are_refused(database_18):
    with maintaining(
        database_18.url, "--tick-interval-min", "20ms", "--tick-interval-max", "10ms"
    ) as process:
        output, _ = process.communicate(timeout=30)

    assert process.returncode == 2
    assert "--tick-interval-min is greater" in output
