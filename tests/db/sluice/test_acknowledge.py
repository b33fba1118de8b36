"""sluice.acknowledge: outcomes, repeated and stale calls, transactions, errors and privileges."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
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
    open_claims,
    refused,
    rotate,
    send,
    take_all,
)

CALL = "select sluice.acknowledge('changes', 'workers', %s, {})"


@pytest.fixture
def claim_id(connection, group) -> int:
    """A claim of the events 1 to 4 of five."""
    send(connection, *"abcde")
    return claim(connection, 4)[0].claim_id


def refusal(connection: psycopg.Connection, claim_id: int, arguments: str) -> tuple:
    error = refused(connection, CALL.format(arguments), claim_id)
    return error.sqlstate, error.diag.message_primary


# Outcomes


def test_accept_is_the_default_and_the_end(connection, claim_id):
    assert value(connection, "select sluice.acknowledge('changes', 'workers', %s)", claim_id) == 4

    let_pass(connection, "10 hours")
    assert take_all(connection) == [5]
    assert open_claims(connection) == {}
    assert dead(connection) == []


def test_a_release_comes_at_once_and_counts_nothing(connection, claim_id):
    assert acknowledge(connection, claim_id, "release") == 4

    again = claim(connection, 10)

    assert [(e.ev_id, e.attempt, e.deliveries) for e in again] == [
        *[(n, 1, 1) for n in (1, 2, 3, 4)],
        (5, 1, 1),
    ]


def test_a_release_can_be_for_later(connection, claim_id):
    acknowledge(connection, claim_id, "release", delay="1 hour")

    assert claimed(connection, 10) == [5]
    let_pass(connection, "61 minutes")
    assert claimed(connection, 10) == [1, 2, 3, 4, 5]


def test_released_for_ever_is_never_dead(connection, group):
    connection.execute(
        "select sluice.set_group_options(%s, %s, %s)",
        (LOG, GROUP, '{"max_attempts": 1, "max_deliveries": 1}'),
    )
    send(connection, "a")
    for _ in range(5):
        (event,) = claim(connection)
        acknowledge(connection, event.claim_id, "release")

    assert (event.attempt, event.deliveries) == (1, 1)
    assert dead(connection) == []


def test_a_retry_comes_after_its_pause_and_counts(connection, claim_id):
    assert acknowledge(connection, claim_id, "retry", [2], delay="1 hour") == 1
    acknowledge(connection, claim_id)

    assert claimed(connection, 10) == [5]
    assert info(connection).retrying == 1
    let_pass(connection, "59 minutes")
    assert claimed(connection, 10, lease="10 hours") == [5]
    let_pass(connection, "2 minutes")
    assert [(e.ev_id, e.attempt, e.deliveries) for e in claim(connection)] == [(2, 2, 2)]


@pytest.mark.parametrize(
    ("backoff", "minutes"),
    [("constant", [10, 10, 10]), ("linear", [10, 20, 25]), ("exponential", [10, 20, 25])],
)
def test_without_a_delay_the_pause_is_the_groups(connection, group, backoff, minutes):
    create_group(
        connection,
        "b",
        backoff=backoff,
        backoff_base="10 minutes",
        backoff_max="25 minutes",
        backoff_jitter=False,
    )
    send(connection, "a")
    for minute in minutes:
        (event,) = claim(connection, group="b")
        acknowledge(connection, event.claim_id, "retry", group="b")
        assert claimed(connection, group="b") == []
        let_pass(connection, f"{minute - 1} minutes")
        assert claimed(connection, group="b") == []
        let_pass(connection, "61 seconds")


def test_the_last_attempt_is_dead_at_once(connection, group):
    send(connection, *"ab")
    for number in range(1, 6):
        events = claim(connection, 2)
        assert [event.attempt for event in events] == [number] * 2
        acknowledge(connection, events[0].claim_id, "retry", delay="0", error=f"error {number}")

    assert dead(connection) == [(n, "too many attempts", "error 5", 5, 5) for n in (1, 2)]
    assert claimed(connection) == []
    assert open_claims(connection) == {}


def test_retry_dead_letters_some_events_and_redelivers_the_others(connection, group):
    create_group(connection, "b", max_attempts=2)
    send(connection, "a")
    (event,) = claim(connection, group="b")
    acknowledge(connection, event.claim_id, "retry", delay="0", group="b")
    send(connection, "b")
    events = claim(connection, 2, group="b")
    assert [(e.ev_id, e.attempt) for e in events] == [(1, 2), (2, 1)]

    assert acknowledge(connection, events[0].claim_id, "retry", delay="0", group="b") == 2

    assert [row[0] for row in dead(connection, "b")] == [1]
    assert claimed(connection, 10, group="b") == [2]


def test_too_many_deliveries_are_dead_too(connection, group):
    create_group(connection, "b", max_attempts=9, max_deliveries=3)
    send(connection, "a")
    claim(connection, group="b")
    let_pass(connection)
    claim(connection, group="b")
    let_pass(connection)
    (event,) = claim(connection, group="b")
    assert (event.attempt, event.deliveries) == (1, 3)

    acknowledge(connection, event.claim_id, "retry", delay="0", group="b")

    assert dead(connection, "b") == [(1, "too many attempts", None, 1, 3)]


def test_expired_leases_are_dead_lettered_after_max_deliveries(connection, group):
    create_group(connection, "b", max_attempts=1, max_deliveries=2)
    send(connection, "a")
    for deliveries in (1, 2):
        assert [e.deliveries for e in claim(connection, group="b")] == [deliveries]
        let_pass(connection)

    assert claimed(connection, group="b") == []
    assert dead(connection, "b") == [(1, "its lease ended", None, 0, 2)]


def test_a_rejected_event_is_dead_with_all_that_is_known(connection, group):
    connection.execute("select pgq.insert_event('changes', 'type', 'data', 'x1', null, '', 'x4')")
    (event,) = claim(connection)

    settled = acknowledge(
        connection, event.claim_id, "reject", error="trace", reason="unknown shape"
    )

    assert settled == 1
    (row,) = rows(
        connection,
        """select queue_name, consumer_name, claim_id, msg_id, enqueued_at, ev_type, ev_data, ev_extra1, ev_extra2,
            ev_extra3, ev_extra4, redriven, attempts, read_ct, reason, error
        from sluice.dead_letter""",
    )
    assert row == (
        LOG, GROUP, event.claim_id, 1, event.ev_time, "type", "data", "x1", None, "", "x4",
        0, 1, 1, "unknown shape", "trace",
    )  # fmt: skip
    assert info(connection).dead == 1
    let_pass(connection, "10 hours")
    assert claimed(connection) == []


def test_rejection_without_a_reason(connection, claim_id):
    acknowledge(connection, claim_id, "reject", [3])

    assert dead(connection) == [(3, "rejected", None, 1, 1)]


def test_error_of_a_retry_is_kept_by_a_following_lease_expiry(connection, group):
    create_group(connection, "b", max_deliveries=2)
    send(connection, "a")
    (event,) = claim(connection, group="b")
    acknowledge(connection, event.claim_id, "retry", delay="0", error="trace", group="b")
    claim(connection, group="b")
    let_pass(connection)
    claimed(connection, group="b")

    assert dead(connection, "b") == [(1, "its lease ended", "trace", 1, 2)]


# Parts of a claim


def test_events_are_settled_one_by_one(connection, claim_id):
    assert acknowledge(connection, claim_id, "accept", [2]) == 1
    assert acknowledge(connection, claim_id, "release", [4, 1]) == 2
    assert open_claims(connection)[claim_id].settled == 3

    assert claimed(connection, 3) == [1, 4, 5]
    assert acknowledge(connection, claim_id, "reject", [3]) == 1
    assert claim_id not in open_claims(connection)


def test_without_numbers_it_is_about_what_is_left(connection, claim_id):
    acknowledge(connection, claim_id, "reject", [2])

    assert acknowledge(connection, claim_id) == 3
    assert [row[0] for row in dead(connection)] == [2]


def test_a_number_that_is_given_twice_counts_once(connection, claim_id):
    assert acknowledge(connection, claim_id, "accept", [2, 2, 3]) == 2


def test_no_number_settles_nothing(connection, claim_id):
    assert acknowledge(connection, claim_id, "accept", []) == 0
    assert open_claims(connection)[claim_id].settled == 0


@pytest.mark.parametrize("ev_ids", ["1, null", "null"])
def test_a_null_among_the_numbers_is_refused(connection, claim_id, ev_ids):
    error = refused(connection, CALL.format(f"'accept', array[{ev_ids}]::bigint[]"), claim_id)

    assert (error.sqlstate, error.diag.message_primary) == (
        "22004",
        "an event id is null",
    )
    assert open_claims(connection)[claim_id].settled == 0


@pytest.mark.parametrize("ev_ids", ["5", "2, 5", "99", "-1"])
def test_events_of_another_claim_are_refused_and_nothing_is_done(connection, claim_id, ev_ids):
    error = refused(connection, CALL.format(f"'accept', array[{ev_ids}]::bigint[]"), claim_id)

    assert (error.sqlstate, error.diag.message_primary) == (
        "SG003",
        f"claim {claim_id} of share group 'workers' does not have all of these events",
    )
    missing = ev_ids.rpartition(", ")[2]
    assert error.diag.message_detail == f"Missing: {missing}."
    assert error.diag.message_hint == (
        "acknowledge events with the claim_id that sluice.claim() returned with them"
    )
    assert open_claims(connection)[claim_id].settled == 0


def test_events_that_came_again_are_acknowledged_with_new_ones(connection, claim_id):
    acknowledge(connection, claim_id, "retry", [2], delay="0")
    again = claim(connection, 2)
    assert [event.ev_id for event in again] == [2, 5]

    assert acknowledge(connection, again[0].claim_id, "release", [2]) == 1
    assert acknowledge(connection, again[0].claim_id, "accept", [5]) == 1
    assert [(e.ev_id, e.attempt, e.deliveries) for e in claim(connection, 10)] == [(2, 2, 2)]


# Repeated and different outcomes


@pytest.mark.parametrize("outcome", ["accept", "release", "retry", "reject"])
@pytest.mark.parametrize("ev_ids", [None, [1, 3]], ids=["all", "some"])
def test_repeated_acknowledgement_settles_nothing_more(connection, claim_id, outcome, ev_ids):
    first = acknowledge(connection, claim_id, outcome, ev_ids)
    assert first == (4 if ev_ids is None else 2)

    assert acknowledge(connection, claim_id, outcome, ev_ids) == 0

    let_pass(connection, "10 hours")
    found = claimed(connection, 50)
    assert len(set(found)) == len(found)
    assert len(dead(connection)) == (first if outcome == "reject" else 0)


def test_repeated_last_retry_settles_nothing_more(connection, group):
    create_group(connection, "b", max_attempts=1)
    send(connection, "a")
    (event,) = claim(connection, group="b")

    assert acknowledge(connection, event.claim_id, "retry", group="b") == 1
    assert acknowledge(connection, event.claim_id, "retry", group="b") == 0
    assert len(dead(connection, "b")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("first", ["accept", "release", "retry", "reject"])
@pytest.mark.parametrize("second", ["accept", "release", "retry", "reject"])
@pytest.mark.parametrize("ev_ids", ["null", "array[1, 3]"], ids=["all", "some"])
def test_different_outcome_later_is_refused(connection, claim_id, first, second, ev_ids):
    if first == second or (first, second) == ("reject", "retry"):
        return
    connection.execute(CALL.format(f"'{first}', {ev_ids}"), (claim_id,))

    assert refusal(connection, claim_id, f"'{second}', {ev_ids}") == (
        "SG002",
        f"claim {claim_id} of share group 'workers' is no longer held",
    )


def test_a_rejection_by_number_is_not_accepted_without_numbers(connection, group):
    send(connection, "a")
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id, "reject", [1])

    assert refusal(connection, event.claim_id, "'accept'")[0] == "SG002"


def test_one_of_some_that_was_settled_otherwise_refuses_them_all(connection, claim_id):
    acknowledge(connection, claim_id, "reject", [2])

    error = refused(connection, CALL.format("'accept', array[1, 2, 3]"), claim_id)

    assert error.sqlstate == "SG002"
    assert error.diag.message_detail.startswith("Events 2 were settled with another outcome")
    assert error.diag.message_hint == (
        "roll back the work for it; claim with a longer lease, or renew the lease in time"
    )
    assert open_claims(connection)[claim_id].settled == 1


def test_a_lease_that_ended_but_was_not_claimed_again_is_acknowledged(connection, claim_id):
    let_pass(connection, "10 hours")

    assert acknowledge(connection, claim_id) == 4
    assert claimed(connection, 10) == [5]


@pytest.mark.parametrize("outcome", ["accept", "release", "retry", "reject"])
@pytest.mark.parametrize("ev_ids", ["null", "array[1, 3]"], ids=["all", "some"])
def test_a_lease_that_was_claimed_again_is_lost(connection, claim_id, outcome, ev_ids):
    let_pass(connection)
    assert claimed(connection, 10) == [1, 2, 3, 4, 5]

    assert refusal(connection, claim_id, f"'{outcome}', {ev_ids}")[0] == "SG002"
    assert dead(connection) == []


def test_settling_again_after_the_lease_is_idempotent(connection, claim_id):
    acknowledge(connection, claim_id, "accept", [1, 2])
    let_pass(connection)
    assert claimed(connection, 10) == [3, 4, 5]

    assert acknowledge(connection, claim_id, "accept", [1, 2]) == 0
    assert refusal(connection, claim_id, "'accept', array[2, 3]")[0] == "SG002"


def empty_the_first_segment(connection: psycopg.Connection) -> None:
    """Rotate until the segment with the events so far is reclaimed."""
    let_pass(connection)
    for _ in range(5):
        send(connection, "more")
        tick(connection)
        take_all(connection)
        let_pass(connection, "5 seconds")
        rotate(connection)
    assert value(connection, "select count(*) from pgq.event_1_0 where ev_id <= 5") == 0


@pytest.mark.slow
@pytest.mark.parametrize("ev_ids", ["null", "array[3]", "array[2, 3]"])
@pytest.mark.parametrize("before", [[], [1], [1, 2]])
def test_a_lease_is_lost_also_when_its_events_have_left_the_log(
    connection, claim_id, before, ev_ids
):
    if before:
        acknowledge(connection, claim_id, "accept", before)
    empty_the_first_segment(connection)

    assert refusal(connection, claim_id, f"'accept', {ev_ids}")[0] == "SG002"


@pytest.mark.parametrize("ev_ids", [[1, 2], [3, 4], None])
def test_repeated_acknowledgement_of_reclaimed_events_settles_nothing_more(
    connection, claim_id, ev_ids
):
    acknowledge(connection, claim_id, "accept", [1, 2])
    acknowledge(connection, claim_id, "accept", [3, 4])
    empty_the_first_segment(connection)

    assert acknowledge(connection, claim_id, "accept", ev_ids) == 0
    assert refusal(connection, claim_id, "'accept', array[4, 5]")[0] == "SG003"


# Transactions


def test_a_lease_does_not_expire_while_its_claim_is_acknowledged(database, connection, group):
    send(connection, "a")
    (event,) = claim(connection, 1, "1 microsecond")
    connection.execute("set lock_timeout = '1 s'")
    with database.connect(autocommit=False) as other:
        acknowledge(other, event.claim_id)
        assert claimed(connection) == []
        other.commit()

    let_pass(connection, "10 seconds")
    assert claimed(connection) == []


def test_it_is_part_of_the_callers_transaction(connection, claim_id):
    connection.execute("create table business (n integer)")
    with connection.transaction(force_rollback=True):
        connection.execute("insert into business values (1)")
        acknowledge(connection, claim_id, "reject")
    assert dead(connection) == []

    with connection.transaction():
        connection.execute("insert into business values (1)")
        acknowledge(connection, claim_id)
    assert value(connection, "select count(*) from business") == 1
    assert open_claims(connection) == {}


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_it_is_taken_in_any_isolation(connection, claim_id, level):
    with connection.transaction():
        connection.execute(f"set transaction isolation level {level}")
        assert acknowledge(connection, claim_id, "retry", [1]) == 1
        assert acknowledge(connection, claim_id, "reject", [2]) == 1
        assert acknowledge(connection, claim_id) == 2

    assert len(dead(connection)) == 1


# Errors


@pytest.mark.parametrize("outcome", ["'renew'", "'lapse'", "'Accept'", "''", "null"])
def test_unknown_outcome_is_refused(connection, claim_id, outcome):
    error = refused(connection, CALL.format(outcome), claim_id)

    assert (error.sqlstate, error.diag.message_primary) == (
        "22023",
        f"invalid outcome {'NULL' if outcome == 'null' else outcome}",
    )
    assert error.diag.message_hint == "use accept, release, retry or reject"


@pytest.mark.parametrize(
    "arguments", ["'retry', null, '-1 second'", "'accept', null, '0'", "'reject', null, '1 hour'"]
)
def test_delay_of_an_outcome_without_delay_is_refused(connection, claim_id, arguments):
    error = refused(connection, CALL.format(arguments), claim_id)

    assert error.sqlstate == "22023"
    assert error.diag.message_hint == (
        "pass a delay of 0 to 100 years with retry or release, and none with other outcomes"
    )


@pytest.mark.parametrize("outcome", ["retry", "release"])
def test_a_delay_beyond_all_time_is_refused_here_and_not_in_each_claim(
    connection, claim_id, outcome
):
    query = CALL.format(f"'{outcome}', null, '300000 years'")
    assert refused(connection, query, claim_id).sqlstate.startswith("22")

    assert claimed(connection, 10) == [5]


@pytest.mark.parametrize("number", [-1, 0, 2, 2**62, None])
def test_a_claim_that_never_was_is_refused(connection, claim_id, number):
    error = refused(connection, CALL.format("'accept'"), number)

    assert error.sqlstate in ("SG002", "SG003")
    if error.sqlstate == "SG003":
        shown = "null" if number is None else number
        assert error.diag.message_primary == f"share group 'workers' has no claim {shown}"
        assert error.diag.message_hint == "pass the claim_id that sluice.claim() returned"


def test_a_claim_of_another_group_is_refused(connection, claim_id):
    create_group(connection, "others")

    error = refused(connection, "select sluice.acknowledge('changes', 'others', %s)", claim_id)
    assert error.sqlstate in ("SG002", "SG003")


def test_unknown_names_are_named(connection, claim_id):
    query = "select sluice.acknowledge({}, %s)"
    assert refused(connection, query.format("'none', 'workers'"), claim_id).sqlstate == "PQ001"
    assert refused(connection, query.format("'changes', 'none'"), claim_id).sqlstate == "SG001"


@pytest.mark.parametrize("member", ["pgq_reader", "sluice_reader", "pgq_admin", "sluice_admin"])
def test_readers_acknowledge(connection, claim_id, as_member, member):
    for outcome in ("accept", "release", "retry", "reject"):
        query = f"select sluice.acknowledge('changes', 'workers', {claim_id}, '{outcome}')"
        assert as_member(member, query) == [(4,)]


@pytest.mark.parametrize("member", ["pgq_writer", "sluice_writer", "sluice_monitor"])
def test_other_roles_cannot_acknowledge(connection, claim_id, as_member, member):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member(member, f"select sluice.acknowledge('changes', 'workers', {claim_id})")
