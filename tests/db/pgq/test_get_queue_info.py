from support import rows, value
from support.log import tick

COLUMNS = [
    "queue_name", "queue_ntables", "queue_cur_table", "queue_rotation_period", "queue_switch_time",
    "queue_external_ticker", "queue_ticker_paused", "queue_ticker_max_count", "queue_ticker_max_lag",
    "queue_ticker_idle_period", "ticker_lag", "ev_per_sec", "ev_new", "last_tick_id",
]  # fmt: skip


def test_every_log_by_name_with_the_columns_of_pgq(connection, log):
    connection.execute("select pgq.create_queue('another')")

    cursor = connection.execute("select * from pgq.get_queue_info()")

    assert [c.name for c in cursor.description] == COLUMNS
    assert [row[0] for row in cursor.fetchall()] == ["another", "changes"]
    assert rows(connection, "select queue_name from pgq.get_queue_info('changes')") == [
        ("changes",)
    ]
    assert rows(connection, "select queue_name from pgq.get_queue_info('missing')") == []


def test_new_events_and_the_rate_over_the_ticks(connection, log):
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 10)")
    tick(connection)
    connection.execute(
        "update pgq.tick set tick_time = clock_timestamp() - interval '3 s' where tick_id = 1"
    )
    connection.execute(
        "update pgq.tick set tick_time = clock_timestamp() - interval '1 s' where tick_id = 2"
    )
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 3)")

    assert rows(
        connection,
        "select round(ev_per_sec), ev_new, last_tick_id, ticker_lag between '1 s' and '30 s' from pgq.get_queue_info()",
    ) == [(5.0, 3, 2, True)]


def test_a_log_with_one_tick_has_no_rate(connection, log):
    assert value(connection, "select ev_per_sec from pgq.get_queue_info('changes')") is None


def test_rate_is_over_the_last_20_ticks_also_of_earlier_segments_and_with_gaps(connection, log):
    """The same result from one segment, from two, and where tick ids are missing."""
    expected = """
        select (last.tick_event_seq - first.tick_event_seq)
            / extract(epoch from last.tick_time - first.tick_time)::double precision
        from (select * from pgq.tick order by tick_id desc limit 1) as last
        cross join lateral (
            select * from pgq.tick as t where t.tick_id >= last.tick_id - 20 order by t.tick_id limit 1
        ) as first"""

    def check():
        found = rows(connection, "select ev_per_sec, last_tick_id from pgq.get_queue_info()")
        assert found == rows(
            connection, f"select ({expected}), (select max(tick_id) from pgq.tick)"
        )

    for number in range(1, 31):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        if number == 12:
            connection.execute("select nextval('pgq.event_1_tick_seq') from generate_series(1, 3)")
        if number in (3, 25):
            connection.execute("update pgq.queue set queue_switch_time = '2000-01-01'")
            connection.execute("select * from sluice.rotate()")
            assert value(connection, "select queue_cur_table from pgq.queue") == (number > 3) + 1
            check()
        tick(connection)
        check()
