"""sluice.list_groups, _group_state: lag, leased, retrying events and dead letters of a share group."""

from __future__ import annotations

import psycopg
import pytest

from support import value
from support.log import error_of, tick
from support.share_groups import (
    acknowledge,
    claim,
    claimed,
    create_group,
    info,
    let_pass,
    send,
    send_many,
    take_all,
)


def sums(connection: psycopg.Connection) -> tuple:
    state = info(connection)
    return state.leased, state.retrying, state.dead


def test_a_new_group_has_nothing(connection, group):
    state = info(connection)

    assert (state.lag_events, state.lag_s) == (0, 0)
    assert sums(connection) == (0, 0, 0)


@pytest.mark.parametrize("ticks", [False, True], ids=["no ticks", "ticks"])
def test_lag_counts_unclaimed_events(connection, group, ticks):
    send_many(connection, 10)
    if ticks:
        tick(connection)
    assert info(connection).lag_events == 10
    claimed(connection, 3)
    assert info(connection).lag_events == 7
    assert 0 <= info(connection).lag_s < 60

    take_all(connection)

    assert (info(connection).lag_events, info(connection).lag_s) == (0, 0)


@pytest.mark.parametrize("far", ["infinity", "-infinity"])
def test_an_oldest_event_with_an_infinite_time_has_no_lag_in_time(connection, group, far):
    connection.execute(
        "select pgq.insert_event_raw('changes', null, %s, null, null, 't', '1', null, null, null, null)",
        [far],
    )
    tick(connection)

    assert (info(connection).lag_events, info(connection).lag_s) == (1, 0)
    assert value(connection, "select count(*) from sluice.explain_group('changes', 'workers')") > 0


def test_the_lag_in_time_is_that_of_the_oldest_events(connection, group):
    for hours in (3, 2):
        connection.execute(
            """select pgq.insert_event_raw(
                'changes', null, clock_timestamp() - make_interval(hours => %s), null, null,
                't', 'd', null, null, null, null)""",
            (hours,),
        )
    assert 3 * 3600 <= info(connection).lag_s < 3 * 3600 + 60
    claimed(connection)
    assert 2 * 3600 <= info(connection).lag_s < 2 * 3600 + 60


def test_rolled_back_events_are_not_lag(connection, group):
    with connection.transaction(force_rollback=True):
        send_many(connection, 10)

    assert info(connection).lag_events == 0


def test_events_are_leased_then_redelivered_or_dead_lettered(connection, group):
    send_many(connection, 6)
    events = claim(connection, 5)
    claim_id = events[0].claim_id
    assert sums(connection) == (5, 0, 0)
    acknowledge(connection, claim_id, "accept", [1])
    assert sums(connection) == (4, 0, 0)
    acknowledge(connection, claim_id, "retry", [2], delay="1 hour")
    assert sums(connection) == (3, 1, 0)
    acknowledge(connection, claim_id, "release", [3])
    assert sums(connection) == (2, 2, 0)
    acknowledge(connection, claim_id, "reject", [4])
    assert sums(connection) == (1, 2, 1)
    # A claim has read them; they are counted once.
    assert claimed(connection, 1) == [3]
    assert sums(connection) == (2, 1, 1)


def test_a_lease_that_ended_is_counted_where_it_is(connection, group):
    send(connection, *"ab")
    claim(connection)
    let_pass(connection)

    assert sums(connection) == (1, 0, 0)
    claimed(connection)
    assert sums(connection) == (1, 0, 0)


def test_it_changes_nothing(connection, group):
    send(connection, "a")
    with connection.transaction():
        connection.execute("set transaction read only")
        info(connection)

    assert claimed(connection) == [1]


def test_unknown_names_are_named(connection, group):
    assert error_of(connection, "select sluice.list_groups('none', 'workers')")[0] == "PQ001"
    assert error_of(connection, "select sluice.list_groups('changes', 'none')")[0] == "SG001"


def test_groups_are_independent(connection, group):
    create_group(connection, "others")
    send(connection, *"ab")
    claim(connection, 2)

    assert info(connection, "others").leased == 0
    assert info(connection, "others").lag_events == 2


@pytest.mark.parametrize(
    "member", ["pgq_admin", "pgq_reader", "sluice_admin", "sluice_monitor", "sluice_reader"]
)
@pytest.mark.parametrize(
    "call",
    ["list_groups('changes', 'workers')", "list_groups()", "list_claims('changes', 'workers')"],
)
def test_readers_and_monitors_look(connection, group, as_member, member, call):
    send(connection, "a")
    claim(connection)

    assert len(as_member(member, f"select * from sluice.{call}")) == 1


@pytest.mark.parametrize("member", ["pgq_writer", "sluice_writer"])
@pytest.mark.parametrize(
    "call",
    ["list_groups('changes', 'workers')", "list_groups()", "list_claims('changes', 'workers')"],
)
def test_writers_cannot_look(connection, group, as_member, member, call):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member(member, f"select * from sluice.{call}")


@pytest.mark.slow
def test_a_backlog_of_100000_events_is_not_counted_one_by_one(connection, group, buffers):
    for _ in range(50):
        send_many(connection, 2000)
        tick(connection)
    claimed(connection, 10)

    assert info(connection).lag_events == 99990
    assert buffers("select sluice.list_groups('changes', 'workers')") < 1000
    assert value(connection, "select lag_s < 3600 from sluice.list_groups('changes', 'workers')")


def test_dead_letters_are_counted_up_to_10000(connection, group):
    connection.execute(
        "insert into sluice.dead_letter (queue_name, consumer_name, msg_id, read_ct, enqueued_at, reason) "
        "select 'changes', 'workers', n, 1, now(), 'rejected' from generate_series(1, 10010) as n"
    )

    assert info(connection).dead == 10_000
