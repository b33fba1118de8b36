from support import value


def test_the_next_ticker_ticks_and_not_this_call(connection):
    connection.execute("select pgq.create_queue('changes')")

    assert value(connection, "select pgq.force_tick('changes')") == 1
    assert value(connection, "select max(tick_id) from pgq.tick") == 1
    assert value(connection, "select pgq.ticker('changes')") == 2
    assert value(connection, "select tick_event_seq from pgq.tick where tick_id = 2") == 2001


def test_a_log_that_is_not_to_be_ticked_is_not_forced(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select pgq.set_queue_config('changes', 'ticker_paused', 'true')")

    assert value(connection, "select pgq.force_tick('changes')") == 1
    assert value(connection, "select ev_new from pgq.get_queue_info('changes')") == 0


def test_no_such_log_is_null(connection):
    assert value(connection, "select pgq.force_tick('missing')") is None
