import psycopg
import pytest

from support import value
from support.log import consume_all, finish, move_retries, open_batch, tick, waiting


@pytest.fixture
def batch(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    return open_batch(connection)


def test_events_are_redelivered_after_the_delay(connection, batch):
    assert value(connection, "select sluice.retry(%s, '{2, 4}', interval '0')", batch) == 2
    assert value(connection, "select sluice.retry(%s, '{5}', interval '1 hour')", batch) == 1
    finish(connection, batch)
    move_retries(connection)
    tick(connection)

    assert consume_all(connection) == [[2, 4]]
    assert waiting(connection) == [5]


def test_events_already_pending_retry_are_not_counted(connection, batch):
    value(connection, "select sluice.retry(%s, '{2, 4}', interval '1 hour')", batch)

    assert value(connection, "select sluice.retry(%s, '{1, 2, 2, 1}', interval '0')", batch) == 1
    assert value(connection, "select sluice.retry(%s, '{}', interval '0')", batch) == 0
    assert waiting(connection) == [1, 2, 4]


def test_ids_that_the_batch_does_not_have_are_named_and_nothing_is_queued(connection, batch):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select sluice.retry(%s, '{1, 77, 6}', interval '0')", (batch,))

    assert caught.value.sqlstate == "22023"
    assert caught.value.diag.message_primary == f"batch {batch} does not have all of these events"
    assert caught.value.diag.message_detail == "It has no events 6, 77."
    assert waiting(connection) == []


def test_many_retries_are_counted(connection, batch):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(
            "select sluice.retry(%s, array(select generate_series(1, 1000)), interval '0')",
            (batch,),
        )

    assert caught.value.diag.message_detail.endswith("24, 25 and 975 more.")


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ("{batch}, null, interval '0'", "22004"),
        ("{batch}, '{{1, null}}', interval '0'", "22004"),
        ("{batch}, '{{1}}', null", "22004"),
        ("4711, '{{1}}', interval '0'", "PQ003"),
        ("null, '{{1}}', interval '0'", "PQ003"),
    ],
)
def test_bad_arguments_are_errors(connection, batch, arguments, sqlstate):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select sluice.retry({arguments.format(batch=batch)})")

    assert caught.value.sqlstate == sqlstate


def test_a_reader_may_ask(database, connection, batch, role):
    connection.execute(f"grant sluice_reader to {role}")
    with psycopg.connect(database.url, user=role, autocommit=True) as reader:
        assert value(reader, "select sluice.retry(%s, '{2, 4}', interval '0')", batch) == 2
