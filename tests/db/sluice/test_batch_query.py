"""sluice.batch_query: the query that a client streams."""

import psycopg
import pytest

from support import rows, value
from support.log import open_batch


@pytest.fixture
def batch(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    return open_batch(connection)


def test_the_query_has_the_columns_asked_for_by_id(connection, batch):
    text = value(connection, "select sluice.batch_query(%s, '{ev_data, ev_id, ev_txid}')", batch)

    cursor = connection.execute(text)

    assert [(c.name, c.type_display) for c in cursor.description] == [
        ("ev_data", "text"),
        ("ev_id", "int8"),
        ("ev_txid", "int8"),
    ]
    assert [row[:2] for row in cursor] == [(str(n), n) for n in range(1, 6)]


def test_a_reader_can_go_on_behind_an_event(connection, batch):
    text = value(connection, "select sluice.batch_query(%s, '{ev_id}', 3)", batch)

    assert rows(connection, text) == [(4,), (5,)]


def test_a_column_that_events_do_not_have_is_an_error_when_the_query_runs(connection, batch):
    text = value(connection, "select sluice.batch_query(%s, '{\"ev_id; drop\"}')", batch)

    with pytest.raises(psycopg.errors.UndefinedColumn):
        connection.execute(text)


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ("{batch}, null", "22004"),
        ("{batch}, '{{}}'", "22004"),
        ("{batch}, '{{ev_id, null}}'", "22004"),
        ("4711, '{{ev_id}}'", "PQ003"),
    ],
)
def test_bad_arguments_are_errors(connection, batch, arguments, sqlstate):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select sluice.batch_query({arguments.format(batch=batch)})")

    assert caught.value.sqlstate == sqlstate
