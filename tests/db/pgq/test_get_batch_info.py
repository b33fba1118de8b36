import pytest

from support import rows, value
from support.log import tick

COLUMNS = [
    "queue_name",
    "consumer_name",
    "batch_start",
    "batch_end",
    "prev_tick_id",
    "tick_id",
    "lag",
    "seq_start",
    "seq_end",
]


def test_batch_info_has_consumer_and_ticks(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 10)")
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    cursor = connection.execute("select * from pgq.get_batch_info(x_batch_id => %s)", (batch,))

    assert [c.name for c in cursor.description] == COLUMNS
    (row,) = cursor.fetchall()
    times = [time for (time,) in rows(connection, "select tick_time from pgq.tick order by 1")]
    assert row[:6] == ("changes", "lake", *times, 1, 2)
    assert 0 <= row[6].total_seconds() < 60
    assert row[7:] == (0, 10)


@pytest.mark.parametrize("batch", [99, None])
def test_nulls_for_a_batch_that_is_not_open(connection, consumer, batch):
    assert rows(connection, "select * from pgq.get_batch_info(%s)", batch) == [(None,) * 9]


def test_a_finished_batch_is_not_open(connection, consumer):
    tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    connection.execute("select pgq.finish_batch(%s)", (batch,))

    assert rows(connection, "select * from pgq.get_batch_info(%s)", batch) == [(None,) * 9]
