"""`pgsluice schedule` on a real server."""

from __future__ import annotations

import json

import pytest

from pgsluice.cli.main import main
from support import rows, value


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('orders'), pgq.create_queue('changes')")
        yield connection


@pytest.fixture
def run(database_18, connection, capsys):
    """Return a function that runs a command and returns its output."""

    def call(*arguments, code=0, errors=False):
        with pytest.raises(SystemExit) as ended:
            main(["schedule", *arguments, "--dsn", database_18.url])
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, f"{arguments}: {ended.value.code}\n{printed}"
        return printed.err if errors else printed.out

    return call


def test_one_is_made_listed_paused_run_and_dropped(run, connection):
    made = json.loads(
        run("create", "nightly", "--queue", "orders", "--message", '{"n": 1}', "--headers", '{"h": 1}',
            "--cron", "30 3 * * mon-fri", "--time-zone", "Europe/Berlin", "--jitter", "5m", "--catch-up", "all")
    )  # fmt: skip

    assert (made["name"], made["message"], made["cron"], made["jitter"]) == ("nightly", {"n": 1}, "30 3 * * mon-fri", 300)  # fmt: skip
    assert "30 3 * * mon-fri" in run("list")
    assert json.loads(run("list", "--json"))[0] == made
    run("set", "nightly", "paused=true")
    assert value(connection, "select paused_at is not null from sluice.list_schedules()")
    assert run("run", "nightly") == "1\n"
    assert "has these options already" in run("set", "nightly", "paused=true", errors=True)
    run("set", "nightly", "paused=false")
    assert value(connection, "select paused_at is null from sluice.list_schedules()")
    run("drop", "nightly", "--yes")
    assert run("list") == "no schedules\n"
    assert run("drop", "nightly", "--yes", code=1, errors=True) == (
        "schedule 'nightly' does not exist\n"
    )


def test_events_of_a_log_at_intervals(run, connection):
    run("create", "tick", "--log", "changes", "--ev-type", "t", "--ev-data", "{}", "--interval", "90s",
        "--starts-at", "2030-01-01T00:00Z", "--ends-at", "2031-01-01T00:00Z")  # fmt: skip

    assert rows(connection, "select target, event, every::text, next_slot = starts_at from sluice.list_schedules()") == [
        ("log", {"ev_type": "t", "ev_data": "{}"}, "00:01:30", True)
    ]  # fmt: skip
    assert "every 0:01:30" in run("list")


def test_contradicting_options_are_a_usage_error(run):
    for arguments in (
        ("--cron", "@daily"),
        ("--queue", "q", "--log", "l", "--cron", "@daily"),
        ("--queue", "q"),
        ("--queue", "q", "--cron", "@daily", "--interval", "1h"),
        ("--log", "l", "--interval", "1h", "--message", "1"),
        ("--queue", "q", "--interval", "1h", "--ev-type", "t"),
        ("--queue", "q", "--interval", "soon"),
    ):
        run("create", "s", *arguments, code=2)


def test_errors_name_a_hint(run):
    assert "the minute is 0 to 59" in run(
        "create", "s", "--queue", "orders", "--cron", "61 * * * *", code=2, errors=True
    )
    assert "list schedules with: pgsluice schedule list" in run(
        "set", "none", "paused=true", code=3, errors=True
    )
    assert "the value is not JSON" in run(
        "create",
        "s",
        "--queue",
        "orders",
        "--cron",
        "@daily",
        "--message",
        "{",
        code=2,
        errors=True,
    )
