"""Share groups with sessions in fixed orders: no event is lost or held by two consumers at once.

For each safeguard, a variant with a planted bug shows that the order fails without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock
from support.log import tick
from support.share_groups import (
    GROUP,
    LOG,
    acknowledge,
    claim,
    claimed,
    create_group,
    dead,
    info,
    let_pass,
    make_log,
    open_claims,
    refused,
    renew,
    rotate,
    send,
    take_all,
)

NEXT = "pgq.event_1_next(pg_snapshot,bigint,pg_snapshot,bigint,bigint,integer,integer)"
OUTSIDE = "pgq.event_1_outside(pg_snapshot,pg_snapshot,bigint,bigint,integer,integer)"
WINDOW = "pgq.tick_1_window(bigint,pg_snapshot,bigint)"
LOCK = "sluice._lock_group(text,text)"
HOLD = "sluice._hold_claim(sluice.share_group,bigint)"
LEASE = "sluice._expire_lease(sluice.share_group,sluice.claim,bigint,integer)"
BACKLOG = "sluice._read_outcomes(sluice.share_group,sluice.claim)"
CLAIM = "sluice.claim(text,text,integer,interval,boolean,text[],boolean)"
NEXT_WINDOW = "sluice._next_window(sluice.share_group,sluice.claim,integer)"
ACKNOWLEDGE = "sluice.acknowledge(text,text,bigint,text,bigint[],interval,text,text)"
MOVE = "sluice._move_group(sluice.share_group,sluice.claim)"
REDELIVER = "sluice._redeliver(sluice.share_group,sluice.claim,sluice.outcome)"


@pytest.fixture
def group(connection: psycopg.Connection) -> None:
    make_log(connection)
    create_group(connection)
    # A wait here would be a deadlock with the test itself.
    connection.execute("set lock_timeout = '10 s'")


@contextmanager
def waiting(observer: psycopg.Connection, session: psycopg.Connection, work: Callable) -> Iterator:
    """Run work in a thread; enter when it waits for a lock. Its result or error is yielded."""
    results: list = []

    def run() -> None:
        try:
            results.append(work(session))
        except psycopg.Error as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for_lock(observer, session)
        yield results
    finally:
        thread.join(30)


def drop_keys(connection: psycopg.Connection, ledger: str) -> None:
    """Drop the primary keys of a ledger's tables, which protect it without the lock."""
    for number in (0, 1):
        connection.execute(
            f"alter table sluice.{ledger}_{number} drop constraint {ledger}_{number}_pkey"
        )


# Two claimers


def claim_during_a_claim(database, connection):
    """Claim while another claim is uncommitted; return the events of both."""
    send(connection, *"abcd")
    with database.connect(autocommit=False) as first, database.connect() as second:
        got = claimed(first, 2)
        with waiting(connection, second, lambda session: claimed(session, 2)) as results:
            first.commit()
    return got, results[0]


def test_the_second_claimer_waits_for_the_first_and_gets_what_follows(database, connection, group):
    assert claim_during_a_claim(database, connection) == ([1, 2], [3, 4])


def test_without_the_lock_the_key_refuses_the_second_claimer(database, connection, group):
    replace_in(
        connection,
        CLAIM,
        "for update of l skip locked;",
        ";",
    )
    # As if both had claimed in the same microsecond.
    replace_in(connection, CLAIM, "extract(epoch from v_claim.claimed_at) *", "0 *")

    _, second = claim_during_a_claim(database, connection)

    assert isinstance(second, psycopg.errors.UniqueViolation)


def test_without_lock_and_key_two_claimers_get_the_same_events(database, connection, group):
    replace_in(
        connection,
        CLAIM,
        "for update of l skip locked;",
        ";",
    )
    send(connection, *"ab")
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert claimed(first, 2) == [1, 2]
        assert claimed(second, 2) == [1, 2], "the planted bug must hand the events out twice"
        first.commit()


def test_a_claimer_that_waited_sees_what_was_acknowledged_meanwhile(database, connection, group):
    """Its statement starts before it gets the lock; the statements inside start afterwards."""
    send(connection, "a")
    (event,) = claim(connection)
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert claimed(first) == []
        first.execute("select sluice._try_lock(1936221042, 1)")
        with waiting(connection, second, claimed) as results:
            acknowledge(connection, event.claim_id, "release")
            first.commit()

    assert results == [[1]]


def settle_during_a_claim(database, connection, settle):
    """Settle after a claim took its time and before it reads the backlog; return the time."""
    replace_in(
        connection,
        CLAIM,
        "v_claim.claim_id := greatest(",
        "perform pg_advisory_xact_lock(1); v_claim.claim_id := greatest(",
    )
    with database.connect(autocommit=False) as gate, database.connect() as second:
        gate.execute("select pg_advisory_xact_lock(1)")
        with waiting(connection, second, claimed) as results:
            time.sleep(0.2)  # this delay must not shorten the event's back-off or lease
            at = value(connection, "select clock_timestamp()")
            settle()
            gate.rollback()
    assert results == [[]]
    return at


def test_a_retry_waits_from_its_acknowledgement_also_when_a_claim_had_begun(
    database, connection, group
):
    send(connection, "a")
    (event,) = claim(connection)

    at = settle_during_a_claim(
        database,
        connection,
        lambda: acknowledge(connection, event.claim_id, "retry", delay="500 ms"),
    )

    due_at = value(connection, "select due_at from sluice.redelivery where ev_id = 1")
    assert due_at >= at + timedelta(milliseconds=500)


def test_a_renewed_lease_lasts_from_its_renewal_also_when_a_claim_had_begun(
    database, connection, group
):
    send(connection, "a")
    (event,) = claim(connection, lease="1 ms")
    connection.execute("select pg_sleep_until(%s)", [event.lease_until])
    renewed_until = []

    settle_during_a_claim(
        database,
        connection,
        lambda: renewed_until.append(renew(connection, event.claim_id, "500 ms")),
    )

    look_at = value(
        connection,
        "select max(due_at) from sluice.redelivery where look_at = %s",
        event.claim_id,
    )
    assert look_at >= renewed_until[0]


# Senders


def send_late(database, connection, *, commit=True):
    """End the transaction of the first event after later ones are claimed; return later claims."""
    with database.connect(autocommit=False) as late:
        assert send(late, "late") == [1]
        assert send(connection, *"abc") == [2, 3, 4]
        assert take_all(connection) == [2, 3, 4]
        assert claimed(connection) == []
        if commit:
            late.commit()
        late.rollback()
    return take_all(connection)


@pytest.mark.parametrize("ticks", [False, True], ids=["no ticks", "ticks"])
def test_an_event_that_is_committed_late_comes_when_it_is_committed(
    database, connection, group, ticks
):
    if ticks:
        tick(connection)

    assert send_late(database, connection) == [1]

    send(connection, "d")
    if ticks:
        tick(connection)
    assert take_all(connection) == [5]


# A short window is looked up by transaction only.
SHORT = "i_upto_seq - i_after_seq <= 100"


def test_a_claim_that_goes_by_the_number_loses_the_late_one(database, connection, group):
    replace_in(connection, NEXT, SHORT, "false")
    replace_in(
        connection,
        NEXT,
        "if i_after_ev_id is null or i_after_ev_id < i_after_seq and v_from > i_after_ev_id then",
        "if false then",
    )

    assert send_late(database, connection) == [], "the planted bug must lose the event"


def test_a_claim_that_goes_by_what_began_after_the_window_loses_the_late_one(
    database, connection, group
):
    replace_in(
        connection, OUTSIDE, "where pg_visible_in_snapshot(late.txid, i_upto)", "where false"
    )

    assert send_late(database, connection) == [], "the planted bug must lose the event"


@pytest.mark.slow
def test_a_transaction_across_many_ticks_claims_and_segments_is_delivered_once(
    database, connection, group
):
    written, delivered = [], []
    with database.connect(autocommit=False) as late:
        for number in range(10):
            written += send(late, "late")
            with late.transaction(force_rollback=number % 3 == 0):
                ev_ids = send(late, "behind a savepoint")
            if number % 3:
                written += ev_ids
            written += send(connection, "a")
            delivered += take_all(connection)
            tick(connection)
            let_pass(connection)
            rotate(connection)
        assert len(delivered) == 10
        late.commit()

    delivered += take_all(connection)
    assert sorted(delivered) == sorted(written)
    assert take_all(connection) == []


def test_rolled_back_event_is_never_claimed_and_blocks_no_claim(database, connection, group):
    assert send_late(database, connection, commit=False) == []

    with database.connect(autocommit=False) as sender:
        send(sender, "rolled back")
        sender.rollback()
    send(connection, "d")
    assert take_all(connection) == [6]


def test_a_claim_that_wants_each_number_waits_for_the_rolled_back_one_for_ever(
    database, connection, group
):
    replace_in(connection, NEXT, SHORT, "false")
    replace_in(
        connection,
        NEXT,
        "e.ev_id > v_from",
        "e.ev_id = v_from + 1",
    )
    with database.connect(autocommit=False) as sender:
        send(sender, "rolled back")
        sender.rollback()
    send(connection, "a")

    assert take_all(connection) == [], "the planted bug must wait for a number that never comes"


# A claimer that is killed, or that continues


def kill_a_claimer(database, connection):
    """Kill a claimer before its commit; return the next claim's events."""
    send(connection, *"ab")
    claimer = database.connect(autocommit=False)
    assert claimed(claimer, 2) == [1, 2]
    connection.execute("select pg_terminate_backend(%s, 30000)", (claimer.info.backend_pid,))
    claimer.close()
    return [(event.ev_id, event.attempt, event.deliveries) for event in claim(connection, 2)]


def test_uncommitted_claim_of_a_killed_consumer_is_claimed_immediately_as_first_attempt(
    database, connection, group
):
    assert kill_a_claimer(database, connection) == [(1, 1, 1), (2, 1, 1)]


def test_a_place_that_is_kept_outside_of_the_transaction_loses_the_events_of_a_killed_claimer(
    database, connection, group
):
    connection.execute("create sequence public.place minvalue 0 start 0")
    connection.execute("grant all on sequence public.place to sluice_owner")
    replace_in(
        connection,
        CLAIM,
        "v_claim.claimed_at := greatest(",
        "perform setval('public.place', v_claim.upto_ev_id) where v_claim.events > 0; "
        "v_claim.claimed_at := greatest(",
    )
    replace_in(
        connection,
        NEXT_WINDOW,
        "claim.upto_ev_id := null;",
        "claim.upto_ev_id := (select p.last_value from public.place as p);",
    )

    assert kill_a_claimer(database, connection) == [], "the planted bug must lose the events"


def test_a_claimer_that_was_killed_after_its_commit_leaves_a_lease(database, connection, group):
    send(connection, "a")
    claimer = database.connect()
    assert claimed(claimer) == [1]
    connection.execute("select pg_terminate_backend(%s, 30000)", (claimer.info.backend_pid,))
    claimer.close()
    assert claimed(connection) == []

    let_pass(connection)

    (event,) = claim(connection)
    assert (event.ev_id, event.attempt, event.deliveries) == (1, 1, 2)


def test_a_claim_that_is_rolled_back_to_a_savepoint_has_claimed_nothing(
    database, connection, group
):
    send(connection, *"ab")
    with database.connect(autocommit=False) as claimer:
        with claimer.transaction(force_rollback=True):
            assert claimed(claimer) == [1]
        (event,) = claim(claimer)
        claimer.commit()

    assert (event.ev_id, event.deliveries) == (1, 1)
    assert list(open_claims(connection)) == [event.claim_id]
    assert claimed(connection) == [2]


def claim_in_the_senders_transaction(database, connection):
    """Claim in a transaction that also sends; return its events, and those claimed later."""
    with database.connect(autocommit=False) as sender:
        send(sender, "own")
        send(connection, "a")
        first = claimed(sender, 10)
        send(sender, "own")
        sender.commit()
    return first, claimed(connection, 10)


def test_a_transaction_does_not_claim_what_it_wrote_itself(database, connection, group):
    assert claim_in_the_senders_transaction(database, connection) == ([2], [1, 3])


def test_a_window_in_which_the_own_transaction_has_ended_loses_what_it_writes_later(
    database, connection, group
):
    replace_in(connection, NEXT_WINDOW, "pgq._others_snapshot()", "pg_current_snapshot()")
    first, behind = claim_in_the_senders_transaction(database, connection)

    assert 3 not in first + behind, "the planted bug must lose the event"


def test_a_claim_from_an_old_snapshot_is_refused(database, connection, group):
    send(connection, "a")
    for level in ("repeatable read", "serializable"):
        with database.connect(autocommit=False) as session:
            session.execute(f"set transaction isolation level {level}")
            error = refused(session, "select sluice.claim(%s, %s)", LOG, GROUP)
            assert (error.sqlstate, error.diag.message_primary) == (
                "SG004",
                f"cannot claim in a {level} transaction",
            )

    assert claimed(connection) == [1]


def test_without_the_refusal_an_old_snapshot_claims_what_another_one_has(
    database, connection, group
):
    replace_in(
        connection,
        LOCK,
        "if current_setting('transaction_isolation') <> 'read committed' then",
        "if false then",
    )
    send(connection, "a")
    with database.connect(autocommit=False) as session:
        session.execute("set transaction isolation level repeatable read")
        session.execute("select 1")
        assert claimed(connection) == [1]

        assert claimed(session) == [1], "the planted bug must hand the event out twice"


@pytest.mark.slow
def test_a_claim_that_stays_open_is_named_to_the_others_and_nothing_is_lost(
    database, connection, group
):
    send(connection, *"ab")
    with database.connect(autocommit=False) as idle:
        assert claimed(idle) == [1]
        error = refused(connection, "select sluice.claim(%s, %s)", LOG, GROUP)
        assert error.sqlstate == "SG005"
        assert str(idle.info.backend_pid) in error.diag.message_detail
        # The held claim is not affected.
        idle.rollback()

    assert claimed(connection, 2) == [1, 2]


def test_lock_on_a_group_does_not_block_another_group_or_log(database, connection, group):
    create_group(connection, "others")
    make_log(connection, "second")
    create_group(connection, log="second")
    send(connection, "a")
    send(connection, "b", log="second")
    with database.connect(autocommit=False) as idle:
        assert claimed(idle) == [1]
        connection.execute("set lock_timeout = '1 s'")

        assert claimed(connection, group="others") == [1]
        assert claimed(connection, log="second") == [1]


# Ticks


def claim_around_an_open_tick(database, connection):
    """Claim an event that was sent after an uncommitted tick, and then commit the tick."""
    send(connection, "a")
    with database.connect(autocommit=False) as ticker:
        tick(ticker)
        send(connection, "b")
        first = take_all(connection)
        ticker.commit()
    send(connection, "c")
    return first, take_all(connection)


def test_a_tick_that_is_older_than_a_claim_and_committed_after_it_is_passed_over(
    database, connection, group
):
    assert claim_around_an_open_tick(database, connection) == ([1, 2], [3])

    send(connection, "d")
    tick(connection)
    assert take_all(connection) == [4]


def test_a_window_that_ends_at_an_older_tick_hands_events_out_twice(database, connection, group):
    source = value(connection, "select pg_get_functiondef(%s::regprocedure)", WINDOW)
    begin = source.index("if pg_snapshot_xmax(v_tick.tick_snapshot)")
    end = source.index("then", begin)
    connection.execute(source[:begin] + "if true " + source[end:])

    _, behind = claim_around_an_open_tick(database, connection)

    assert behind != [3], "the planted bug must hand events out twice"


# Acknowledgements and expiring leases


@pytest.fixture
def event(connection, group):
    """A claimed event whose lease has expired."""
    send(connection, "a")
    (event,) = claim(connection)
    let_pass(connection)
    return event


def claim_while_another_acknowledges(database, connection, event, *, commit):
    with database.connect(autocommit=False) as worker:
        assert acknowledge(worker, event.claim_id) == 1
        connection.execute("set lock_timeout = '1 s'")
        first = claimed(connection)
        if commit:
            worker.commit()
        worker.rollback()
    let_pass(connection, "2 seconds")
    return first, claimed(connection)


def test_lease_that_ends_during_its_acknowledgement_does_not_expire(database, connection, event):
    assert claim_while_another_acknowledges(database, connection, event, commit=True) == ([], [])

    assert open_claims(connection) == {}
    assert info(connection).retrying == 0


def test_lease_expires_when_its_acknowledgement_is_rolled_back(database, connection, event):
    first, behind = claim_while_another_acknowledges(database, connection, event, commit=False)

    assert (first, behind) == ([], [1])


def test_a_look_that_does_not_lock_hands_out_what_is_being_acknowledged(
    database, connection, event
):
    replace_in(connection, LEASE, "for no key update skip locked", "")
    drop_keys(connection, "outcome")

    first, _ = claim_while_another_acknowledges(database, connection, event, commit=True)

    assert first == [1], "the planted bug must hand out an event that is accepted"


def acknowledge_while_another_claims(database, connection, event):
    """Acknowledge while the claim that redelivers the event is uncommitted; return both results."""
    with database.connect(autocommit=False) as claimer, database.connect() as worker:
        (again,) = claim(claimer)
        assert again.ev_id == event.ev_id
        with waiting(
            connection, worker, lambda session: acknowledge(session, event.claim_id)
        ) as results:
            claimer.commit()
    return again, results[0]


def test_an_acknowledgement_that_comes_while_the_event_is_claimed_again_is_refused(
    database, connection, event
):
    again, error = acknowledge_while_another_claims(database, connection, event)

    assert error.sqlstate == "SG002"
    assert acknowledge(connection, again.claim_id) == 1


def test_it_is_taken_when_that_claim_is_rolled_back(database, connection, event):
    with database.connect(autocommit=False) as claimer, database.connect() as worker:
        assert claimed(claimer) == [1]
        with waiting(
            connection, worker, lambda session: acknowledge(session, event.claim_id)
        ) as results:
            claimer.rollback()

    assert results == [1]
    assert claimed(connection) == []


def do_not_lock(connection):
    """The planted bug: an acknowledgement locks nothing."""
    source = value(connection, "select pg_get_functiondef(%s::regprocedure)", ACKNOWLEDGE)
    assert source.count("for no key update") == 2
    connection.execute(source.replace("for no key update", ""))
    replace_in(connection, HOLD, "for no key update", "")


def test_an_acknowledgement_that_does_not_lock_is_refused_by_the_key(database, connection, event):
    do_not_lock(connection)

    _, error = acknowledge_while_another_claims(database, connection, event)

    assert error.sqlstate == "SG002", "the key protects the event without the lock"


def test_without_lock_and_key_an_event_is_accepted_that_another_one_has(
    database, connection, event
):
    do_not_lock(connection)
    drop_keys(connection, "outcome")
    with database.connect(autocommit=False) as claimer:
        assert claimed(claimer) == [1]
        assert acknowledge(connection, event.claim_id) == 1, "the planted bug must accept it"
        claimer.commit()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_an_old_snapshot_does_not_acknowledge_what_was_claimed_again(
    database, connection, event, level
):
    with database.connect(autocommit=False) as worker:
        worker.execute(f"set transaction isolation level {level}")
        worker.execute("select 1")
        assert claimed(connection) == [1]

        error = refused(worker, "select sluice.acknowledge(%s, %s, %s)", LOG, GROUP, event.claim_id)
        assert error.sqlstate == "40001"


def test_a_renewal_in_an_open_transaction_keeps_the_claim(database, connection, event):
    with database.connect(autocommit=False) as worker:
        renew(worker, event.claim_id)
        assert claimed(connection) == []
        worker.commit()

    let_pass(connection, "2 seconds")
    assert claimed(connection) == []
    let_pass(connection)
    assert claimed(connection) == [1]


# Two acknowledgements of one claim


def acknowledge_twice(database, connection, first, second):
    """Acknowledge a claim twice, the second time before the first commits; return that result."""
    send(connection, *"ab")
    claim_id = claim(connection, 2)[0].claim_id
    with database.connect(autocommit=False) as one, database.connect() as two:
        assert acknowledge(one, claim_id, *first) > 0
        with waiting(
            connection, two, lambda session: acknowledge(session, claim_id, *second)
        ) as results:
            one.commit()
    return results[0]


def test_the_same_said_by_two_settles_once(database, connection, group):
    assert acknowledge_twice(database, connection, ("accept",), ("accept",)) == 0


def test_another_outcome_said_by_the_second_is_refused(database, connection, group):
    error = acknowledge_twice(database, connection, ("accept",), ("reject",))

    assert error.sqlstate == "SG002"
    assert dead(connection) == []


def test_two_that_settle_an_event_each_settle_both(database, connection, group):
    assert acknowledge_twice(database, connection, ("accept", [1]), ("retry", [2])) == 1

    assert open_claims(connection) == {}


def test_without_lock_and_key_both_settle_the_same_events(database, connection, group):
    do_not_lock(connection)
    drop_keys(connection, "outcome")
    send(connection, "a")
    (event,) = claim(connection)
    with database.connect(autocommit=False) as one:
        assert acknowledge(one, event.claim_id) == 1
        assert acknowledge(connection, event.claim_id, "reject") == 1, (
            "the planted bug must settle twice"
        )
        one.commit()


# Acknowledgements that are committed late


def settle_late(database, connection, outcome):
    """Release or retry an event, commit after a claim read the backlog; return later claims."""
    send(connection, *"abc")
    one, other = claim(connection)[0], claim(connection)[0]
    with database.connect(autocommit=False) as late:
        acknowledge(late, one.claim_id, outcome, delay="0")
        acknowledge(connection, other.claim_id, outcome, delay="0")
        assert claimed(connection) == [2]
        assert claimed(connection) == [3]
        late.commit()
    return claimed(connection, 10)


@pytest.mark.parametrize("outcome", ["retry", "release"])
def test_release_committed_late_is_redelivered(database, connection, group, outcome):
    assert settle_late(database, connection, outcome) == [1]
    assert claimed(connection) == []


def test_reading_acknowledgements_by_start_of_transaction_loses_a_late_commit(
    database, connection, group
):
    replace_in(
        connection,
        BACKLOG,
        "from pg_snapshot_xip(claim.backlog_snapshot)",
        "from pg_snapshot_xip('1:1:')",
    )

    assert settle_late(database, connection, "retry") == [], "the planted bug must lose the event"


def test_probing_acknowledgements_by_start_of_transaction_loses_a_late_commit(
    database, connection, group
):
    of_table = "where o.group_id = v_claim.group_id and o.is_backlog and o.outcome_txid >= "
    for table in ("sluice.outcome_0", "sluice.outcome_1"):
        there = f"from {table} as o\n            {of_table}pg_snapshot_xmin"
        replace_in(connection, CLAIM, there, there.replace("xmin", "xmax"))

    assert settle_late(database, connection, "retry") == [], "the planted bug must lose the event"


def test_acknowledgement_written_behind_the_read_position_is_lost(database, connection, group):
    replace_in(
        connection,
        REDELIVER,
        "greatest($2.upto_due, $3.outcome_at",
        "greatest($3.outcome_at, $3.outcome_at",
    )

    assert settle_late(database, connection, "retry") == [], "the planted bug must lose the event"


# Rotation


def rotate_around_a_claim(connection):
    """Claim an event, rotate as far as possible, let the lease expire; return event and actions."""
    send(connection, "a")
    (event,) = claim(connection)
    steps = {}
    for _ in range(4):
        send(connection, "more")
        tick(connection)
        assert len(take_all(connection)) == 1
        let_pass(connection, "5 seconds")
        steps |= rotate(connection)
    let_pass(connection)
    return event, steps


def test_a_segment_is_kept_while_an_event_of_it_is_claimed(connection, group):
    _, steps = rotate_around_a_claim(connection)

    assert steps[0] == ("kept", "not yet read by workers")
    (again,) = claim(connection)
    assert (again.ev_id, again.ev_data) == (1, "a")
    acknowledge(connection, again.claim_id)
    tick(connection)
    let_pass(connection, "2 seconds")
    assert claimed(connection) == []
    let_pass(connection, "2 seconds")
    assert claimed(connection) == []
    assert rotate(connection)[0] == ("reclaimed", None)


def test_a_group_that_moves_past_its_open_claims_loses_their_events(connection, group):
    replace_in(connection, MOVE, "v_is_found := v_claim.is_open;", "v_is_found := false;")

    _, steps = rotate_around_a_claim(connection)

    assert steps[0] == ("reclaimed", None)
    assert claimed(connection) == [], "the planted bug must lose the event"


def test_segment_with_an_uncommitted_claim_is_kept(database, connection, group):
    send(connection, "a")
    tick(connection)
    with database.connect(autocommit=False) as claimer:
        assert claimed(claimer) == [1]
        for _ in range(3):
            tick(connection)
            steps = rotate(connection)
        assert steps[0][0] == "kept"
        claimer.rollback()

    (event,) = claim(connection)
    assert event.ev_data == "a"


# Dropping a group


def test_claim_waiting_while_its_group_is_dropped_gets_an_error(database, connection, group):
    send(connection, "a")
    with database.connect(autocommit=False) as dropper, database.connect() as claimer:
        dropper.execute("select sluice.drop_group(%s, %s)", (LOG, GROUP))
        with waiting(connection, claimer, claimed) as results:
            dropper.commit()

    assert results[0].sqlstate == "SG001"


def test_a_claim_that_waited_while_its_group_was_made_anew_is_of_the_new_one(
    database, connection, group
):
    send(connection, *"ab")
    assert claimed(connection) == [1]
    with database.connect(autocommit=False) as dropper, database.connect() as claimer:
        dropper.execute("select sluice.drop_group(%s, %s)", (LOG, GROUP))
        create_group(dropper)
        with waiting(connection, claimer, claimed) as results:
            dropper.commit()

    assert results[0] == [1] or results[0].sqlstate == "SG001"


def test_twenty_that_create_one_group_make_one(database, connection):
    make_log(connection)
    sessions = [database.connect() for _ in range(20)]
    made: list[object] = []

    def create(session: psycopg.Connection) -> None:
        try:
            made.append(create_group(session))
        except psycopg.Error as error:
            made.append(error)
        session.close()

    threads = [threading.Thread(target=create, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(made, key=str) == [False] * 19 + [True]


def test_two_that_change_different_options_both_do(database, connection, group):
    with database.connect(autocommit=False) as one, database.connect() as two:
        change = "select sluice.set_group_options(%s, %s, %s)"
        one.execute(change, (LOG, GROUP, '{"max_attempts": 7}'))
        with waiting(
            connection, two, lambda s: s.execute(change, (LOG, GROUP, '{"max_deliveries": 70}'))
        ):
            one.commit()

    found = rows(connection, "select max_attempts, max_deliveries from sluice.list_groups()")
    assert found == [(7, 70)]
