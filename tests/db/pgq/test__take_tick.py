"""pgq._take_tick and pgq._notify_tick; sluice/test_notify_channel_of_logs.py covers skipped notifications."""

from support import rows, value


def test_it_stores_the_snapshot_in_the_current_segment(database, connection, log):
    connection.execute("update pgq.queue set queue_cur_table = 2")
    connection.execute("select pgq.insert_event('changes', 't', 'd')")

    with database.connect() as listener:
        listener.execute('listen "sluice.log_1"')
        assert value(connection, "select pgq._take_tick(1)") == 2
        (notification,) = listener.notifies(timeout=20, stop_after=1)

    assert notification.payload == "2"
    assert rows(
        connection,
        """select tick_id, tick_event_seq, pg_visible_in_snapshot(ev_txid, tick_snapshot)
        from pgq.tick_1_2 cross join pgq.event_1""",
    ) == [(2, 1, True)]
