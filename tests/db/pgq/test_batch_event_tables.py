import psycopg
import pytest

from support import rows, value
from support.log import open_batch


def test_every_event_table_of_the_log_is_named(connection, consumer):
    batch = open_batch(connection)

    assert rows(connection, "select * from pgq.batch_event_tables(%s)", batch) == [
        ("pgq.event_1_0",),
        ("pgq.event_1_1",),
        ("pgq.event_1_2",),
    ]


def test_the_events_are_in_them(connection, consumer):
    batch = open_batch(connection)
    tables = [t for (t,) in rows(connection, "select * from pgq.batch_event_tables(%s)", batch)]

    assert sum(value(connection, f"select count(*) from {table}") for table in tables) == 5


def test_a_batch_that_is_not_open_is_an_error(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from pgq.batch_event_tables(4711)")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ003",
        "Cannot find data for batch 4711",
    )
