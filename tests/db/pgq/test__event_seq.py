from support import value


def test_it_counts_ids_from_zero(connection, log):
    assert value(connection, "select pgq._event_seq(1)") == 0

    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    assert value(connection, "select pgq._event_seq(1)") == 1


def test_page_start_of_few_logs_is_the_first_and_else_where_the_session_was(connection):
    connection.execute("select pgq.create_queue('a'), pgq.create_queue('b')")

    assert value(connection, "select pgq._page_start('sluice.place', 2)") is None
    starts = {value(connection, "select pgq._page_start('sluice.place', 1)") for _ in range(100)}
    assert starts == {None, "a"}
    connection.execute("set sluice.place = '>a'")
    assert value(connection, "select pgq._page_start('sluice.place', 1)") == "a"


def test_event_seqs_are_null_for_logs_that_cannot_be_read(connection):
    connection.execute("select pgq.create_queue('a'), pgq.create_queue('b')")
    connection.execute("select pgq.insert_event('b', 't', 'd')")

    assert value(connection, "select pgq._event_seqs(array[1, 2])") == [0, 1]
    assert value(connection, "select pgq._event_seqs(array[2, 77, 1])") == [1, None, 0]
    assert value(connection, "select pgq._event_seqs('{}')") == []
