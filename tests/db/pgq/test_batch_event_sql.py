"""pgq.batch_event_sql, with its parts pgq._batch_sql and pgq._event_columns_sql."""

import psycopg
import pytest

from support import rows, value
from support.log import finish, open_batch


def test_the_text_gives_what_get_batch_events_gives(connection, consumer):
    connection.execute(
        "select pgq.insert_event_raw('changes', null, null, 4711, 1, 't', 'of another', null, null, null, null)"
    )
    batch = open_batch(connection, 10)
    text = value(connection, "select pgq.batch_event_sql(%s)", batch)

    cursor = connection.execute(text)

    assert [c.name for c in cursor.description] == [
        "ev_id", "ev_time", "ev_txid", "ev_retry", "ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4",
    ]  # fmt: skip
    events = cursor.fetchall()
    assert [event[0] for event in events] == list(range(2, 12))
    assert events == rows(connection, "select * from pgq.get_batch_events(%s)", batch)


def test_a_reader_may_run_it(database, connection, consumer, role):
    connection.execute(f"grant pgq_reader to {role}")
    batch = open_batch(connection)
    with psycopg.connect(database.url, user=role) as reader:
        text = value(reader, "select pgq.batch_event_sql(%s)", batch)

        assert len(rows(reader, text)) == 5


def test_a_batch_that_is_not_open_is_an_error(connection, consumer):
    batch = open_batch(connection)
    finish(connection, batch)

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.batch_event_sql(%s)", (batch,))

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ003",
        "batch not found",
    )
