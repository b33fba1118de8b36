"""Arguments of calls: they are validated before a query is sent, and errors name them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice.client import Message
from pgsluice.client.calls import (
    archives,
    claims,
    dead_letters,
    deduplication,
    group_types,
    groups,
    limits,
    logs,
    pgmq,
    pgq,
    producing,
    reading,
    retries,
    schedules,
    share_groups,
    spark,
    tables,
)
from pgsluice.errors import ArgumentError, PayloadError

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - the subject of a test
AWARE = datetime(2030, 1, 1, tzinfo=UTC)
TOO_MUCH = 2**31
READ = Message(1, 1, AWARE, AWARE, AWARE, {}, None)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reading.read("q", -1, 1), f"vt is -1; use 0 to {TOO_MUCH - 1}"),
        (lambda: reading.read("q", TOO_MUCH, 1), f"vt is {TOO_MUCH}; use 0 to"),
        (lambda: reading.read("q", 30, 0), f"qty is 0; use 1 to {TOO_MUCH - 1}"),
        (lambda: reading.read("q", 30, -5), "qty is -5; use 1 to"),
        (lambda: reading.read("q", 30, TOO_MUCH), f"qty is {TOO_MUCH}; use 1 to"),
        (lambda: reading.read("q", True, 1), "vt is True; use a whole number"),
        (lambda: reading.read("q", 30, False), "qty is False; use a whole number"),
        (
            lambda: pgmq.send_batch("q", [1, 2], [None, b"h"]),
            r"headers\[1\] is a bytes; use a dict",
        ),
        (lambda: reading.read("q", 1.5, 1), "vt is 1.5; use a whole number"),
        (lambda: reading.read("q", None, 1), "vt is None; use a whole number"),
        (lambda: reading.read("q", "30", 1), "vt is '30'; use a whole number"),
        (
            lambda: reading.read_with_poll("q", -1, 1, max_poll_seconds=1, poll_interval_ms=1),
            "vt is -1; use 0 to",
        ),
        (
            lambda: reading.read_with_poll("q", 30, 0, max_poll_seconds=1, poll_interval_ms=1),
            "qty is 0; use 1 to",
        ),
        (
            lambda: reading.read_with_poll("q", 30, 1, max_poll_seconds=0, poll_interval_ms=1),
            "max_poll_seconds is 0; use 1 to",
        ),
        (
            lambda: reading.read_with_poll("q", 30, 1, max_poll_seconds=None, poll_interval_ms=1),
            "max_poll_seconds is None; use a whole",
        ),
        (
            lambda: reading.read_with_poll("q", 30, 1, max_poll_seconds=0.5, poll_interval_ms=1),
            "max_poll_seconds is 0.5; use a whole",
        ),
        (
            lambda: reading.read_with_poll("q", 30, 1, max_poll_seconds=1, poll_interval_ms=0),
            "poll_interval_ms is 0; use 1 to",
        ),
        (lambda: pgmq.send_topic("k", 1, delay=-1), "delay is -1; use 0 to"),
        (lambda: pgmq.send_topic("k", 1, delay=AWARE), "delay is datetime.*; use a whole number"),
        (lambda: pgmq.send_batch_topic("k", []), "messages is empty; send at least one"),
        (lambda: pgmq.send_batch_topic("k", [1], headers=[]), "there are 0 headers for 1 messages"),
        (
            lambda: pgmq.send_batch_topic("k", [1], delay=NAIVE),
            "delay is a datetime without a time",
        ),
        (lambda: pgmq.bind_topic("a\x00", "q"), "holds a NUL character or a lone surrogate"),
        (lambda: reading.pop("q", 0), "qty is 0; use 1 to"),
        (lambda: reading.pop("q", None), "qty is None; use a whole number"),
        (lambda: pgmq.send("q", 1, None, -1), f"delay is -1; use 0 to {TOO_MUCH - 1}"),
        (lambda: pgmq.send("q", 1, None, TOO_MUCH), f"delay is {TOO_MUCH}; use 0 to"),
        (lambda: pgmq.send("q", 1, None, True), "delay is True; use a whole number"),
        (lambda: pgmq.send("q", 1, None, 0.5), "delay is 0.5; use a whole number"),
        (
            lambda: pgmq.send("q", 1, None, timedelta(seconds=1)),
            r"delay is datetime.timedelta\(seconds=1\); use a whole number",
        ),
        (lambda: pgmq.send("q", 1, None, NAIVE), "delay is a datetime without a time zone"),
        (lambda: pgmq.send_batch("q", [1], None, -1), "delay is -1; use 0 to"),
        (lambda: pgmq.send_batch("q", [1], None, NAIVE), "delay is a datetime without a time zone"),
        (lambda: pgmq.send_batch("q", []), "messages is empty; send at least one"),
        (lambda: pgmq.send_batch("q", [1, 2], [{}]), "there are 1 headers for 2 messages"),
        (lambda: pgmq.send_batch("q", [1], []), "there are 0 headers for 1 messages"),
        (lambda: reading.set_vt("q", 1, -1), "vt is -1; use 0 to"),
        (lambda: reading.set_vt("q", 1, NAIVE), "vt is a datetime without a time zone"),
        (lambda: reading.set_vt("q", 1, True), "vt is True; use a whole number"),
        (lambda: reading.set_vt_batch("q", [1], TOO_MUCH), f"vt is {TOO_MUCH}; use 0 to"),
        (lambda: reading.set_vt_batch("q", [1], NAIVE), "vt is a datetime without a time zone"),
        (
            lambda: reading.delete("q", "1"),
            "msg_id is '1'; use the msg_id that send or read returned",
        ),
        (lambda: reading.archive("q", None), "msg_id is None"),
        (lambda: reading.delete_batch("q", [1, 2.5]), r"msg_id is 2\.5"),
        (lambda: reading.set_vt("q", 2**63, 1), "msg_id is 9223372036854775808"),
        (
            lambda: pgmq.create("a\x00b"),
            r"the text 'a\\x00b' holds a NUL character or a lone surrogate",
        ),
        (lambda: pgmq.send("a\ud800", 1), r"the text 'a\\ud800' holds a NUL"),
        (lambda: pgq.create_queue("\udfff"), "holds a NUL character or a lone surrogate"),
        (lambda: reading.delete_batch("q", 5), "msg_ids is of type int; pass a list of ids"),
        (lambda: reading.delete_batch("q", "12"), "msg_ids is of type str; pass a list of ids"),
        (lambda: archives.get_messages("q", 5), "msg_ids is of type int; pass a list of ids"),
        (lambda: dead_letters.redrive("q", None, 5), "dead_letter_ids is of type int; pass a list"),
        (lambda: pgmq.send_batch("q", {1, 2}), "messages is of type set, which has no order"),
        (lambda: pgmq.send_batch("q", [1], {"a": 1}), "headers is of type dict; pass a list"),
        (lambda: claims.delete("q", READ), "messages is of type Message; pass a list of messages"),
        (
            lambda: claims.archive("q", [READ, 7]),
            r"messages\[1\] is of type int; pass messages as read\(\) returned them",
        ),
        (lambda: claims.reject("q", 1, 1, "r", error=OSError()), "error is of type OSError; use a"),
        (lambda: retries.begin_attempts("q", READ), "messages is of type Message; pass a list"),
        (lambda: share_groups.claim("l", "g", 1, types="paid"), "types is of type str; pass a"),
        (lambda: share_groups.acknowledge("l", "g", 1, ev_ids=5), "ev_ids is of type int; pass a"),
        (lambda: group_types.forget_types("l", "g", "paid"), "types is of type str; pass a list"),
        (lambda: logs.retry(1, 5, delay=timedelta()), "ev_ids is of type int; pass a list of ids"),
        (lambda: schedules.retire_schedules("app", "daily"), "names is of type str; pass a list"),
        (
            lambda: deduplication.send("q", 1, deduplication_key=5),
            "deduplication_key is of type int; use a str",
        ),
        (
            lambda: deduplication.send("q", 1, deduplication_key="k", unique="done"),
            r"unique is 'done'; use Unique\(…\)",
        ),
        (
            lambda: deduplication.send_batch("q", [1, 2], deduplication_keys=["a", 5]),
            r"deduplication_keys\[1\] is of type int; use a str",
        ),
        (lambda: deduplication.send("q", 1, after={"q": 5}), "after is of type int; pass a list"),
        (lambda: spark.use_snapshot("1'; drop table x; --"), "is not a snapshot name"),
    ],
)
def test_an_argument_out_of_range_is_refused_and_named(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pgmq.send("q", float("nan")), "^message is nan"),
        (lambda: pgmq.send("q", 1, {"a": "\x00"}), r"^headers\['a'\] holds a NUL"),
        (lambda: pgmq.send_batch("q", [1, {2: 3}]), r"^messages\[1\] has the key 2"),
        (
            lambda: reading.read("q", 1, 1, conditional={"a": "\ud800"}),
            r"^conditional\['a'\] holds a lone",
        ),
        (lambda: event(ev_data={"a": 1}), "^ev_data is of type dict; an event holds text"),
        (lambda: event(ev_type="c\x00"), "^ev_type holds a NUL character"),
        (lambda: event(ev_extra4="\udfff"), "^ev_extra4 holds a lone surrogate"),
        (lambda: event(ev_extra2=5), "^ev_extra2 is of type int"),
        (
            lambda: producing.insert_events("l", ["paid"]),
            r"^events\[0\] is of type str; pass a New",
        ),
        (
            lambda: producing.insert_events("l", [("t", "d")]),
            r"^events\[0\] is of type tuple; pass",
        ),
    ],
)
def test_a_payload_that_cannot_be_stored_is_refused_and_its_place_is_named(call, words):
    with pytest.raises(PayloadError, match=words):
        call()


def event(**fields):
    return pgq.insert_event("log", **{"ev_type": None, "ev_data": None, **fields})


def test_the_limits_themselves_are_accepted():
    assert reading.read("q", 0, 1).parameters[1:3] == (0, 1)
    assert reading.read("q", TOO_MUCH - 1, TOO_MUCH - 1).parameters[1:3] == (TOO_MUCH - 1,) * 2
    assert pgmq.send("q", 1, None, TOO_MUCH - 1).parameters[3] == TOO_MUCH - 1


@pytest.mark.parametrize(
    ("delay", "parameter", "type_name"),
    [(None, 0, "integer"), (0, 0, "integer"), (7, 7, "integer"), (AWARE, AWARE, "timestamptz")],
)
def test_a_delay_is_a_number_or_a_time_and_chooses_the_overload(delay, parameter, type_name):
    for call in (pgmq.send("q", 1, None, delay), pgmq.send_batch("q", [1], None, delay)):
        assert call.parameters[3] == parameter
        assert call.sql.endswith(f"%s::{type_name})")


def test_every_parameter_is_cast_so_that_no_overload_is_ambiguous():
    calls = [
        pgmq.send("q", None),
        pgmq.send_batch("q", [None], [None]),
        reading.read("q", 1, 1),
        reading.read_with_poll("q", 1, 1, max_poll_seconds=1, poll_interval_ms=1),
        pgmq.bind_topic("a", "q"),
        pgmq.list_topic_bindings("q"),
        pgmq.list_topic_bindings(None),
        pgmq.send_topic("k", None),
        pgmq.send_batch_topic("k", [None], headers=[None]),
        pgmq.send_batch_topic("k", [1], delay=AWARE),
        reading.pop("q"),
        reading.archive("q", 1),
        reading.delete_batch("q", []),
        reading.set_vt("q", 1, AWARE),
        event(),
        pgq.get_consumer_info(None, None),
    ]

    for call in calls:
        assert call.sql.count("%s") == call.sql.count("%s::") == len(call.parameters)


def test_only_a_claim_may_commit_asynchronously_and_only_in_a_transaction_of_its_own():
    for claim in (
        reading.read("q", 1, 1),
        reading.read_with_poll("q", 1, 1, max_poll_seconds=1, poll_interval_ms=1),
    ):
        assert "synchronous_commit" not in claim.sql
        assert "synchronous_commit" in claim.own_transaction_sql
    for call in (
        pgmq.send("q", 1),
        reading.pop("q"),
        reading.archive("q", 1),
        reading.set_vt("q", 1, 0),
    ):
        assert call.own_transaction_sql is None


@pytest.mark.parametrize(
    "read",
    [
        reading.read,
        reading.read_with_poll,
        groups.read_grouped,
        groups.read_grouped_rr,
        groups.read_grouped_head,
        groups.read_grouped_with_poll,
        groups.read_grouped_rr_with_poll,
        groups.read_grouped_head_with_poll,
        limits.claim_messages,
        tables.read,
    ],
    ids=lambda read: read.__name__,
)
def test_default_visibility_timeout_is_30_seconds(read):
    assert read("q").parameters == read("q", 30).parameters
