"""`pgsluice explain`, on a real server."""

from __future__ import annotations

import contextlib
import json

import psycopg
import pytest

from pgsluice.cli.main import main
from support import value, wait_until
from support.pooler import pooling


def test_message_is_explained_in_sentences_and_as_json(command):
    command("queue", "create", "orders")
    command("queue", "send", "orders", "1", "--delay", "10m")

    lines = command("explain", "queue", "orders", "1").stdout.splitlines()

    assert lines[0] == "State:"
    assert lines[1].startswith("  Message 1 is in queue orders, delayed; it becomes visible: ")
    assert lines[1].endswith(", in 10 min")
    assert [line for line in lines if not line.startswith(" ")] == [
        "State:", "History:", "Now:", "Next:",
    ]  # fmt: skip
    facts = json.loads(command("explain", "queue", "orders", "1", "--json").stdout)
    assert facts[0]["detail"]["state"] == "delayed"


def test_id_that_does_not_exist_exits_with_1_and_a_missing_queue_with_3(command):
    command("queue", "create", "orders")

    assert "never had a message" in command("explain", "queue", "orders", "7", code=1).stdout
    for arguments in (("queue", "missing", "7"), ("queue", "missing")):
        printed = command("explain", *arguments, code=3).stderr
        assert (
            "queue 'missing' does not exist; create it with: pgsluice queue create missing"
            in printed
        )


def test_command_of_a_fact_is_quoted_and_runs(command, database_18):
    command("queue", "create", "orders")
    command("queue", "set", "orders", "when_waiting=park")
    with database_18.connect() as connection:
        connection.execute(
            "select pgmq.send('orders', '1', jsonb_build_object('x-pgmq-group', $$a'b; $(c)$$)) from generate_series(1, 2)"
        )
        connection.execute("select sluice.claim_messages('orders', 600, 1)")
        connection.execute("select sluice.release('orders', 1, 1, 600)")
        connection.execute("select sluice.claim_messages('orders', 600, 1)")

    printed = command("explain", "queue", "orders", "2").stdout

    (line,) = (line.strip() for line in printed.splitlines() if "queue retry" in line)
    assert line == """pgsluice queue retry '--key=a'"'"'b; $(c)' orders"""
    command("queue", "retry", "orders", "--key", "a'b; $(c)")
    assert "queue retry" not in command("explain", "queue", "orders", "2").stdout
    assert "Queue orders has 2 messages: " in command("explain", "queue", "orders").stdout


@pytest.mark.slow
def test_each_command_explains_and_names_what_is_missing(command):
    command("queue", "create", "orders")
    command("log", "create", "events")
    command("log", "consume", "events", "c", "--register")
    command("group", "create", "events", "g")
    command("schedule", "create", "nightly", "--queue", "orders", "--interval", "1h")

    assert (
        "has finished all events up to tick" in command("explain", "consumer", "events", "c").stdout
    )
    assert "Log events never had an event" in command("explain", "log", "events").stdout
    assert "Share group g of log events" in command("explain", "consumer", "events", "g").stdout
    assert "It is not due yet" in command("explain", "schedule", "nightly").stdout
    assert "has no key" in command("explain", "consumer", "events", "g", "--key", "k").stdout
    assert "block nothing" in command("explain", "queue", "orders", "--key", "k").stdout
    assert "never had an event" in command("explain", "log", "events", "9", code=1).stdout
    assert (
        "give MSG_ID or --key"
        in command("explain", "queue", "orders", "1", "--key", "k", code=2).stderr
    )
    for arguments, message in (
        (("log", "missing", "1"), "event log 'missing' does not exist"),
        (("consumer", "events", "x"), "event log 'events' has no consumer 'x'"),
        (("consumer", "events", "x", "--key", "k"), "log 'events' has no share group 'x'"),
        (("schedule", "x"), "schedule 'x' does not exist"),
    ):
        assert message in command("explain", *arguments, code=3).stderr


DROP_TRIGGER = "drop trigger trigger_notify_queue_insert_listeners on pgmq.q_orders"


def test_cause_in_the_database_is_named_until_the_printed_command_has_run(command, database_18):
    command("queue", "create", "orders")
    with database_18.connect() as connection:
        connection.execute("select pgmq.enable_notify_insert('orders')")
        assert "Server and database" not in command("explain", "queue", "orders").stdout
        connection.execute(DROP_TRIGGER)

        lines = command("explain", "queue", "orders", "1", code=1).stdout.splitlines()

        assert lines[-3:] == [
            "Server and database:",
            "  queue 'orders' has notifications enabled, and no trigger that sends them: "
            "listeners receive no notification, and poll instead",
            "      select pgmq.enable_notify_insert('orders', 250)",
        ]
        facts = json.loads(command("explain", "queue", "orders", "--json").stdout)
        assert facts[-1] == {
            "section": "server",
            "at": None,
            "cause": "notify_triggers",
            "fact": lines[-2].strip(),
            "commands": ["select pgmq.enable_notify_insert('orders', 250)"],
            "detail": {"status": "warn"},
        }
        connection.execute(lines[-1])

    assert "Server and database" not in command("explain", "queue", "orders").stdout


@pytest.mark.slow
def test_each_command_names_causes_in_the_database(command, database_18):
    command("queue", "create", "orders")
    command("log", "create", "events")
    command("log", "consume", "events", "c", "--register")
    command("group", "create", "events", "g")
    command("schedule", "create", "nightly", "--queue", "orders", "--interval", "1h")
    with database_18.connect() as connection:
        connection.execute("select pgmq.enable_notify_insert('orders')")
        connection.execute(DROP_TRIGGER)

    for arguments in (
        ("queue", "orders"),
        ("log", "events"),
        ("consumer", "events", "c"),
        ("consumer", "events", "g"),
        ("queue", "orders", "--key", "k"),
        ("consumer", "events", "g", "--key", "k"),
        ("schedule", "nightly"),
    ):
        assert "Server and database:" in command("explain", *arguments).stdout
    for arguments in (("queue", "orders", "9"), ("log", "events", "9")):
        assert "Server and database:" in command("explain", *arguments, code=1).stdout


def explain_queue(url, capsys, code=0):
    with pytest.raises(SystemExit) as ended:
        main(["explain", "queue", "orders", "--dsn", url])
    printed = capsys.readouterr()
    assert (ended.value.code or 0) == code, printed.err
    return printed.err if code else printed.out


@pytest.fixture
def monitor(database_18, server_18):
    """The URL of a role with sluice_monitor only, which may open five connections."""
    with psycopg.connect(server_18.url(), autocommit=True) as admin:
        admin.execute("create role explain_monitor login connection limit 5 in role sluice_monitor")
        yield database_18.url.replace("postgres@", "explain_monitor@")
        admin.execute("drop role explain_monitor")


def wait_for_sessions(connection, count):
    """Wait until the role has this number of sessions; that of a command ends after the command."""
    wait_until(
        lambda: (
            value(
                connection,
                "select count(*) from pg_stat_activity where usename = 'explain_monitor'",
            )
            == count
        ),
        f"{count} sessions",
    )


def test_used_up_connections_of_a_role_are_named_until_its_limit_is_raised(
    command, database_18, monitor, capsys
):
    command("queue", "create", "orders")
    assert "Server and database" not in explain_queue(monitor, capsys)
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(database_18.connect())
        wait_for_sessions(connection, 0)
        for _ in range(4):
            stack.enter_context(psycopg.connect(monitor))
        *_, fact, fix = explain_queue(monitor, capsys).splitlines()
        assert fact.startswith("  4 of 5 connections of the role are in use: ")
        wait_for_sessions(connection, 4)
        stack.enter_context(psycopg.connect(monitor))
        assert "raise the connection limit" in explain_queue(monitor, capsys, code=3)
        connection.execute(fix)
        assert "Server and database" not in explain_queue(monitor, capsys)


def test_schema_without_the_function_names_the_upgrade(command, database_18, capsys):
    command("queue", "create", "orders")
    for function in ("sluice.poison_message(text, bigint)", "sluice.explain_queue(text)"):
        with database_18.connect() as connection:
            connection.execute(f"drop function {function}")
        assert "pgsluice schema upgrade" in command("explain", "queue", "orders", code=3).stderr


@pytest.mark.slow
def test_pooler_in_transaction_mode_is_named_and_a_direct_connection_is_not(
    command, database_18, servers_folder, capsys
):
    command("queue", "create", "orders")
    with pooling(database_18.url, servers_folder) as pooled:
        assert "  a pooler is in between: " in explain_queue(pooled, capsys)
    with pooling(database_18.url, servers_folder, mode="session") as pooled:
        assert "Server and database" not in explain_queue(pooled, capsys)
