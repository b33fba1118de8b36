from support import rows, value
from support.log import tick

COLUMNS = [
    "batch_id",
    "cur_tick_id",
    "prev_tick_id",
    "cur_tick_time",
    "prev_tick_time",
    "cur_tick_event_seq",
    "prev_tick_event_seq",
]
QUERY = "select * from pgq.next_batch_info(i_queue_name => 'changes', i_consumer_name => 'lake')"


def test_a_batch_with_its_two_ticks(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 10)")
    tick(connection)

    cursor = connection.execute(QUERY)

    assert [c.name for c in cursor.description] == COLUMNS
    times = [
        time for (time,) in rows(connection, "select tick_time from pgq.tick order by tick_id desc")
    ]
    assert cursor.fetchall() == [(1, 2, 1, *times, 10, 0)]


def test_the_same_again_while_it_is_open_and_as_next_batch_says(connection, consumer):
    tick(connection)
    first = rows(connection, QUERY)
    tick(connection)

    assert rows(connection, QUERY) == first
    assert value(connection, "select pgq.next_batch('changes', 'lake')") == first[0][0]


def test_nulls_when_no_tick_has_come(connection, consumer):
    assert rows(connection, QUERY) == [(None,) * 7]
