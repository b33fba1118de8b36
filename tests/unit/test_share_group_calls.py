"""Calls of share groups: references to claims, and options as SQL arguments."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import ClaimedEvent
from pgsluice.client.calls import group_keys, share_groups
from pgsluice.errors import ArgumentError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - the subject of a test
TOO_MUCH = 2**31


def event(claim_id=7, ev_id=1):
    texts = ("t", "d", None, None, None, None)
    return ClaimedEvent(claim_id, ev_id, NOW, 700, 1, 1, 0, NOW, *texts)


def create(start="latest", key=None, when_waiting=None, **options):
    return share_groups.create_group(
        "l", "g", start=start, key=key, when_waiting=when_waiting, **options
    )


def claim(qty=1, lease_s=None, synchronous=True):
    return share_groups.claim("l", "g", qty, lease_s=lease_s, synchronous=synchronous)


def accept(named, ev_ids=None, delay_s=None):
    return share_groups.acknowledge("l", "g", named, "accept", ev_ids=ev_ids, delay_s=delay_s)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: claim(0), f"qty is 0; use 1 to {TOO_MUCH - 1}"),
        (lambda: claim(1.0), r"qty is 1\.0; use a whole number"),
        (lambda: claim(1, -0.1), rf"lease_s is -0\.1; use 0 to {TOO_MUCH - 1}"),
        (lambda: claim(1, TOO_MUCH), f"lease_s is {TOO_MUCH}; use 0 to"),
        (lambda: claim(1, float("nan")), "lease_s is nan; use a number of seconds"),
        (lambda: claim(1, True), "lease_s is True; use a number of seconds"),
        (lambda: claim(1, "30"), "lease_s is '30'; use a number of seconds"),
        (lambda: claim(1, timedelta(seconds=1)), "lease_s is datetime.*; use a number of seconds"),
        (lambda: accept(7, None, -1), "delay_s is -1; use 0 to"),
        (lambda: accept("7"), "invalid claim; pass the events that claim returned"),
        (lambda: accept([7]), "invalid claim; pass the events that claim returned"),
        (lambda: accept(None), "claim_id is None; use the claim_id of events"),
        (lambda: accept(True), "claim_id is True"),
        (lambda: accept(2**63), "claim_id is 9223372036854775808"),
        (lambda: accept(7, [1, "2"]), "an ev_id is '2'; use the ev_ids of events"),
        (lambda: accept(event(), [1]), "ev_ids cannot be combined with events"),
        (
            lambda: accept([event(7), event(8)]),
            "belong to 2 claims, 7 and others; acknowledge each",
        ),
        (lambda: share_groups.renew("l", "g", []), "no events given, so no claim to renew"),
        (lambda: share_groups.renew("l", "g", 7, lease_s="x"), "lease_s is 'x'; use a number"),
        (lambda: create(start=NAIVE), "start is a datetime without a time zone"),
        (
            lambda: create(start=1.5),
            r"start is 1\.5; use 'latest', 'earliest', a tick_id or a time",
        ),
        (lambda: create(start=True), "start is True; use"),
        (lambda: create(lease=5), "unknown option 'lease'; use lease_s, max_attempts"),
        (lambda: create(backoff_max_s=-1), "backoff_max_s is -1; use 0 to"),
        (lambda: create(backoff_base_s="1 s"), "backoff_base_s is '1 s'; use a number of seconds"),
        (lambda: share_groups.set_group_options("l", "g", key="ev_type"), "unknown option 'key'"),
        (lambda: share_groups.drop_group("l\x00", "g"), "holds a NUL character"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_and_named(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize(
    ("named", "ev_ids", "claim_id", "of_events"),
    [
        (7, None, 7, None),
        (7, (2, 1), 7, [2, 1]),
        (7, [], 7, []),
        (event(7, 3), None, 7, [3]),
        ([event(7, 3), event(7, 1)], None, 7, [3, 1]),
        ((event(7, 3),), None, 7, [3]),
    ],
    ids=["id", "id and events", "id and none", "event", "events", "tuple"],
)
def test_a_claim_is_named_by_its_id_or_by_events_of_it(named, ev_ids, claim_id, of_events):
    assert accept(named, ev_ids).parameters[2:5] == (claim_id, "accept", of_events)


def test_no_events_name_no_claim_and_settle_nothing():
    assert accept([]).sql == "select 0"
    assert accept([]).read_rows([(0,)]) == 0


@pytest.mark.parametrize(
    ("start", "written"),
    [
        ("latest", "latest"),
        ("earliest", "earliest"),
        (5, {"tick": 5}),
        (2**40, {"tick": 2**40}),
        (NOW, {"time": "2030-01-01T00:00:00+00:00"}),
    ],
)
def test_a_start_is_a_word_a_tick_or_a_time(start, written):
    assert create(start=start).parameters[2].obj == {"start": written}


def test_options_have_their_sql_names_and_times_are_intervals():
    call = create(
        key="ev_extra1", when_waiting="skip", lease_s=0.5, max_attempts=3, backoff_max_s=1e-5
    )

    assert call.parameters[2].obj == {
        "start": "latest",
        "key": "ev_extra1",
        "when_waiting": "skip",
        "lease": "0.500000 seconds",
        "max_attempts": 3,
        "backoff_max": "0.000010 seconds",
    }


def test_none_goes_as_null_which_is_the_default():
    call = share_groups.set_group_options("l", "g", lease_s=None, max_attempts=None)

    assert call.parameters[2].obj == {"lease": None, "max_attempts": None}


def test_a_claim_of_its_own_transaction_commits_asynchronously_and_no_other_unless_asked_to():
    assert claim().sql.endswith("%s::interval, true, %s::text[], %s::boolean)")
    assert claim(synchronous=False).sql == claim().own_transaction_sql
    assert claim().own_transaction_sql.endswith("%s::interval, false, %s::text[], %s::boolean)")
    assert accept(7).own_transaction_sql is None
    assert share_groups.renew("l", "g", 7).own_transaction_sql is None


def test_every_parameter_is_cast_so_that_no_overload_is_ambiguous():
    calls = [
        create(),
        share_groups.set_group_options("l", "g"),
        share_groups.drop_group("l", "g"),
        share_groups.list_groups(None),
        share_groups.group_info("l", "g"),
        claim(),
        accept(7),
        share_groups.renew("l", "g", 7, lease_s=30),
        share_groups.list_claims("l", "g"),
        group_keys.list_blocked_keys("l", "g"),
        group_keys.unpark_key("l", "g", "k"),
    ]

    for call in calls:
        assert call.sql.count("%s") == call.sql.count("%s::") == len(call.parameters)


def test_a_claimed_event_is_frozen_and_goes_to_other_processes():
    one = event()

    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one
    assert len({one, event()}) == 1
    with pytest.raises(FrozenInstanceError):
        one.claim_id = 8
