"""`pgsluice explain`, on a real server."""

from __future__ import annotations

import json


def test_message_is_explained_in_sentences_and_as_json(command):
    command("queue", "create", "orders")
    command("queue", "send", "orders", "1", "--delay", "10m")

    lines = command("explain", "message", "orders", "1").stdout.splitlines()

    assert lines[0] == "State:"
    assert lines[1].startswith("  Message 1 is in queue orders, delayed; it becomes visible: ")
    assert lines[1].endswith(", in 10 min")
    assert [line for line in lines if not line.startswith(" ")] == [
        "State:", "History:", "Why it is not running now:", "Next:",
    ]  # fmt: skip
    facts = json.loads(command("explain", "message", "orders", "1", "--json").stdout)
    assert facts[0]["detail"]["state"] == "delayed"


def test_id_that_does_not_exist_exits_with_1_and_a_missing_queue_with_3(command):
    command("queue", "create", "orders")

    assert "never had a message" in command("explain", "message", "orders", "7", code=1).stdout
    for arguments in (("message", "missing", "7"), ("queue", "missing")):
        printed = command("explain", *arguments, code=3).stderr
        assert (
            "queue 'missing' does not exist; create it with: pgsluice queue create missing"
            in printed
        )


def test_command_of_a_fact_is_quoted_and_runs(command, database_18):
    command("queue", "create", "orders")
    command("queue", "limits", "set", "orders", "--when-waiting", "park")
    with database_18.connect() as connection:
        connection.execute(
            "select pgmq.send('orders', '1', jsonb_build_object('x-pgmq-group', $$a'b; $(c)$$)) from generate_series(1, 2)"
        )
        connection.execute("select sluice.claim_messages('orders', 600, 1)")
        connection.execute("select sluice.release('orders', 1, 1, 600)")
        connection.execute("select sluice.claim_messages('orders', 600, 1)")

    printed = command("explain", "message", "orders", "2").stdout

    (line,) = (line.strip() for line in printed.splitlines() if "unpark" in line)
    assert line == """pgsluice queue unpark orders 'a'"'"'b; $(c)'"""
    command("queue", "unpark", "orders", "a'b; $(c)")
    assert "unpark" not in command("explain", "message", "orders", "2").stdout
    assert "Queue orders has 2 messages" in command("explain", "queue", "orders").stdout


def test_each_command_explains_and_names_what_is_missing(command):
    command("queue", "create", "orders")
    command("log", "create", "events")
    command("log", "consume", "events", "c", "--register")
    command("group", "create", "events", "g")
    command("schedule", "create", "nightly", "--queue", "orders", "--interval", "1h")

    assert (
        "has finished all events up to tick" in command("explain", "consumer", "events", "c").stdout
    )
    assert "The last event id of log events is 0" in command("explain", "log", "events").stdout
    assert "Share group g of log events" in command("explain", "group", "events", "g").stdout
    assert "It is not due yet" in command("explain", "schedule", "nightly").stdout
    assert "has no key" in command("explain", "key", "events", "k", "--group", "g").stdout
    assert "block nothing" in command("explain", "key", "orders", "k").stdout
    assert "never had an event" in command("explain", "event", "events", "9", code=1).stdout
    assert "No pipeline ever held" in command("explain", "pipeline", "events", "c", code=1).stdout
    for arguments, message in (
        (("event", "missing", "1"), "event log 'missing' does not exist"),
        (("consumer", "events", "x"), "consumer 'x' is not registered"),
        (("group", "events", "x"), "log 'events' has no share group 'x'"),
        (("schedule", "x"), "schedule 'x' does not exist"),
    ):
        assert message in command("explain", *arguments, code=3).stderr
