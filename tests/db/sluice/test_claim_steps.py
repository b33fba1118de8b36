"""Internal functions of claims and acknowledgements, where tests of the callers do not cover them.

Covers _last_claim, _lock_group, _wait_for_group, _require_group, _next_window, _read_outcomes,
_expire_lease, _expire_leases, _take_redeliveries, _next_look, _move_group and _write_claim;
_hold_claim, _refuse_claim, _unsettled, _settle, _write_outcome, _claimed_events, _redeliver,
_write_redelivery, _reject, _dead_letter and _backoff; _group_settings, _group_start and
_group_state.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from support import rows, value
from support.log import tick
from support.share_groups import (
    acknowledge,
    claim,
    claimed,
    create_group,
    info,
    let_pass,
    refused,
    renew,
    rotate,
    send,
    send_many,
    take_all,
)

POSITION = "select sub_last_tick from pgq.subscription"
FREE = "select from sluice.lock where class = 1936221042 for update skip locked"
ALL = "select from sluice.lock where class = 1936221042"


def locked(database):
    """Return the number of locked groups."""
    with database.connect() as other:
        return len(rows(other, ALL)) - len(rows(other, FREE))


# _backoff


@pytest.mark.parametrize(
    ("backoff", "base", "cap", "pauses"),
    [
        ("constant", "10 s", "1 hour", [10, 10, 10, 10]),
        ("linear", "10 s", "35 s", [10, 20, 30, 35]),
        ("exponential", "10 s", "1 hour", [10, 20, 40, 80]),
        ("exponential", "10 s", "30 s", [10, 20, 30, 30]),
        ("constant", "0", "1 hour", [0, 0, 0, 0]),
        ("exponential", "10 s", "0", [0, 0, 0, 0]),
    ],
)
def test_the_pauses_of_a_group(connection, group, backoff, base, cap, pauses):
    create_group(
        connection, "b", backoff=backoff, backoff_base=base, backoff_max=cap, backoff_jitter=False
    )

    found = rows(
        connection,
        """select sluice._backoff(g, n) from sluice.share_group as g, generate_series(1, 4) as n
        where g.group_name = 'b' order by n""",
    )

    assert [pause for (pause,) in found] == [timedelta(seconds=s) for s in pauses]


def test_a_pause_with_jitter_is_between_half_of_it_and_all(connection, group):
    create_group(connection, "b", backoff="constant", backoff_base="100 s")

    found = [
        pause.total_seconds()
        for (pause,) in rows(
            connection,
            """select sluice._backoff(g, 3) from sluice.share_group as g, generate_series(1, 200)
            where g.group_name = 'b'""",
        )
    ]

    assert 50 <= min(found) < 60 < 90 < max(found) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("base", ["2 days", "1 month", "90 years"])
@pytest.mark.parametrize("attempts", [31, 32, 64, 2000, 2**31 - 1])
def test_any_number_of_attempts_has_a_pause(connection, group, base, attempts):
    create_group(connection, "b", backoff_base=base, backoff_jitter=False)

    pause = value(
        connection,
        "select sluice._backoff(g, %s) from sluice.share_group as g where g.group_name = 'b'",
        attempts,
    )
    assert pause == timedelta(minutes=10)


# Lock


def test_the_lock_is_one_a_group_and_ends_with_the_transaction(database, connection, group):
    create_group(connection, "b")
    with connection.transaction():
        claim(connection)
        claim(connection)
        assert locked(database) == 1
        claim(connection, group="b")
        assert locked(database) == 2

    assert locked(database) == 0


def test_acknowledge_and_inspection_take_no_lock_on_the_group(database, connection, group):
    send(connection, *"ab")
    events = claim(connection, 2)
    with connection.transaction():
        renew(connection, events[0].claim_id)
        acknowledge(connection, events[0].claim_id, "reject", [1])
        acknowledge(connection, events[0].claim_id, "retry")
        info(connection)
        assert locked(database) == 0


@pytest.mark.slow
def test_busy_group_error_names_the_session_and_a_hint(database, connection, group):
    with database.connect(autocommit=False) as idle:
        claim(idle)

        error = refused(connection, "select sluice.claim('changes', 'workers')")

        assert (error.sqlstate, error.diag.message_primary) == (
            "SG005",
            "share group 'workers' is being claimed from in a transaction that stays open",
        )
        assert error.diag.message_detail.startswith(
            f"Its session has pid {idle.info.backend_pid}, role "
        )
        assert error.diag.message_hint == (
            "commit right after each claim; acknowledgements may take part in any transaction"
        )
        assert value(connection, "show lock_timeout") == "0"
        idle.rollback()


# Acknowledgement backlog


def test_acknowledgements_during_an_open_transaction_are_read_once(database, connection, group):
    """Transactions that end after an open one look new to each claim; snapshots tell them apart."""
    send_many(connection, 3)
    with database.connect(autocommit=False) as other:
        other.execute("select pg_current_xact_id()")
        acknowledge(connection, claim(connection)[0].claim_id, "release")

        found = [claimed(connection) for _ in range(4)]
        other.rollback()

    assert found == [[1], [2], [3], []]


def test_accept_adds_nothing_to_the_acknowledgement_backlog(connection, group):
    send_many(connection, 3)
    acknowledge(connection, claim(connection)[0].claim_id)
    acknowledge(connection, claim(connection)[0].claim_id, "retry", delay="1 hour")

    assert rows(connection, "select outcome from sluice.outcome where is_backlog") == [("retry",)]


# Ledger tables


def test_rows_go_to_the_tables_that_the_ledger_names(connection, group):
    send_many(connection, 3)
    (held,) = claim(connection)
    connection.execute("update sluice.ledger set number = 1")

    (event,) = claim(connection)
    for claim_id in (held.claim_id, event.claim_id):
        acknowledge(connection, claim_id, "retry", delay="0")
    assert claimed(connection, 10) == [1, 2, 3]

    query = (
        "select tableoid::regclass::text, count(*) from sluice.{} where {} group by 1 order by 1"
    )
    assert rows(connection, query.format("claim", "lease_until is not null")) == [
        ("sluice.claim_0", 1),
        ("sluice.claim_1", 2),
    ]
    # An outcome is in the ledger of its claim, so that its key stays unique.
    assert rows(connection, query.format("outcome", "true")) == [
        ("sluice.outcome_0", 1),
        ("sluice.outcome_1", 1),
    ]
    assert rows(connection, query.format("redelivery", "look_at is null")) == [
        ("sluice.redelivery_1", 2)
    ]


def test_the_newest_claim_is_found_in_either_table(connection, group):
    send_many(connection, 3)
    assert claimed(connection) == [1]
    for number, ev_id in ((1, 2), (0, 3)):
        connection.execute("update sluice.ledger set number = %s", (number,))
        if number == 0:
            connection.execute("truncate sluice.claim_0")
        assert claimed(connection) == [ev_id]


@pytest.mark.parametrize("ledger", ["claim", "outcome", "redelivery"])
def test_nothing_is_ever_updated_or_deleted(connection, group, ledger):
    send_many(connection, 50)
    for _ in range(4):
        for outcome in ("accept", "release", "retry", "reject"):
            events = claim(connection, 3)
            renew(connection, events[0].claim_id)
            acknowledge(connection, events[0].claim_id, outcome)
        claim_with_expired_lease(connection)
    connection.execute("select pg_stat_force_next_flush()")

    assert (
        rows(
            connection,
            """select relname, n_tup_upd, n_tup_del from pg_stat_user_tables
        where relname like %s and (n_tup_upd > 0 or n_tup_del > 0)""",
            f"{ledger}%",
        )
        == []
    )


def claim_with_expired_lease(connection):
    """Claim with a lease that expires at once, without changing the ledgers."""
    events = claim(connection, 2, "1 microsecond")
    assert events


# Position


def test_the_position_follows_the_oldest_open_claim(connection, group):
    begin = value(connection, POSITION)
    send(connection, "a")
    first_tick = tick(connection)
    (first,) = claim(connection)
    send(connection, "b")
    second_tick = tick(connection)
    (second,) = claim(connection)

    def moved():
        let_pass(connection, "2 seconds")
        claimed(connection)
        return value(connection, POSITION)

    assert moved() == begin
    acknowledge(connection, second.claim_id)
    assert moved() == begin
    acknowledge(connection, first.claim_id)
    assert first_tick < moved() <= second_tick
    assert moved() == second_tick


def test_it_never_goes_back(connection, group):
    positions = []
    for _ in range(5):
        send_many(connection, 3)
        tick(connection)
        events = claim(connection, 2)
        acknowledge(connection, events[0].claim_id, "retry", delay="0")
        let_pass(connection, "2 seconds")
        positions.append(value(connection, POSITION))
    take_all(connection)
    let_pass(connection, "2 seconds")
    claimed(connection)
    positions.append(value(connection, POSITION))

    assert positions == sorted(positions)
    assert positions[0] < positions[-1]


def test_redelivery_needs_no_segment(connection, group):
    """The event is stored as a redelivery by then, with all of its fields."""
    connection.execute("select pgq.insert_event('changes', 'type', 'data', 'x1', null, '', 'x4')")
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id, "retry", delay="10 hours")
    for _ in range(4):
        tick(connection)
        let_pass(connection, "2 seconds")
        claimed(connection)
        steps = rotate(connection)
    assert rows(connection, "select * from pgq.event_1") == []
    assert steps

    let_pass(connection, "11 hours")

    (again,) = claim(connection)
    assert again[-7:] == event[-7:] == ("type", "data", "x1", None, "", "x4", None)
    assert (again.ev_id, again.ev_time, again.ev_txid) == (
        event.ev_id,
        event.ev_time,
        event.ev_txid,
    )
