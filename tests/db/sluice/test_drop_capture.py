from support import value


def test_changes_are_no_longer_captured_and_events_stay(connection, captured):
    connection.execute("insert into account values (1, 'a')")

    assert value(connection, "select sluice.drop_capture('account', 'changes')") is True
    connection.execute("insert into account values (2, 'b')")

    assert value(connection, "select count(*) from pgq.event_1_0") == 1
    assert value(connection, "select sluice.drop_capture('account', 'changes')") is False


def test_capture_into_another_log_goes_on(connection, captured):
    connection.execute("select pgq.create_queue('other')")
    connection.execute("select sluice.capture('account', 'other')")

    assert value(connection, "select sluice.drop_capture('account', 'changes')") is True
    connection.execute("insert into account values (1, 'a')")

    assert value(connection, "select count(*) from pgq.event_1_0") == 0
    assert value(connection, "select count(*) from pgq.event_2_0") == 1


def test_it_works_when_the_log_is_gone(connection, captured):
    connection.execute("select pgq.drop_queue('changes')")

    assert value(connection, "select sluice.drop_capture('account', 'changes')") is True
