"""Removal of a consumer: unregister_consumer, with _remove_subscribers."""

import threading

from support import rows, value, wait_for_lock
from support.log import error_of


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


def test_a_main_consumer_goes_with_its_subconsumers(connection, log):
    for name in ("one", "two"):
        connection.execute("select pgq_coop.register_subconsumer('changes', 'lake', %s)", (name,))

    assert value(connection, "select pgq.unregister_consumer('changes', 'lake.one')") == 1
    assert value(connection, "select pgq.unregister_consumer('changes', 'lake')") == 2
    for table in ("consumer", "subscriber", "position_0", "position_1"):
        assert rows(connection, f"select * from pgq.{table}") == [], table


def test_a_session_that_waits_for_the_consumer_finds_it_gone(database, connection, consumer):
    with database.connect(autocommit=False) as remover, database.connect() as reader:
        remover.execute("select pgq.unregister_consumer('changes', 'lake')")
        errors = []
        waiting = threading.Thread(
            target=lambda: errors.append(
                error_of(reader, "select pgq.next_batch('changes', 'lake')")
            )
        )
        waiting.start()
        wait_for_lock(connection, reader)
        remover.commit()
        waiting.join(30)

    assert errors == [("PQ002", "Not subscriber to queue: changes/lake")]
