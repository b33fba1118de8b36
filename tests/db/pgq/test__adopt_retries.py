from support import rows, value


def test_pending_retries_stay_pending_and_delivered_ones_are_not_redelivered(connection, consumer):
    for number in (1, 2):
        ev_id = value(connection, "select pgq.insert_event('changes', 't', 'd')")
        connection.execute("select sluice.log_tick('changes')")
        batch = value(connection, "select pgq.next_batch('changes', 'lake')")
        connection.execute("select pgq.event_retry(%s, %s::bigint, 0)", (batch, ev_id))
        connection.execute("select pgq.finish_batch(%s)", (batch,))
        if number == 1:
            assert value(connection, "select pgq.maint_retry_events()") == 1
            connection.execute("select sluice.log_tick('changes')")
            again = value(connection, "select pgq.next_batch('changes', 'lake')")
            connection.execute("select pgq.finish_batch(%s)", (again,))
    # Simulate a server whose transaction ids were higher by 9,000,000,000.
    connection.execute(
        "update pgq.retry_entry set entry_txid = (entry_txid::text::bigint + 9000000000)::text::xid8"
    )
    connection.execute(
        """update pgq.retry_pass
        set pass_snapshot = format('%s:%s:', x + 9000000000, x + 9000000000)::pg_snapshot
        from (select pg_snapshot_xmax(pass_snapshot)::text::bigint as x, pass_id as id from pgq.retry_pass) as old
        where id = pass_id"""
    )

    connection.execute("select pgq._adopt_retries()")

    assert rows(connection, "select ev_id from pgq.retry_queue") == [(ev_id,)]
    assert value(connection, "select pgq.maint_retry_events()") == 1
    assert value(connection, "select pgq.maint_retry_events()") == 0
    connection.execute("select pgq._adopt_retries()")
    assert value(connection, "select pgq.maint_retry_events()") == 0
