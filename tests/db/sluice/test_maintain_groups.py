"""sluice.maintain_groups: the upkeep that claims do, for groups without claims."""

import psycopg
import pytest

from support import rows, value, wait_until
from support.share_groups import let_pass


@pytest.fixture
def group(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.create_group('changes', 'mail')")
    connection.execute(
        "select pgq.insert_event('changes', 't', n::text) from generate_series(1, 5) as n"
    )


def claim(session, qty=1, lease=None):
    found = rows(
        session,
        "select claim_id from sluice.claim('changes', 'mail', %s, %s::interval)",
        qty, lease,
    )  # fmt: skip
    return found[0][0]


def maintain(session, log=None):
    return rows(session, "select * from sluice.maintain_groups(%s)", log)


def open_claims(session):
    return [
        claim_id
        for (claim_id,) in rows(
            session, "select claim_id from sluice.list_claims('changes', 'mail')"
        )
    ]


def position(session):
    return value(
        session,
        "select last_tick from pgq.get_consumer_info('changes', 'mail')",
    )


def test_a_group_with_nothing_to_do_is_left_alone(connection, group):
    with connection.transaction():
        assert maintain(connection) == []
        assert value(connection, "select pg_current_xact_id_if_assigned() is null")


def test_the_position_of_a_group_that_has_all_goes_on_without_a_claim(connection, group):
    connection.execute("select sluice.log_tick('changes')")
    claim_id = claim(connection, 6)
    connection.execute("select sluice.acknowledge('changes', 'mail', %s)", [claim_id])
    assert position(connection) == 1

    assert maintain(connection, "changes") == [("changes", "mail", "moved", None)]

    assert position(connection) == 2
    assert maintain(connection) == []


@pytest.mark.parametrize("options", ["{}", '{"key": "ev_type"}'])
def test_claims_move_the_position_past_the_last_event_after_maintenance_wrote_a_claim(
    connection, group, options
):
    connection.execute("select sluice.create_group('changes', 'last', %s)", [options])
    connection.execute("select pgq.insert_event('changes', 't', '6')")
    connection.execute("select sluice.log_tick('changes')")
    claimed = rows(connection, "select claim_id, ev_data from sluice.claim('changes', 'last', 1)")
    assert [data for _, data in claimed] == ["6"]
    connection.execute("select sluice.acknowledge('changes', 'last', %s)", [claimed[0][0]])
    maintain(connection)

    def is_past():
        assert rows(connection, "select * from sluice.claim('changes', 'last', 1)") == []
        stands = "select last_tick from pgq.get_consumer_info('changes', 'last')"
        return value(connection, stands) == value(connection, "select max(tick_id) from pgq.tick")

    wait_until(is_past, "the position after the last event")


def test_the_position_waits_for_an_open_claim(connection, group):
    claim(connection, 2)
    connection.execute("select sluice.log_tick('changes')")

    assert maintain(connection) == []
    assert position(connection) == 1


def test_acknowledgements_are_read_and_expired_leases_redelivered(connection, group):
    first = claim(connection, 2)
    claim(connection, 1, lease="10 ms")
    connection.execute("select sluice.acknowledge('changes', 'mail', %s, 'release')", [first])
    connection.execute("select pg_sleep(0.02)")

    assert maintain(connection) == [
        ("changes", "mail", "backlog read", None),
        ("changes", "mail", "leases checked", None),
    ]

    assert value(connection, "select count(*) from sluice.redelivery") == 3
    assert maintain(connection) == []
    assert [
        ev_id
        for (ev_id,) in rows(connection, "select ev_id from sluice.claim('changes', 'mail', 5)")
    ] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_renewed_again", [False, True])
def test_a_renewed_lease_that_expires_ends_without_a_claim(connection, group, is_renewed_again):
    released, held = claim(connection, 1), claim(connection, 1, lease="1 minute")
    # Due before the renewed lease expires; sluice._check_renewed_leases leaves it to a claim.
    connection.execute("select sluice.acknowledge('changes', 'mail', %s, 'release')", [released])
    connection.execute("select sluice.renew('changes', 'mail', %s, '1 hour')", [held])
    assert ("changes", "mail", "backlog read", None) in maintain(connection)
    let_pass(connection, "2 minutes")
    assert maintain(connection) == [("changes", "mail", "leases checked", None)]
    if is_renewed_again:
        connection.execute("select sluice.renew('changes', 'mail', %s, '2 hours')", [held])
    let_pass(connection, "1 hour")

    assert maintain(connection) == [("changes", "mail", "leases checked", None)]
    if is_renewed_again:
        assert held in open_claims(connection)
        let_pass(connection, "1 hour")
        assert maintain(connection) == [("changes", "mail", "leases checked", None)]

    assert open_claims(connection) == []
    assert value(connection, "select array_agg(ev_id order by ev_id) from sluice.redelivery") == [
        1,
        2,
    ]
    assert maintain(connection) == []
    found = rows(connection, "select ev_id, attempt from sluice.claim('changes', 'mail', 5)")
    assert sorted(found) == [(1, 1), (2, 2), (3, 1), (4, 1), (5, 1)]


def test_group_with_nothing_to_do_is_not_locked(connection, group):
    connection.execute("select sluice.create_group('changes', 'idle')")
    with connection.transaction():
        # It only searches for events to announce: sluice._wake_for_redeliveries.
        assert maintain(connection) == []
        assert value(connection, "select pg_current_xact_id_if_assigned()::text") is None


def test_a_group_that_is_being_claimed_from_is_not_waited_for(database, connection, group):
    claim(connection)
    with database.connect(autocommit=False) as consumer:
        claim(consumer)
        connection.execute("set lock_timeout = '10 s'")

        assert maintain(connection) == [("changes", "mail", "kept", "it is being claimed from")]


def test_listener_is_woken_when_an_event_becomes_due_for_redelivery(database, connection, group):
    claim_id = claim(connection)
    with database.connect() as listener:
        listener.execute("select sluice.listen('changes', 'log')")
        maintain(connection)
        connection.execute("select pg_notify('done', '')")
        assert list(listener.notifies(timeout=0.05)) == []

        connection.execute(
            "select sluice.acknowledge('changes', 'mail', %s, 'release')", [claim_id]
        )
        maintain(connection)

        (heard,) = listener.notifies(timeout=10, stop_after=1)
    assert (heard.channel, heard.payload) == ("sluice.log_1", "")


def test_only_the_groups_of_the_log_that_is_named_are_maintained(connection, group):
    connection.execute("select pgq.create_queue('other')")
    claim(connection, lease="10 ms")
    connection.execute("select pg_sleep(0.02)")

    assert maintain(connection, "other") == []
    assert len(maintain(connection, "changes")) == 1


def test_rotation_and_the_second_step_of_pgqs_daemon_do_it_too(connection, group):
    claim(connection, lease="10 ms")
    connection.execute("select pg_sleep(0.02)")
    assert ("changes", None, "leases checked", "share group mail") in rows(
        connection, "select * from sluice.rotate()"
    )

    claim(connection, lease="10 ms")
    connection.execute("select pg_sleep(0.02)")
    connection.execute("select pgq.maint_rotate_tables_step2()")
    assert maintain(connection) == []
    assert value(connection, "select count(*) from sluice.outcome where outcome = 'lapse'") == 2


def test_ledgers_that_have_grown_are_emptied(connection, group):
    connection.execute("select pgq.insert_event('changes', 't', 'x') from generate_series(1, 300)")
    for _ in range(300):
        claim(connection)
    connection.execute("set session_replication_role = replica")
    connection.execute(
        """insert into sluice.outcome_0 (group_id, claim_id, outcome_no, outcome, events, is_backlog, error)
        select 0, n, 1, 'renew', 0, false, repeat('x', 1000) from generate_series(1, 9000) as n"""
    )

    assert rows(connection, "select * from sluice.rotate()") == [
        (None, None, "emptied", "share groups")
    ]
    assert value(connection, "select count(lease_until) from sluice.claim_1") == 300
    assert value(connection, "select count(*) from sluice.outcome") == 0


def test_a_group_that_was_given_up_is_left_alone(connection, group):
    claim(connection, lease="10 ms")
    connection.execute("select pg_sleep(0.02)")
    connection.execute("update sluice.share_group set lost = 'too far behind'")

    assert maintain(connection) == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("select * from sluice.maintain_groups('missing')", "PQ001"),
        (
            "begin isolation level repeatable read; select * from sluice.maintain_groups()",
            "SG004",
        ),
    ],
)
def test_errors(connection, call, code):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(call)
    assert caught.value.sqlstate == code
