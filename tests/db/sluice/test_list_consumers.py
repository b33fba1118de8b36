from support import rows, value
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
