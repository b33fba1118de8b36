from support import rows
from support.log import give_up, tick

COLUMNS = [
    "queue_name",
    "consumer_name",
    "lag",
    "last_seen",
    "last_tick",
    "current_batch",
    "next_tick",
    "pending_events",
]


def test_position_and_lag(connection, consumer):
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 10)")
    tick(connection)
    connection.execute(
        "update pgq.tick set tick_time = clock_timestamp() - interval '90 s' where tick_id = 1"
    )
    connection.execute("select pgq.register_consumer_at('changes', 'lake', 1)")

    cursor = connection.execute("select * from pgq.get_consumer_info('changes', 'lake')")

    assert [c.name for c in cursor.description] == COLUMNS
    (row,) = cursor.fetchall()
    assert (row[0], row[1], *row[4:]) == ("changes", "lake", 1, None, None, 10)
    assert 90 <= row[2].total_seconds() < 120
    assert 0 <= row[3].total_seconds() < 60


def test_all_consumers_or_those_of_one_log(connection, consumer):
    connection.execute("select pgq.create_queue('another')")
    connection.execute("select pgq.register_consumer('another', 'a')")

    query = "select queue_name, consumer_name from pgq.get_consumer_info"
    assert rows(connection, f"{query}()") == [("another", "a"), ("changes", "lake")]
    assert rows(connection, f"{query}('changes')") == [("changes", "lake")]
    assert rows(connection, f"{query}('changes', 'a')") == []


def test_a_consumer_whose_position_was_given_up_is_still_listed(connection, consumer):
    give_up(connection, "more than 1 GB behind")

    assert rows(connection, "select consumer_name, last_tick from pgq.get_consumer_info()") == [
        ("lake", 1)
    ]
