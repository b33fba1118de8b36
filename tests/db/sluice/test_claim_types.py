"""Claims of members that handle a part of the event types of their share group.

Covers _member_types, _leave, _take_left, _take_key and _store_types.
"""

from __future__ import annotations

import pytest

from support import value
from support.explaining import explain
from support.share_groups import LOG, acknowledge, create_group, info, make_log
from support.share_types import GROUP, claim, declare, handle, make_typed, send, switch


@pytest.fixture
def typed(connection):
    return make_typed(connection)


@pytest.mark.parametrize("first", ["paid", "shipped"])
def test_members_of_two_types_get_each_their_own_in_either_order(typed, first):
    second = {"paid": "shipped", "shipped": "paid"}[first]
    send(typed, *["paid", "shipped"] * 5)

    assert handle(typed, 100, first) == [first] * 5
    assert handle(typed, 100, first) == []
    assert info(typed).lag_events == 5
    assert [handle(typed, 2, second) for _ in range(4)] == [
        [second] * 2,
        [second] * 2,
        [second],
        [],
    ]
    assert info(typed).lag_events == 0


def test_left_event_keeps_its_attempts_and_its_place(typed):
    send(typed, "shipped", "shipped")
    (event, _) = claim(typed, 2, "shipped")
    acknowledge(typed, event.claim_id, "retry", delay="0")

    assert claim(typed, 10, "paid") == []
    assert [(e.ev_id - event.ev_id, e.attempt) for e in claim(typed, 10, "shipped")] == [
        (0, 2),
        (1, 2),
    ]


def test_left_events_survive_a_switch_of_the_ledgers(typed):
    send(typed, "shipped", "paid", "shipped")
    assert handle(typed, 10, "paid") == ["paid"]
    assert handle(typed, 1, "shipped") == ["shipped"]

    for _ in range(2):
        switch(typed)

    open_claim = claim(typed, 10, "shipped")
    assert [event.ev_type for event in open_claim] == ["shipped"]
    switch(typed)
    acknowledge(typed, open_claim[0].claim_id, "release", [open_claim[0].ev_id])
    assert handle(typed, 10, every=True) == ["shipped"]


def test_handler_of_all_other_types_leaves_declared_ones_and_takes_the_rest(typed):
    declare(typed, on_rest=None)
    send(typed, "paid", None, "new", "shipped", "")

    assert handle(typed, 10, "paid") == ["paid"]
    assert sorted(handle(typed, 10, others=True), key=str) == ["", None, "new"]
    assert handle(typed, 10, "shipped") == ["shipped"]


def test_member_without_types_takes_all_also_what_others_left(typed):
    send(typed, "paid", "shipped")
    assert claim(typed, 10, "neither") == []
    send(typed, "paid")

    assert sorted(handle(typed, 10, every=True)) == ["paid", "paid", "shipped"]


@pytest.mark.parametrize(
    ("unhandled", "taken"), [("accept", ["new"]), ("dead-letter", ["new"]), ("leave", [])]
)
def test_type_that_no_handler_is_declared_for_is_claimed_unless_the_group_leaves_it(
    typed, unhandled, taken
):
    typed.execute(
        "select sluice.set_group_options(%s, %s, jsonb_build_object('unhandled', %s::text))",
        (LOG, GROUP, unhandled),
    )
    send(typed, "new", "shipped")

    assert handle(typed, 10, "paid") == taken
    declare(typed, on_new="new")
    assert handle(typed, 10, "new") == ([] if taken else ["new"])


@pytest.fixture
def keyed(connection):
    make_log(connection)
    create_group(connection, key="ev_extra1", backoff="constant", backoff_base="0")
    declare(connection, on_paid="paid", on_shipped="shipped")
    return connection


def test_key_waits_for_the_member_of_its_next_event(keyed):
    send(keyed, "paid", "shipped", "shipped", "paid", key="a")
    send(keyed, "paid", key="b")
    send(keyed, "shipped", "paid", key="c")

    events = claim(keyed, 10, "paid")
    assert [(event.ev_type, event.key) for event in events] == [("paid", "a"), ("paid", "b")]
    assert [event.key for event in claim(keyed, 10, "shipped")] == ["c"]
    acknowledge(keyed, events[0].claim_id)
    assert claim(keyed, 10, "paid") == []
    events = claim(keyed, 10, "shipped")
    assert [(event.ev_type, event.key) for event in events] == [("shipped", "a")] * 2
    acknowledge(keyed, events[0].claim_id, "release", [events[0].ev_id])
    assert claim(keyed, 10, "paid") == []
    assert handle(keyed, 10, "shipped") == ["shipped"] * 2
    assert handle(keyed, 10, "paid") == ["paid"]


def test_claim_returns_the_key_that_orders(keyed):
    send(keyed, "paid", key="a")
    assert [event.key for event in claim(keyed, 10, "paid")] == ["a"]


def test_due_time_is_now_while_events_of_the_types_are_left(typed):
    due = "select sluice.next_group_due(%s, %s, null, array[%s], false) <= clock_timestamp()"
    send(typed, "shipped")
    claim(typed, 10, "paid")

    assert value(typed, due, LOG, GROUP, "shipped") is True
    assert value(typed, due, LOG, GROUP, "paid") is None


def test_explain_names_the_handler_that_a_type_waits_for(typed):
    send(typed, "shipped", "shipped")
    claim(typed, 10, "paid")

    (fact,) = (
        fact for fact in explain(typed, "explain_group", LOG, GROUP) if fact.cause == "type waits"
    )
    assert fact.fact == (
        "2 events of type shipped waiting for handler on_shipped of app shop, "
        "which no live worker runs"
    )


def test_explain_names_a_type_without_a_handler(typed):
    typed.execute(
        "select sluice.note_unhandled(%s, %s, 'accept', array['x'], array[2::bigint])", (LOG, GROUP)
    )

    assert [
        fact.fact
        for fact in explain(typed, "explain_group", LOG, GROUP)
        if fact.cause == "type unhandled"
    ] == [
        "No handler is declared for type x: workers accepted 2 events of it and dead-lettered 0, the last one"
    ]
