import psycopg
import pytest

from support import rows, value
from support.log import consume_all, tick


def test_the_columns_are_those_of_pgq(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd', '1', '2', '3', '4')")
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    cursor = connection.execute("select * from pgq.get_batch_events(x_batch_id => %s)", (batch,))

    assert [(c.name, c.type_display) for c in cursor.description] == [
        ("ev_id", "int8"), ("ev_time", "timestamptz"), ("ev_txid", "int8"), ("ev_retry", "int4"), ("ev_type", "text"),
        ("ev_data", "text"), ("ev_extra1", "text"), ("ev_extra2", "text"), ("ev_extra3", "text"), ("ev_extra4", "text"),
    ]  # fmt: skip
    (row,) = cursor.fetchall()
    assert (row[0], *row[3:]) == (1, None, "t", "d", "1", "2", "3", "4")


def test_events_come_by_id_and_the_same_each_time_until_the_batch_is_finished(connection, consumer):
    connection.execute(
        "select pgq.insert_event('changes', 't', n::text) from generate_series(1, 100) as n"
    )
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    query = "select ev_id, ev_data from pgq.get_batch_events(%s)"

    first = rows(connection, query, batch)
    connection.execute("select pgq.insert_event('changes', 't', 'later')")
    tick(connection)

    assert first == [(n, str(n)) for n in range(1, 101)]
    assert rows(connection, query, batch) == first


def test_a_commit_that_came_late_is_in_the_batch_after_it_and_in_no_other(
    database, connection, consumer
):
    with database.connect(autocommit=False) as late:
        late.execute("select pgq.insert_event('changes', 't', 'late')")
        connection.execute("select pgq.insert_event('changes', 't', 'early')")
        tick(connection)
        tick(connection)
        assert consume_all(connection) == [[2], []]
        late.commit()
        tick(connection)

    assert consume_all(connection) == [[1]]


def test_rolled_back_event_is_in_no_batch(connection, consumer):
    with connection.transaction():
        connection.execute("select pgq.insert_event('changes', 't', 'kept')")
        with connection.transaction(force_rollback=True):
            connection.execute("select pgq.insert_event('changes', 't', 'savepoint rolled back')")
    with connection.transaction(force_rollback=True):
        connection.execute("select pgq.insert_event('changes', 't', 'rolled back')")
    tick(connection)

    assert consume_all(connection) == [[1]]


def test_event_with_an_owner_is_delivered_to_its_subscription_only(connection, consumer):
    connection.execute("select pgq.register_consumer('changes', 'other')")
    owner = value(
        connection,
        "select sub_id from pgq.subscription as s join pgq.consumer as c on c.co_id = s.sub_consumer where co_name = 'lake'",
    )
    connection.execute(
        "select pgq.insert_event_raw('changes', null, null, %s, 1, 't', 'again', null, null, null, null)",
        (owner,),
    )
    tick(connection)

    assert consume_all(connection, consumer="lake") == [[1]]
    assert consume_all(connection, consumer="other") == [[]]


def test_a_batch_that_is_not_open_is_an_error(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from pgq.get_batch_events(4711)")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ003",
        "batch not found",
    )


def test_many_consumers_and_moves_do_not_make_a_batch_harder_to_find(connection, consumer):
    """The ledgers hold a row for each move of each consumer."""
    connection.execute(
        "select pgq.register_consumer('changes', 'c' || n) from generate_series(1, 300) as n"
    )
    for _ in range(3):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)
        connection.execute(
            """select pgq.finish_batch(pgq.next_batch('changes', 'c' || n))
            from generate_series(1, 300) as n"""
        )
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    (plan,) = rows(
        connection,
        "explain (analyze, buffers, format json) select * from pgq.open_batch where batch_id = %s",
        batch,
    )

    assert plan[0][0]["Plan"]["Actual Rows"] == 1
    assert plan[0][0]["Plan"]["Shared Hit Blocks"] < 30, plan
