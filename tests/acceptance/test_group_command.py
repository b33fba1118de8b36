"""`pgsluice group`, as used by a shell script."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import partial

import pytest

from pgsluice import EventLog, ShareGroup
from support import rows, value


@pytest.fixture
def group(command):
    return partial(command, "group")


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        EventLog(connection).create("orders")
        yield connection


def settings(connection):
    query = "select lease::text, max_attempts, backoff, backoff_jitter from sluice.share_group"
    return rows(connection, query)


def test_a_group_is_created_listed_shown_and_dropped(group, connection):
    assert group("list").stdout == "no groups\n"
    group("create", "orders", "billing")
    group("create", "orders", "billing")
    group("create", "orders", "audit")

    listed = json.loads(group("list", "--json").stdout)
    assert listed == [
        {
            "log_name": "orders",
            "group_name": name,
            "lag_events": 0,
            "lag_s": 0.0,
            "leased": 0,
            "retrying": 0,
            "dead": 0,
        }
        for name in ("audit", "billing")
    ]
    assert "billing" in group("list", "orders").stdout
    info = json.loads(group("show", "orders", "billing", "--json").stdout)
    assert (info["lease_s"], info["max_attempts"], info["key"]) == (30.0, 5, None)
    assert "max_attempts" in group("show", "orders", "billing").stdout

    group("drop", "orders", "billing", "--yes")
    assert "no share group 'billing'" in group("drop", "orders", "billing", "--yes", code=1).stderr
    assert [row["group_name"] for row in json.loads(group("list", "--json").stdout)] == ["audit"]


def test_settings_are_given_and_changed_one_by_one(group, connection):
    options = ("lease=2m", "max_attempts=3", "backoff=linear")

    group("create", "orders", "billing", *options, "backoff_jitter=no")
    assert settings(connection) == [("00:02:00", 3, "linear", False)]
    assert "another lease" in group("create", "orders", "billing", "lease=3m", code=3).stderr
    group("set", "orders", "billing", "max_attempts=7", "backoff_base=5s")
    assert settings(connection) == [("00:02:00", 7, "linear", False)]
    group("set", "orders", "billing", "backoff_jitter=")

    assert settings(connection) == [("00:02:00", 7, "linear", True)]
    assert value(connection, "select backoff_base::text from sluice.share_group") == "00:00:05"


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "orders", "billing", "lease=2 minutes"),
        ("create", "orders", "billing", "--start", "yesterday"),
        ("create", "orders", "billing", "max_attempts=many"),
        ("create", "orders", "billing", "backoff=quadratic"),
        ("set", "orders", "billing"),
        ("set", "orders", "billing", "--start", "latest"),
    ],
)
def test_contradicting_options_are_a_usage_error(group, connection, arguments):
    group(*arguments, code=2)


def test_group_starts_at_the_given_position(group, connection):
    log = EventLog(connection)
    log.insert_event("orders", "t", "one")
    tick_id = log.log_tick("orders")
    log.insert_event("orders", "t", "two")
    log.log_tick("orders")
    connection.execute(
        "update pgq.tick set tick_time = '2026-01-01 12:00Z' where tick_id <= %s", [tick_id]
    )
    starts = {
        "latest": [],
        "earliest": ["one", "two"],
        str(tick_id): ["two"],
        "2026-02-01": ["two"],
    }

    for number, (start, expected) in enumerate(starts.items()):
        group("create", "orders", f"g{number}", "--start", start)
        events = ShareGroup(connection, "orders", f"g{number}").claim(5)
        assert [event.ev_data for event in events] == expected


def test_open_claims_are_shown(group, connection):
    group("create", "orders", "billing")
    assert "no claims\n" in group("show", "orders", "billing").stdout
    connection.execute("select pgq.insert_event('orders', 't', 'x') from generate_series(1, 3)")
    shared = ShareGroup(connection, "orders", "billing")
    events = shared.claim(3, lease_s=600)
    shared.accept(events[0])

    (claim,) = json.loads(group("show", "orders", "billing", "--json").stdout)["claims"]

    assert (claim["claim_id"], claim["events"], claim["settled"]) == (events[0].claim_id, 3, 1)
    assert datetime.fromisoformat(claim["lease_until"]) > datetime.now(UTC)
    assert str(events[0].claim_id) in group("show", "orders", "billing").stdout
    assert json.loads(group("list", "--json").stdout)[0]["leased"] == 2


def test_types_are_shown_and_forgotten(group, connection):
    group("create", "orders", "billing")
    connection.execute(
        "select sluice.declare_types('orders', 'billing', 'shop', array['pack', 'ship'], array['paid', 'sent'])"
    )

    shown = json.loads(group("show", "orders", "billing", "--json").stdout)["types"]
    assert [(each["ev_type"], each["handler"]) for each in shown] == [("paid", "pack"), ("sent", "ship")]  # fmt: skip
    group("set", "orders", "billing", "max_attempts=3", "--forget", "sent")
    group("set", "orders", "billing", "--forget", "paid")

    printed = group("show", "orders", "billing").stdout
    assert "no types\n" in printed
    assert re.search(r"max_attempts +3 ", printed)
    assert (
        "share group 'billing' of log 'orders' has no such declaration"
        in group("set", "orders", "billing", "--forget", "paid", code=1).stderr
    )


@pytest.mark.parametrize(
    "arguments",
    [("set", "max_attempts=2"), ("set", "--forget", "t"), ("show",)],
    ids=lambda arguments: arguments[0],
)
def test_an_unknown_group_is_an_error_with_a_hint(group, connection, arguments):
    command, *options = arguments

    done = group(command, "orders", "billing", *options, code=3)

    assert "no share group 'billing'; create it with: pgsluice group create orders billing" in (
        done.stderr
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "missing", "billing"),
        ("show", "missing", "billing"),
        ("drop", "missing", "billing", "--yes"),
        ("list", "missing"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_unknown_log_is_an_error_with_a_hint(group, connection, arguments):
    done = group(*arguments, code=3)

    assert "event log 'missing' does not exist; create it with: pgsluice log create missing" in (
        done.stderr
    )


def test_a_parked_key_is_shown_and_unparked(group, connection):
    group("create", "orders", "billing", "--key", "ev_type", "--when-waiting", "park")
    log, shared = EventLog(connection), ShareGroup(connection, "orders", "billing")
    for data in ("1", "2"):
        log.insert_event("orders", "k", data)
    log.ticker("orders")
    shared.retry(shared.claim(1), delay_s=600)
    assert shared.claim(1) == []

    (shown,) = json.loads(group("show", "orders", "billing", "--json").stdout)["blocked_keys"]
    assert (shown["key"], shown["reason"]) == ("k", "parked")
    assert group("unpark", "orders", "billing", "k").stdout == "2\n"

    assert "no blocked keys\n" in group("show", "orders", "billing").stdout
    assert "is not parked" in group("unpark", "orders", "billing", "k", code=1).stderr
