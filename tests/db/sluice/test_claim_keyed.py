"""Groups with keys: one consumer at a time gets the events of a key, in log order.

Covers sluice._take_keyed_events, _sort_events, _take_keyed_redeliveries, _end_turns, _last_turn,
_parked_keys, _write_key_events, _write_returned, _write_turns and _write_waiting.
"""

from __future__ import annotations

import pytest

from support import replace_in, rows, value
from support.log import error_of, tick
from support.share_groups import (
    acknowledge,
    claim,
    create_group,
    dead,
    info,
    let_pass,
    make_log,
    renew,
    rotate,
    send,
)
from support.share_keys import blocked, claimed_keys, make_keyed, send_keys, unpark

BLOCK_PARK = pytest.mark.parametrize("when_waiting", ["block", "park"])
EACH = pytest.mark.parametrize("when_waiting", ["block", "skip", "park"])


# One claim at a time for a key


@EACH
def test_a_claim_has_several_events_of_a_key_in_the_order_of_the_log(connection, when_waiting):
    make_keyed(connection, when_waiting)
    send_keys(connection, "abab")

    assert claimed_keys(connection)[1] == "a1 b2 a3 b4"


@EACH
def test_while_a_claim_has_a_key_others_get_other_keys(connection, when_waiting):
    make_keyed(connection, when_waiting)
    send_keys(connection, "abaca-")
    claim_id, first = claimed_keys(connection, 1)

    assert first == "a1"
    assert claimed_keys(connection, 3)[1] == "b2 c4"
    assert claimed_keys(connection, 3)[1] == "-6"
    assert claimed_keys(connection) == (None, "")
    acknowledge(connection, claim_id)
    assert claimed_keys(connection)[1] == "a3 a5"


def test_a_key_is_free_when_all_its_events_of_the_claim_are_settled(connection):
    make_keyed(connection)
    send_keys(connection, "aaaa")
    claim_id, _ = claimed_keys(connection, 2)
    acknowledge(connection, claim_id, ev_ids=[1])

    assert claimed_keys(connection) == (None, "")
    acknowledge(connection, claim_id, "reject", ev_ids=[2])
    assert claimed_keys(connection)[1] == "a3 a4"


def test_a_key_in_a_claim_that_is_settled_and_not_committed_is_not_free(database, connection):
    make_keyed(connection)
    send_keys(connection, "aa")
    claim_id, _ = claimed_keys(connection, 1)
    with database.connect(autocommit=False) as consumer:
        acknowledge(consumer, claim_id)

        assert claimed_keys(connection) == (None, "")
        consumer.commit()
    assert claimed_keys(connection)[1] == "a2"


def test_events_without_a_key_have_no_order(connection):
    make_keyed(connection)
    send_keys(connection, "---")
    claimed_keys(connection, 1)
    second, _ = claimed_keys(connection, 1)
    acknowledge(connection, second, "retry", delay="1 hour")

    assert claimed_keys(connection)[1] == "-3"
    let_pass(connection)
    assert claimed_keys(connection)[1] == "-1 -2 -3"


def test_events_wait_for_their_key_in_the_order_of_the_log_over_many_windows(connection):
    make_keyed(connection)
    send_keys(connection, "a")
    claim_id, _ = claimed_keys(connection)
    for keys in ["ab", "a", "ba"]:
        send_keys(connection, keys)
        tick(connection)
        claimed_keys(connection)
    acknowledge(connection, claim_id)

    assert claimed_keys(connection, 2)[1] == "a2 a4"
    assert claimed_keys(connection) == (None, "")


# Delayed redelivery: when_waiting


def test_block_keeps_later_events_behind_one_that_waits(connection):
    make_keyed(connection, "block")
    send_keys(connection, "aab")
    claim_id, _ = claimed_keys(connection)

    assert acknowledge(connection, claim_id, "retry", [1], delay="1 hour") == 2
    send_keys(connection, "ab")
    assert claimed_keys(connection) == (None, "")
    acknowledge(connection, claim_id)
    assert claimed_keys(connection)[1] == "b5"
    let_pass(connection)
    events = [event for event in claim(connection, 10) if event.ev_extra1 == "a"]
    assert [(e.ev_id, e.attempt, e.deliveries) for e in events] == [(1, 2, 2), (2, 1, 1), (4, 1, 1)]


@BLOCK_PARK
def test_event_released_behind_another_is_no_longer_leased(connection, when_waiting):
    make_keyed(connection, when_waiting)
    send_keys(connection, "aa")
    claim_id, _ = claimed_keys(connection)
    acknowledge(connection, claim_id, "retry", [1])

    assert (
        error_of(
            connection,
            "select sluice.acknowledge('changes', 'workers', %s, 'accept', array[2])",
            claim_id,
        )[0]
        == "SG002"
    )


def test_repeated_acknowledgement_settles_nothing_more(connection):
    make_keyed(connection)
    send_keys(connection, "aaa")
    claim_id, _ = claimed_keys(connection)

    assert acknowledge(connection, claim_id, "retry", [2]) == 2
    assert acknowledge(connection, claim_id, "retry", [2]) == 0
    assert acknowledge(connection, claim_id) == 1


def test_after_the_last_attempt_nothing_goes_back_and_the_key_goes_on(connection):
    make_keyed(connection, max_attempts=1)
    send_keys(connection, "aaa")
    claim_id, _ = claimed_keys(connection, 2)

    assert acknowledge(connection, claim_id, "retry", [1]) == 1
    assert acknowledge(connection, claim_id, ev_ids=[2]) == 1
    assert claimed_keys(connection)[1] == "a3"


def test_retried_one_by_one_they_come_in_the_order_of_the_log_at_the_latest_time(connection):
    make_keyed(connection)
    send_keys(connection, "aaaa")
    claim_id, _ = claimed_keys(connection)
    acknowledge(connection, claim_id, "retry", [3], delay="1 hour")
    acknowledge(connection, claim_id, "release", [1], delay="2 hours")

    let_pass(connection)
    assert claimed_keys(connection) == (None, "")
    let_pass(connection)
    assert claimed_keys(connection)[1] == "a1 a2 a3 a4"


def test_skip_lets_later_events_pass_one_that_waits(connection):
    make_keyed(connection, "skip")
    send_keys(connection, "aaa")
    claim_id, _ = claimed_keys(connection, 2)

    assert acknowledge(connection, claim_id, "retry", [1], delay="1 hour") == 1
    assert claimed_keys(connection) == (None, "")
    acknowledge(connection, claim_id)
    second, events = claimed_keys(connection)
    assert events == "a3"
    let_pass(connection, "1 hour")
    assert renew(connection, second, "1 hour")
    assert claimed_keys(connection) == (None, ""), "another claim has the key"
    send_keys(connection, "a")
    acknowledge(connection, second)
    assert claimed_keys(connection)[1] == "a1 a4"


@EACH
@pytest.mark.parametrize("how", ["release", "retry", "expire"])
def test_immediate_redelivery_precedes_later_events(connection, when_waiting, how):
    make_keyed(connection, when_waiting)
    send_keys(connection, "aaab")
    claim_id, _ = claimed_keys(connection, 2)
    if how == "expire":
        let_pass(connection)
    else:
        acknowledge(connection, claim_id, how, delay="0")

    assert claimed_keys(connection)[1] == "a1 a2 a3 b4"


def test_expired_lease_settled_in_part_releases_the_rest(connection):
    make_keyed(connection)
    send_keys(connection, "aaba")
    claim_id, _ = claimed_keys(connection, 3)
    acknowledge(connection, claim_id, ev_ids=[1])
    let_pass(connection)

    assert claimed_keys(connection)[1] == "a2 b3 a4"
    assert (
        error_of(connection, "select sluice.acknowledge('changes', 'workers', %s)", claim_id)[0]
        == "SG002"
    )


def test_park_puts_aside_the_event_that_waits_and_all_later_ones(connection):
    make_keyed(connection, "park")
    send_keys(connection, "aaba")
    claim_id, _ = claimed_keys(connection, 3)

    assert acknowledge(connection, claim_id, "retry", [1], error="broken") == 2
    send_keys(connection, "ac")
    assert claimed_keys(connection)[1] == "c6"
    assert [row[:3] for row in dead(connection)] == [
        (1, "parked", "broken"),
        (2, "parked", None),
        (4, "parked", None),
        (5, "parked", None),
    ]
    let_pass(connection)
    assert claimed_keys(connection)[1] == "b3 c6"


def test_a_key_is_not_parked_any_more_when_its_parked_events_are_gone(connection):
    make_keyed(connection, "park")
    send_keys(connection, "aa")
    claim_id, _ = claimed_keys(connection, 1)
    acknowledge(connection, claim_id, "retry")
    assert claimed_keys(connection) == (None, "")
    connection.execute("delete from sluice.dead_letter")
    send_keys(connection, "a")

    assert claimed_keys(connection)[1] == "a3"


def test_events_of_a_parked_key_are_set_aside_in_bounded_steps(connection):
    make_keyed(connection, "park")
    replace_in(
        connection,
        "sluice._take_key(sluice.share_group,integer,text[],boolean,text,sluice.claim)",
        "v_parked_max constant integer := 1000",
        "v_parked_max constant integer := 2",
    )
    replace_in(
        connection,
        "sluice._take_keyed_redeliveries(sluice.share_group,integer,text[],boolean,sluice.claim)",
        "v_looks_max constant integer := 1000",
        "v_looks_max constant integer := 1",
    )
    send_keys(connection, "aaaaaa")
    claim_id, _ = claimed_keys(connection, 1)
    assert claimed_keys(connection) == (None, "")
    acknowledge(connection, claim_id, "retry")

    assert claimed_keys(connection) == (None, "")
    assert [row[0] for row in dead(connection)] == [1, 2, 3]
    send_keys(connection, "a")
    assert unpark(connection, "a") == 3
    assert claimed_keys(connection)[1] == "a1 a2 a3 a4 a5 a6 a7"


# Cost


def test_events_that_wait_are_met_once_and_others_are_reached_behind_them(connection):
    make_keyed(connection)
    send_keys(connection, "a")
    claimed_keys(connection)
    connection.execute(
        "select pgq.insert_event('changes', 't', 'd', 'a', null, null, null) from generate_series(1, 5000)"
    )
    send_keys(connection, "b")

    assert claimed_keys(connection, 1)[1] == "b5002"
    assert value(connection, "select count(*) from sluice.waiting_event") == 5000
    send_keys(connection, "b")
    assert claimed_keys(connection, 1) == (None, "")
    assert value(connection, "select count(*) from sluice.waiting_event") == 5001


def test_a_claim_looks_at_a_bounded_number_of_events(connection):
    make_keyed(connection)
    replace_in(
        connection,
        "sluice._take_keyed_events(sluice.share_group,integer,text[],boolean,sluice.claim)",
        "v_looked_max constant integer := 10000",
        "v_looked_max constant integer := 10",
    )
    send_keys(connection, "a")
    claimed_keys(connection)
    send_keys(connection, "a" * 30 + "b")

    assert claimed_keys(connection, 5) == (None, "")
    assert claimed_keys(connection, 5)[1] == "b32"


def test_the_log_is_not_kept_for_events_that_are_claimed_or_wait(connection):
    make_keyed(connection)
    send_keys(connection, "aab")
    tick(connection)
    claimed_keys(connection, 1)
    assert claimed_keys(connection)[1] == "b3"
    connection.execute("update sluice.claim set moved_at = '-infinity'")
    claimed_keys(connection)
    tick(connection)
    rotate(connection)

    assert (
        value(
            connection,
            "select last_tick from pgq.get_consumer_info('changes', 'workers')",
        )
        >= 2
    )
    let_pass(connection)
    assert claimed_keys(connection)[1] == "a1 a2 b3"


def test_the_state_of_the_group_counts_what_waits(connection):
    make_keyed(connection)
    send_keys(connection, "aaaab")
    claim_id, _ = claimed_keys(connection, 2)
    claimed_keys(connection)
    assert (info(connection).leased, info(connection).lag_events) == (3, 2)
    acknowledge(connection, claim_id, "retry")
    claimed_keys(connection)

    state = info(connection)
    assert (state.leased, state.retrying, state.lag_events) == (1, 2, 2)


def test_emptied_ledgers_keep_what_waits_and_whose_turn_it_is(connection):
    make_keyed(connection)
    send_keys(connection, "aabbcc")
    first, _ = claimed_keys(connection, 1)
    second, events = claimed_keys(connection, 1)
    assert events == "b3"
    third, events = claimed_keys(connection)
    assert events == "c5 c6"
    acknowledge(connection, third)
    acknowledge(connection, second, "retry")
    assert claimed_keys(connection) == (None, "")
    for _ in range(3):
        connection.execute("update sluice.ledger set kept_bytes = 0")
        assert value(connection, "select action from sluice._maintain_ledgers(0)") == "emptied"

    assert value(connection, "select count(*) from sluice.key_turn") == 2
    assert value(connection, "select count(*) from sluice.waiting_event") == 3
    assert value(connection, "select count(*) from sluice.key_event") == 1
    assert {key: row.reason for key, row in blocked(connection).items()} == {
        "a": "claimed",
        "b": "retrying",
    }
    acknowledge(connection, first)
    let_pass(connection)
    assert claimed_keys(connection)[1] == "a2 b3 b4"


# Keys


def test_a_path_into_the_data_is_a_key(connection):
    make_keyed(connection, key="$.customer.id")
    for data in ['{"customer": {"id": 7}}', '{"customer": {"id": 7}}', "no json", "{}", None]:
        connection.execute("select pgq.insert_event('changes', 't', %s)", (data,))
    claimed_keys(connection, 1)

    assert [event.ev_id for event in claim(connection, 10)] == [3, 4, 5]


def test_a_group_with_another_key_is_another_group(connection):
    make_keyed(connection)

    code, message = error_of(
        connection,
        """select sluice.create_group('changes', 'workers', '{"key": "ev_extra2"}')""",
    )
    assert (code, message) == ("SG004", "share group 'workers' exists with another key")
    assert rows(connection, "select key, when_waiting from sluice.list_groups('changes')") == [
        ("ev_extra1", "block")
    ]


def test_a_claim_of_a_billion_events_and_a_billion_attempts_fits(connection):
    make_log(connection)
    create_group(connection, key="ev_type", max_attempts=10**9)
    send(connection, "one", "two")
    connection.execute("select pgq.ticker(%s)", ("changes",))

    assert len(claim(connection, 1)) == 1
    assert claim(connection, 10**9) == []  # the other event waits for its key
    assert value(connection, "select max_deliveries from sluice.share_group") == 2**31 - 1
