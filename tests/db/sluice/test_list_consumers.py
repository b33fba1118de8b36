from support import rows, value, wait_until
from support.log import consume_all, tick

COLUMNS = [
    "log_name",
    "consumer_name",
    "is_keeper",
    "last_tick",
    "lag_events",
    "lag_s",
    "pinned_bytes",
    "open_batch",
    "idle_s",
    "lost",
]


def test_consumers_with_their_lag_and_what_they_keep(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        """update pgq.queue
        set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '0'"""
    )
    for consumer in ("lake", "slow"):
        connection.execute("select pgq.register_consumer('changes', %s)", (consumer,))
    connection.execute(
        'select sluice.set_log_options(\'changes\', \'{"keepers": ["archive", "lake"]}\')'
    )
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 5)")
    tick(connection)
    consume_all(connection)
    connection.execute("select pgq.next_batch('changes', 'slow')")
    connection.execute("select * from sluice.rotate()")

    cursor = connection.execute("select * from sluice.list_consumers('changes')")

    assert [c.name for c in cursor.description] == COLUMNS
    archive, lake, slow = cursor.fetchall()
    assert archive == ("changes", "archive", True, *[None] * 7)
    assert lake[:8] == ("changes", "lake", True, 2, 0, 0, 0, None)
    bytes_kept = value(connection, "select pg_total_relation_size('pgq.event_1_0')")
    assert (slow[:5], slow[6:8], slow[9]) == (
        ("changes", "slow", False, 1, 5),
        (bytes_kept, 2),
        None,
    )
    assert 0 < slow[5] < 60
    assert 0 <= slow[8] < 60
    assert rows(connection, "select consumer_name from sluice.list_consumers()") == [
        ("archive",),
        ("lake",),
        ("slow",),
    ]
    assert rows(connection, "select * from sluice.list_consumers('missing')") == []


def lag(connection):
    (found,) = rows(connection, "select lag_events, lag_s from sluice.list_consumers('changes')")
    return found


def test_lag_of_a_stopped_consumer_grows_in_a_quiet_log_and_returns_to_0(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select pgq.register_consumer('changes', 'slow')")
    assert lag(connection) == (0, 0)

    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    events, first_s = lag(connection)
    assert events == 1
    wait_until(lambda: lag(connection)[1] > first_s + 0.2, "the lag before a tick grows")
    connection.execute("select sluice.log_tick('changes')")
    events, first_s = lag(connection)
    assert events == 1
    wait_until(lambda: lag(connection)[1] > first_s + 0.2, "the lag after the tick grows")
    connection.execute("update pgq.event_1 set ev_time = ev_time - interval '15 minutes'")
    assert 900 < lag(connection)[1] < 960

    consume_all(connection, consumer="slow")
    assert lag(connection) == (0, 0)


def test_lag_is_the_age_of_the_first_event_not_of_the_position(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select pgq.register_consumer('changes', 'slow')")
    connection.execute("update pgq.tick set tick_time = tick_time - interval '1 day'")
    connection.execute("update pgq.position_0 set pos_last_time = pos_last_time - interval '1 day'")

    connection.execute("select pgq.insert_event('changes', 't', 'd')")

    assert lag(connection)[1] < 60


def test_events_that_are_rolled_back_or_not_committed_are_no_lag(connection, database):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select pgq.register_consumer('changes', 'slow')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    with database.connect(autocommit=False) as other:
        other.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 3)")
        tick(connection)
        assert lag(connection) == (0, 0)
        consume_all(connection, consumer="slow")
        assert lag(connection) == (0, 0)
        # Its numbers are before the position, but it committed after it.
        other.commit()
        events, age_s = lag(connection)
        assert (events, age_s > 0) == (1, True)
        tick(connection)
        consume_all(connection, consumer="slow")
        assert lag(connection) == (0, 0)
        other.execute("select pgq.insert_event('changes', 't', 'd')")
        other.rollback()
    assert lag(connection) == (0, 0)


def test_only_retries_of_the_consumer_itself_are_its_lag(connection):
    connection.execute("select pgq.create_queue('changes')")
    for name in ("one", "two"):
        connection.execute("select pgq.register_consumer('changes', %s)", (name,))
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    connection.execute("select sluice.log_tick('changes')")
    batch = value(connection, "select pgq.next_batch('changes', 'one')")
    connection.execute("select pgq.event_retry(%s, 1, 0)", (batch,))
    connection.execute("select pgq.finish_batch(%s)", (batch,))
    consume_all(connection, consumer="two")
    connection.execute("select pgq.maint_retry_events()")

    found = rows(
        connection, "select consumer_name, lag_s > 0 from sluice.list_consumers() order by 1"
    )

    assert found == [("one", True), ("two", False)]
