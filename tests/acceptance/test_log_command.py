"""`pgsluice log`, as used by a shell script."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial

import pytest

from pgsluice import EventLog
from support import rows, value, wait_until

PGSLUICE = [sys.executable, "-c", "from pgsluice.cli.main import main; main()"]


@pytest.fixture
def log(command):
    return partial(command, "log")


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        yield connection


def printed(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_events_go_in_and_come_out_with_the_tick_that_follows(log, connection):
    log("create", "changes")
    log("create", "changes")
    assert log("consume", "changes", "audit", "--register").stdout == ""
    options = ("--ev-type", "order", "--extra1", "public.orders")
    assert log("insert", "changes", "one", "größe", *options).stdout == "2\n"
    assert log("consume", "changes", "audit").stdout == ""

    assert json.loads(log("tick", "changes", "--json").stdout) == [
        {"log_name": "changes", "tick_id": 2}
    ]

    events = printed(log("consume", "changes", "audit"))
    assert [(e["ev_type"], e["ev_data"], e["ev_extra1"], e["ev_extra2"]) for e in events] == [
        ("order", "one", "public.orders", None),
        ("order", "größe", "public.orders", None),
    ]
    assert log("consume", "changes", "audit").stdout == ""


def test_lines_of_standard_input_are_events_in_their_order(log, connection):
    log("create", "changes")
    lines = "".join(f"line {n}\n" for n in range(2500))

    assert log("insert", "changes", stdin=lines + "\n").stdout == "2500\n"

    found = rows(connection, "select ev_data from pgq.event_1 order by ev_id")
    assert [data for (data,) in found] == [f"line {n}" for n in range(2500)]


def test_one_invalid_event_rejects_the_whole_input(log, connection):
    log("create", "changes")

    done = log("insert", "changes", stdin="good\nbad\x00\n", code=3)

    assert "NUL" in done.stderr
    assert value(connection, "select count(*) from pgq.event_1") == 0


def test_batches_are_counted_and_shared(log, connection):
    log("create", "changes")
    EventLog(connection).register_subconsumer("changes", "c", "one")
    for data in ("a", "b", "c"):
        log("insert", "changes", data)
        log("tick", "changes")

    shared = printed(log("consume", "changes", "c", "--subconsumer", "one", "--batches", "2"))
    others = printed(log("consume", "changes", "c", "--subconsumer", "two"))

    assert [e["ev_data"] for e in shared] == ["a", "b"]
    assert [e["ev_data"] for e in others] == ["c"]
    log("consume", "changes", "c", "--follow", "--batches", "1", code=2)


@pytest.mark.slow
def test_events_printed_into_a_closed_pipe_are_redelivered(log, connection, database_18):
    log("create", "changes")
    log("consume", "changes", "audit", "--register")
    connection.execute(
        "select count(pgq.insert_event('changes', 't', repeat('x', 1000))) from generate_series(1, 5000)"
    )
    log("tick", "changes")
    command = [*PGSLUICE, "log", "consume", "changes", "audit", "--dsn", database_18.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) != 0

    assert len(printed(log("consume", "changes", "audit"))) == 5000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_follow_prints_new_events_until_stopped(log, connection, database_18, number):
    log("create", "changes")
    command = [*PGSLUICE, "log", "consume", "changes", "tail", "--register", "--follow"]
    with subprocess.Popen(
        [*command, "--dsn", database_18.url], stdout=subprocess.PIPE, text=True
    ) as process:
        wait_until(
            lambda: EventLog(connection).get_consumer_info("changes") != [],
            "the consumer to be registered",
        )
        for data in ("one", "two"):
            log("insert", "changes", data)
            log("tick")
            assert json.loads(process.stdout.readline())["ev_data"] == data
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stdout.read() == ""


def test_settings_are_shown_and_changed(log):
    log("create", "changes")

    log("set", "changes", "ticker_max_count=7", "rotation_period=30m", "keepers=lake,archive")

    shown = json.loads(log("show", "changes", "--json").stdout)
    assert len(shown.pop("segments")) == 3
    assert shown == {
        "log_name": "changes",
        "ticker_max_count": 7,
        "ticker_max_lag_s": 3.0,
        "ticker_idle_period_s": 60.0,
        "ticker_paused": False,
        "rotation_period_s": 1800.0,
        "external_ticker": False,
        "max_lag_bytes": None,
        "max_lag_events": None,
        "max_lag_time_s": None,
        "keepers": ["archive", "lake"],
        "captures": [],
    }
    assert "rotation_period" in log("show", "changes").stdout
    assert "already" in log("set", "changes", "ticker_max_count=7").stderr
    log("set", "changes", "ticker_max_count=")
    assert "500" in log("show", "changes").stdout
    log("set", "changes", "nonsense", code=2)
    assert "No such option 'nope'" in log("set", "changes", "nope=1", code=2).stderr


def test_logs_consumers_segments_and_captures_are_shown(log, connection):
    assert log("list").stdout == "no logs\n"
    assert log("consumers").stdout == "no consumers\n"
    log("create", "changes")
    assert "no captures\n" in log("show", "changes").stdout
    connection.execute("create table account (id integer primary key)")
    connection.execute("select sluice.capture('account', 'changes')")
    EventLog(connection).register_consumer("changes", "audit")
    log("insert", "changes", "x")

    (listed,) = json.loads(log("list", "--json").stdout)
    assert (listed["log_name"], listed["last_tick_id"], listed["ev_new"]) == ("changes", 1, 1)
    (consumer,) = json.loads(log("consumers", "changes", "--json").stdout)
    assert (consumer["consumer_name"], consumer["last_tick"]) == ("audit", 1)
    shown = json.loads(log("show", "changes", "--json").stdout)
    (capture,) = shown["captures"]
    assert (capture["source_table"], capture["enabled"]) == ("account", True)
    assert [segment["is_current"] for segment in shown["segments"]] == [True, False, False]
    for command in ("list", "consumers"):
        assert "changes" in log(command).stdout
    assert "events go here" in log("show", "changes").stdout


def test_rotate_reports_the_rotated_tables(log):
    log("create", "changes")
    log("insert", "changes", "x")
    log("set", "changes", "rotation_period=0")

    done = json.loads(log("tick", "changes", "--rotate", "--json").stdout)

    assert done["ticks"] == [{"log_name": "changes", "tick_id": 2}]
    assert "switched" in {step["action"] for step in done["rotation"]}
    assert "no ticks\nrotation:\n" in log("tick", "--rotate").stdout


def test_all_logs_are_ticked_where_something_is_new(log):
    log("create", "a")
    log("create", "b")
    assert log("tick").stdout == "no new ticks\n"
    log("insert", "b", "x")

    assert json.loads(log("tick", "--json").stdout) == [{"log_name": "b", "tick_id": 2}]


def test_a_consumer_is_unregistered_and_a_log_dropped(log, connection):
    log("create", "changes")
    log("consume", "changes", "audit", "--register")
    assert "has consumers" in log("drop", "changes", "--yes", code=3).stderr

    log("unregister", "changes", "audit", "--yes")

    assert "no consumer 'audit'" in log("unregister", "changes", "audit", "--yes", code=1).stderr
    log("drop", "changes", "--yes")
    assert "does not exist" in log("drop", "changes", "--yes", code=1).stderr


def test_a_log_with_consumers_is_dropped_by_force(log):
    log("create", "changes")
    log("consume", "changes", "audit", "--register")

    log("drop", "changes", "--force", "--yes")

    assert log("list").stdout == "no logs\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "missing"),
        ("insert", "missing", "x"),
        ("consume", "missing", "c", "--register"),
        ("tick", "missing"),
        ("tick", "missing", "--rotate"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_unknown_log_is_an_error_with_a_hint(log, arguments):
    done = log(*arguments, code=3)

    assert (
        "event log 'missing' does not exist; create it with: pgsluice log create missing"
        in done.stderr
    )


def test_an_unknown_consumer_is_an_error_with_a_hint(log):
    log("create", "changes")

    done = log("consume", "changes", "audit", code=3)

    assert (
        "consumer 'audit' is not registered on event log 'changes'; add --register" in done.stderr
    )
