"""sluice.claim: contents and order of claims, leases, errors, privileges and cost."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from support import replace_in, rows, value
from support.log import error_of, give_up, tick
from support.share_groups import (
    GROUP,
    LOG,
    acknowledge,
    claim,
    claimed,
    create_group,
    info,
    let_pass,
    make_log,
    open_claims,
    refused,
    send,
    send_many,
    take_all,
)

MAX = 2**63 - 1


def insert_raw(connection: psycopg.Connection, ev_id: int | None, owner: int | None = None) -> None:
    connection.execute(
        "select pgq.insert_event_raw(%s, %s, now(), %s, null, 't', 'd', null, null, null, null)",
        (LOG, ev_id, owner),
    )


def fill_ledgers(connection: psycopg.Connection, claims: int) -> None:
    """Claim and accept events one by one, the given number of times."""
    send_many(connection, claims)
    connection.execute(
        f"""do $$
        declare
            v_claim_id bigint;
        begin
            for n in 1 .. {claims}
            loop
                select c.claim_id into v_claim_id from sluice.claim('changes', 'workers') as c;
                perform sluice.acknowledge('changes', 'workers', v_claim_id);
            end loop;
        end;
        $$"""
    )


# Contents and order


def test_an_empty_log_gives_nothing_and_keeps_nothing(connection, group):
    before = value(connection, "select count(*) from sluice.claim")

    for _ in range(3):
        assert claim(connection, 10) == []

    assert value(connection, "select count(*) from sluice.claim") == before


def test_one_event_is_the_default(connection, group):
    send(connection, *"abc")

    assert rows(connection, "select ev_id from sluice.claim(%s, %s)", LOG, GROUP) == [(1,)]


def test_an_event_comes_with_all_of_its_fields(connection, group):
    connection.execute("select pgq.insert_event(%s, 'type', 'data', 'x1', null, '', 'x4')", (LOG,))
    (stored,) = rows(connection, "select ev_id, ev_time, ev_txid::text::bigint from pgq.event_1")

    (event,) = claim(connection)

    assert (event.ev_id, event.ev_time, int(event.ev_txid)) == stored
    assert event[-7:] == ("type", "data", "x1", None, "", "x4", None)
    assert (event.attempt, event.deliveries, event.redriven) == (1, 1, 0)


def test_no_event_is_claimed_twice_and_all_of_a_claim_have_one_number(connection, group):
    send_many(connection, 10)
    claims = [claim(connection, 3) for _ in range(5)]

    assert [[event.ev_id for event in events] for events in claims] == [
        [1, 2, 3],
        [4, 5, 6],
        [7, 8, 9],
        [10],
        [],
    ]
    numbers = [{event.claim_id for event in events} for events in claims[:4]]
    assert all(len(each) == 1 for each in numbers)
    assert sorted(numbers, key=min) == numbers
    assert len(set.union(*numbers)) == 4


def test_events_need_no_tick(connection, group):
    send(connection, "a")
    tick(connection)
    send(connection, "b")

    assert claimed(connection, 10) == [1]
    assert claimed(connection, 10) == [2]


def test_the_windows_of_many_ticks_are_one_where_they_are_small(connection, group):
    for _ in range(5):
        send(connection, *"abc")
        tick(connection)

    assert claimed(connection, 15) == list(range(1, 16))


@pytest.mark.parametrize("ticks", [False, True], ids=["no ticks", "ticks"])
def test_a_backlog_comes_in_the_order_of_its_numbers(connection, group, ticks):
    for _ in range(5):
        send_many(connection, 1000)
        if ticks:
            tick(connection)

    assert take_all(connection) == list(range(1, 5001))


def test_numbers_of_their_own_come_in_their_order_and_once(connection, group):
    for number in (7, MAX, -5, 0, 2**40, -(2**62)):
        insert_raw(connection, number)
    send(connection, "a")

    assert take_all(connection) == [-(2**62), -5, 0, 7, 7, 2**40, MAX]
    insert_raw(connection, 3)
    insert_raw(connection, -5)
    assert take_all(connection) == [-5, 3]


def test_numbers_of_their_own_come_one_by_one_too(connection, group):
    for number in (7, MAX, -5, 2**40):
        insert_raw(connection, number)
    send(connection, "a")

    assert [claimed(connection) for _ in range(6)] == [[-5], [5], [7], [2**40], [MAX], []]


@pytest.mark.parametrize("number", [-(2**63), -(2**63) + 1])
def test_the_smallest_numbers_come_too(connection, group, number):
    insert_raw(connection, number)
    send(connection, "a")

    assert [claimed(connection) for _ in range(3)] == [[number], [2], []]


def test_events_that_share_a_number_come_together(connection, group):
    for number in (50, 50, 50, 60, 60):
        insert_raw(connection, number)

    assert [claimed(connection) for _ in range(3)] == [[50, 50, 50], [60, 60], []]


def test_events_that_are_repeated_for_another_consumer_are_not_claimed(connection, group):
    connection.execute("select pgq.register_consumer(%s, 'lake')", (LOG,))
    send(connection, "a")
    tick(connection)
    batch = value(connection, "select pgq.next_batch(%s, 'lake')", LOG)
    connection.execute("select pgq.event_retry(%s, 1, 0)", (batch,))
    connection.execute("select pgq.maint_retry_events()")
    assert value(connection, "select count(*) from pgq.event_1") == 2

    assert take_all(connection) == [1]


def test_groups_and_logs_are_independent(connection, group):
    create_group(connection, "others")
    make_log(connection, "second")
    create_group(connection, log="second")
    send(connection, *"ab")
    send(connection, "c", log="second")

    first = claim(connection)
    assert claimed(connection, 10, group="others") == [1, 2]
    assert [event.ev_data for event in claim(connection, 10, log="second")] == ["c"]
    acknowledge(connection, first[0].claim_id)
    assert claimed(connection, 10) == [2]
    assert (info(connection).leased, info(connection, "others").leased) == (1, 2)


def test_redeliveries_come_first_in_order_of_their_time(connection, group):
    send_many(connection, 6)
    first, second, third = (claim(connection)[0] for _ in range(3))
    acknowledge(connection, third.claim_id, "release")
    acknowledge(connection, first.claim_id, "retry", delay="2 hours")
    acknowledge(connection, second.claim_id, "retry", delay="1 hour")

    assert claimed(connection, 3) == [3, 4, 5]
    let_pass(connection, "3 hours")
    assert claimed(connection, 2) == [2, 1]


def test_claim_returns_redeliveries_before_new_events(connection, group):
    send_many(connection, 4)
    events = claim(connection, 2)
    acknowledge(connection, events[0].claim_id, "retry", [2], delay="0")

    again = claim(connection, 3)

    assert [(e.ev_id, e.attempt, e.deliveries) for e in again] == [(2, 2, 2), (3, 1, 1), (4, 1, 1)]
    assert len({event.claim_id for event in again}) == 1


# Leases


def test_the_lease_is_the_groups_or_the_callers(connection, group):
    send(connection, *"ab")
    now = value(connection, "select clock_timestamp()")

    (first,), (second,) = claim(connection), claim(connection, 1, "2 hours")

    second_s = timedelta(seconds=1)
    assert timedelta(seconds=30) <= first.lease_until - now < timedelta(seconds=30) + 5 * second_s
    assert timedelta(hours=2) <= second.lease_until - now < timedelta(hours=2) + 5 * second_s
    ends = {n: c.lease_until for n, c in open_claims(connection).items()}
    assert ends == {e.claim_id: e.lease_until for e in (first, second)}


def test_a_lease_that_ended_is_claimed_again_and_counts_as_a_delivery_only(connection, group):
    send(connection, *"ab")
    (first,) = claim(connection)
    assert claimed(connection) == [2]

    let_pass(connection)

    again = claim(connection, 10)
    assert [(e.ev_id, e.attempt, e.deliveries) for e in again] == [(1, 1, 2), (2, 1, 2)]
    assert again[0].claim_id != first.claim_id


def test_expired_lease_of_a_consumer_that_acknowledged_is_an_attempt(connection, group):
    send(connection, *"ab")
    (event, _) = claim(connection, 2)
    acknowledge(connection, event.claim_id, "accept", [1])

    let_pass(connection)

    assert [(e.ev_id, e.attempt, e.deliveries) for e in claim(connection, 10)] == [(2, 2, 2)]


def test_a_lease_that_has_not_ended_is_left_alone(connection, group):
    send(connection, "a")
    claim(connection, 1, "2 hours")
    let_pass(connection, "1 hour")

    assert claimed(connection) == []


def test_more_leases_than_one_claim_checks_all_expire(connection, group):
    replace_in(
        connection,
        "sluice._expire_leases(sluice.share_group,sluice.claim)",
        "v_leases_max constant integer := 1000",
        "v_leases_max constant integer := 3",
    )
    send_many(connection, 10)
    for _ in range(10):
        claim(connection)
    let_pass(connection)

    found: list[int] = []
    for _ in range(20):
        let_pass(connection, "1 second")
        found += claimed(connection)
    assert sorted(found) == list(range(1, 11))


def test_a_clock_that_was_put_back_holds_nothing_up_for_ever(connection, group):
    send(connection, *"abc")
    first = claim(connection)[0]
    acknowledge(connection, first.claim_id, "retry", delay="0")
    assert claimed(connection) == [1]
    let_pass(connection, "-1 hour")

    assert claimed(connection) == [2]
    let_pass(connection, "2 hours")
    assert sorted(claimed(connection, 10)) == [1, 2, 3]


# Commits


def test_claim_waits_for_its_commit_unless_disabled(connection, group):
    send(connection, *"ab")
    connection.execute("set synchronous_commit = 'local'")
    with connection.transaction():
        claim(connection)
        assert value(connection, "show synchronous_commit") == "local"
        claim(connection, synchronous=False)
        assert value(connection, "show synchronous_commit") == "off"

    assert value(connection, "show synchronous_commit") == "local"


def test_a_rolled_back_claim_has_claimed_nothing(connection, group):
    send(connection, "a")
    with connection.transaction(force_rollback=True):
        (first,) = claim(connection)

    (event,) = claim(connection)

    assert (event.ev_id, event.deliveries) == (1, 1)
    assert event.claim_id > first.claim_id, "a consumer may still hold the rolled back number"


# Errors


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("qty => 0", "0 events for the lease of the group"),
        ("qty => -1", "-1 events for the lease of the group"),
        ("qty => null", "null events for the lease of the group"),
        ("lease => '0'", "1 events for 00:00:00"),
        ("lease => '-1 second'", "1 events for -00:00:01"),
        ("lease => '101 years'", "1 events for 101 years"),
    ],
)
def test_invalid_quantity_or_lease_is_refused(connection, group, arguments, shown):
    error = refused(connection, f"select sluice.claim(%s, %s, {arguments})", LOG, GROUP)

    assert (error.sqlstate, error.diag.message_primary) == ("22023", f"invalid claim of {shown}")
    assert error.diag.message_hint == "claim 1 event or more, for more than 0 and up to 100 years"


def test_unknown_group_or_log_is_named(connection, group):
    error = refused(connection, "select sluice.claim('none', 'workers')")
    assert error.sqlstate == "PQ001"

    error = refused(connection, "select sluice.claim('changes', 'none')")
    assert (error.sqlstate, error.diag.message_primary) == (
        "SG001",
        "event log 'changes' has no share group 'none'",
    )
    assert error.diag.message_hint == "create it with sluice.create_group('changes', 'none')"


@pytest.mark.parametrize("arguments", ["null, 'workers'", "'changes', null"])
def test_a_null_name_is_unknown(connection, group, arguments):
    assert error_of(connection, f"select sluice.claim({arguments})")[0] in (
        "PQ001",
        "SG001",
        "22004",
    )


def test_a_consumer_that_is_no_group_has_no_claims(connection, group):
    connection.execute("select pgq.register_consumer('changes', 'lake')")

    assert error_of(connection, "select sluice.claim('changes', 'lake')")[0] == "SG001"


def test_claim_of_a_group_with_an_abandoned_position_is_an_error(connection, group):
    send(connection, "a")
    connection.execute("update sluice.share_group set lost = 'it was 30 events behind'")
    give_up(connection, "it was 30 events behind", GROUP)

    error = refused(connection, "select sluice.claim(%s, %s)", LOG, GROUP)

    assert error.sqlstate == "PQ006"
    assert "workers" in str(error)


# Privileges


@pytest.mark.parametrize("member", ["pgq_reader", "sluice_reader", "pgq_admin", "sluice_admin"])
def test_readers_claim(connection, group, as_member, member):
    send(connection, "a")

    assert as_member(member, "select ev_data from sluice.claim('changes', 'workers')") == [("a",)]


@pytest.mark.parametrize("member", ["pgq_writer", "sluice_writer", "sluice_monitor"])
def test_other_roles_cannot_claim(connection, group, as_member, member):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member(member, "select ev_data from sluice.claim('changes', 'workers')")


def test_a_reader_cannot_make_it_read_what_is_not_the_logs(connection, group, role):
    """Names do not resolve to the reader's temporary tables."""
    send(connection, "a")
    connection.execute(f"grant sluice_reader to {role}")
    with connection.transaction(force_rollback=True):
        connection.execute(f"set local role {role}")
        connection.execute("create temporary table event_1 (ev_id bigint)")
        connection.execute("create temporary table share_group (group_id integer)")
        connection.execute("set local search_path = pg_temp, sluice, pgq, public")
        assert claimed(connection) == [1]


# Cost


@pytest.mark.slow
@pytest.mark.parametrize("ticks", [False, True], ids=["no ticks", "ticks"])
def test_a_backlog_of_100000_events_makes_a_claim_read_no_more_pages(
    connection, group, buffers, ticks
):
    query = "select count(*) from sluice.claim('changes', 'workers', 10)"
    send_many(connection, 100)
    claimed(connection, 10)
    small = buffers(query)
    for _ in range(50):
        send_many(connection, 2000)
        if ticks:
            tick(connection)
    # The first claim of a window searches for late events once.
    claimed(connection, 100)
    claimed(connection, 10)

    assert buffers(query) <= 2 * small + 50


@pytest.mark.slow
def test_long_ledgers_make_a_claim_read_no_more_pages(connection, group, buffers):
    """The ledgers hold 10,000 settled claims and 2,000 events that wait for a retry."""
    query = "select count(*) from sluice.claim('changes', 'workers', 10)"
    send_many(connection, 200)
    for _ in range(3):
        claimed(connection, 10)
    small = buffers(query)
    fill_ledgers(connection, 10000)
    send_many(connection, 2000)
    for _ in range(200):
        events = claim(connection, 10)
        acknowledge(connection, events[0].claim_id, "retry", delay="10 hours")
    send_many(connection, 200)
    claimed(connection, 10)

    assert buffers(query) <= small + 250


@pytest.mark.slow
def test_the_end_of_one_long_claim_does_not_make_a_claim_read_all_that_came_after_it(
    connection, group
):
    send_many(connection, 1)
    (long,) = claim(connection, 1, "100 hours")
    fill_ledgers(connection, 10000)
    send_many(connection, 100)
    acknowledge(connection, long.claim_id)
    let_pass(connection, "2 seconds")

    # Under the lock, a claim reads a bounded part of a long ledger, here half of it.
    plan = value(
        connection,
        """explain (analyze, buffers, format json)
        select count(*) from sluice.claim('changes', 'workers', 10)""",
    )
    assert plan[0]["Plan"]["Shared Hit Blocks"] < 80000


@pytest.mark.slow
def test_a_late_transaction_does_not_make_a_claim_read_the_index_of_the_whole_log(
    database, connection, group
):
    """Few transactions wrote many events each, so the index by transaction looks poor to the planner."""
    for _ in range(6):
        send_many(connection, 10_000)
    while claimed(connection, 10_000):
        pass
    connection.execute("vacuum analyze")
    with database.connect() as late:
        late.execute("begin")
        late.execute("select pgq.insert_event(%s, 't', 'late')", (LOG,))
        send(connection, "a")
        assert len(claimed(connection, 10)) == 1
        late.execute("commit")
    send(connection, "b")

    entries = "select pg_stat_get_xact_tuples_returned('pgq.event_1_0_id_idx'::regclass)"
    with connection.transaction():
        before = value(connection, entries)
        assert len(claimed(connection, 10)) == 2
        assert value(connection, entries) - before < 100
