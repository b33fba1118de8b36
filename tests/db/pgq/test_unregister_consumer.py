from support import rows, value


def test_the_subscription_goes_and_then_the_name(connection, consumer):
    connection.execute("select pgq.create_queue('other')")
    connection.execute("select pgq.register_consumer('other', 'lake')")

    assert value(connection, "select pgq.unregister_consumer('changes', 'lake')") == 1
    assert rows(connection, "select co_name from pgq.consumer") == [("lake",)]
    assert value(connection, "select pgq.unregister_consumer('other', 'lake')") == 1
    assert rows(connection, "select co_name from pgq.consumer") == []


def test_nothing_to_remove_is_0(connection, log):
    assert value(connection, "select pgq.unregister_consumer('changes', 'nobody')") == 0
    assert value(connection, "select pgq.unregister_consumer('missing', 'nobody')") == 0


def test_others_keep_their_position(connection, consumer):
    connection.execute("select pgq.register_consumer('changes', 'other')")

    connection.execute("select pgq.unregister_consumer('changes', 'lake')")

    assert rows(connection, "select consumer_name from pgq.get_consumer_info('changes')") == [
        ("other",)
    ]
