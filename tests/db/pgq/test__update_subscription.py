"""The updatable view pgq.subscription: it accepts the statements that PgQ's users run."""

import pytest

from support import rows, value
from support.log import consume_all, error_of, tick

SUBSCRIPTION = "select sub_id, sub_queue, sub_consumer, sub_last_tick, sub_batch, sub_next_tick from pgq.subscription"


@pytest.fixture
def three_ticks(connection, consumer):
    for _ in range(2):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)


def test_the_last_activity_can_be_set(connection, consumer):
    connection.execute("update pgq.subscription set sub_active = '2005-01-01 00:00:00+00'")

    assert value(connection, "select sub_active = '2005-01-01 00:00:00+00' from pgq.subscription")
    assert rows(connection, SUBSCRIPTION) == [(1, 1, 1, 1, None, None)]


def test_the_last_activity_of_an_open_batch_leaves_it_open(connection, three_ticks):
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    connection.execute(
        "update pgq.subscription set sub_active = '2005-01-01' where sub_batch = %s", (batch,)
    )

    assert value(connection, "select pgq.next_batch('changes', 'lake')") == batch
    assert consume_all(connection) == [[1], [2]]


def test_a_consumer_can_be_moved(connection, three_ticks):
    consume_all(connection)

    connection.execute("update pgq.subscription set sub_last_tick = 2")

    assert consume_all(connection) == [[2]]


def test_a_batch_can_be_opened_and_dropped(connection, three_ticks):
    connection.execute("update pgq.subscription set sub_batch = 4711, sub_next_tick = 3")

    query = "select ev_id from pgq.get_batch_events(4711)"
    assert rows(connection, query) == [(1,), (2,)]
    connection.execute("update pgq.subscription set sub_batch = null, sub_next_tick = null")
    assert rows(connection, SUBSCRIPTION) == [(1, 1, 1, 1, None, None)]


@pytest.mark.parametrize(
    ("assignment", "sqlstate", "message"),
    [
        ("sub_last_tick = 99", "PQ004", "cannot reposition, tick not found: 99"),
        ("sub_batch = 1, sub_next_tick = 99", "PQ004", "cannot reposition, tick not found: 99"),
        ("sub_id = 99", "0A000", "cannot change the consumer or event log of a subscription"),
        ("sub_batch = 1", "23514", "a batch has both sub_batch and sub_next_tick, or neither"),
    ],
)
def test_invalid_position_is_refused(connection, consumer, assignment, sqlstate, message):
    assert error_of(connection, f"update pgq.subscription set {assignment}") == (sqlstate, message)


def test_two_consumers_cannot_have_one_batch(connection, three_ticks):
    connection.execute("select pgq.register_consumer_at('changes', 'other', 1)")
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    query = "update pgq.subscription set sub_batch = %s, sub_next_tick = 2 where sub_batch is null"
    assert error_of(connection, query, batch) == (
        "23505",
        f"batch {batch} belongs to another consumer",
    )


def test_a_deletion_removes_the_subscription_and_keeps_the_name(connection, consumer):
    connection.execute("delete from pgq.subscription")

    assert rows(connection, SUBSCRIPTION) == []
    assert rows(connection, "select * from pgq.position_0") == []
    assert rows(connection, "select co_name from pgq.consumer") == [("lake",)]


def test_an_insertion_is_sent_to_register_consumer(connection, consumer):
    query = "insert into pgq.subscription (sub_queue, sub_consumer) values (1, 1)"

    assert error_of(connection, query) == ("0A000", "cannot insert into pgq.subscription")


def test_an_update_that_is_overtaken_does_not_undo_the_move(database, connection, three_ticks):
    with database.connect(autocommit=False) as slow:
        slow.execute("set transaction isolation level repeatable read")
        slow.execute(SUBSCRIPTION)
        consume_all(connection)

        query = "update pgq.subscription set sub_active = '2005-01-01'"
        assert error_of(slow, query)[0] == "40001"
    assert consume_all(connection) == []


def test_an_administrator_may_and_a_reader_may_not(database, connection, three_ticks, role):
    query = "update pgq.subscription set sub_last_tick = 2"
    connection.execute(f"grant pgq_reader to {role}")
    with database.connect(user=role) as session:
        assert error_of(session, query)[0] == "42501"
        connection.execute(f"grant pgq_admin to {role}")
        session.execute(query)

    assert consume_all(connection) == [[2]]
