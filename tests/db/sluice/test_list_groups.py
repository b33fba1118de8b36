"""sluice.list_groups: the share groups of one log or of all logs."""

from __future__ import annotations

from support import rows
from support.log import error_of
from support.share_groups import acknowledge, claim, create_group, info, make_log, send


def test_groups_are_in_the_order_of_their_names(connection, group):
    make_log(connection, "a_log")
    create_group(connection, "b", log="a_log")
    create_group(connection, "a")
    query = "select log_name, group_name from sluice.list_groups({})"

    assert rows(connection, query.format("")) == [
        ("a_log", "b"),
        ("changes", "a"),
        ("changes", "workers"),
    ]
    assert rows(connection, query.format("'a_log'")) == [("a_log", "b")]
    assert rows(connection, query.format("null"))[0] == ("a_log", "b")


def test_event_that_is_committed_after_its_number_was_passed_is_lag(connection, database, group):
    with database.connect(autocommit=False) as other:
        send(other, "late")
        send(connection, "early")
        claim(connection, 10)
        claim(connection, 10)
        assert rows(connection, "select lag_events from sluice.list_groups()") == [(0,)]
        other.commit()

    assert rows(connection, "select lag_events, lag_s > 0 from sluice.list_groups()") == [(1, True)]


def test_event_that_waits_for_the_turn_of_its_key_is_lag_with_an_age(connection):
    make_log(connection)
    create_group(connection, key="ev_extra1")
    connection.execute(
        "select pgq.insert_event('changes', 't', 'd', 'k', null, null, null) from generate_series(1, 3)"
    )
    claimed = claim(connection, 1)
    connection.execute("select pg_sleep(0.1)")
    claim(connection, 10)  # reads the others, which wait

    (found,) = rows(connection, "select lag_events, lag_s from sluice.list_groups()")
    assert found[0] == 2
    assert found[1] > 0.1

    acknowledge(connection, claimed[0].claim_id, "accept", [1])
    claim(connection, 10)
    assert rows(connection, "select lag_events, lag_s from sluice.list_groups()") == [(0, 0)]


def test_no_group_is_no_row(connection):
    make_log(connection)
    connection.execute("select pgq.register_consumer('changes', 'lake')")

    assert rows(connection, "select * from sluice.list_groups()") == []
    assert rows(connection, "select * from sluice.list_groups('changes')") == []


def test_row_equals_group_info(connection, group):
    send(connection, *"abcd")
    events = claim(connection, 3)
    acknowledge(connection, events[0].claim_id, "retry", [1], delay="1 hour")
    acknowledge(connection, events[0].claim_id, "reject", [2])
    expected = info(connection)

    (row,) = rows(
        connection, "select lag_events, leased, retrying, dead, lag_s from sluice.list_groups()"
    )

    assert (
        row[:4]
        == (expected.lag_events, expected.leased, expected.retrying, expected.dead)
        == (1, 1, 1, 1)
    )
    assert abs(row[4] - expected.lag_s) < 60


def test_an_unknown_log_is_named(connection, group):
    assert error_of(connection, "select * from sluice.list_groups('none')")[0] == "PQ001"
