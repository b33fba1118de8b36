from support import value


def test_it_counts_ids_from_zero(connection, log):
    assert value(connection, "select pgq._event_seq(1)") == 0

    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    assert value(connection, "select pgq._event_seq(1)") == 1
