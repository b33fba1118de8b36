"""sluice.listen: the results of a queue."""

import psycopg
import pytest

from support import rows, value


@pytest.mark.parametrize("call", ["finish", "store_results"])
def test_a_session_that_listens_is_notified_of_kept_results_by_the_commit(
    database, connection, claimed, call
):
    finish = "select * from sluice.finish('orders', '{1}', '{1}', '[1]', '1 hour')"
    store = "select sluice.store_results('orders', '{1}', '[1]', '1 hour')"
    with database.connect() as listener:
        channel = value(listener, "select sluice.listen('Orders', 'results')")

        with connection.transaction():
            connection.execute(finish if call == "finish" else store)
            assert list(listener.notifies(timeout=0)) == []

        (notification,) = listener.notifies(timeout=30, stop_after=1)
    assert (notification.channel, notification.payload) == (channel, "1")


def test_a_session_stops_listening_to_results_and_not_to_messages(connection):
    connection.execute("select sluice.listen('orders'), sluice.listen('orders', 'results')")

    connection.execute("select sluice.unlisten('Orders', 'results')")

    names = sorted(rows(connection, "select * from pg_listening_channels()"))
    assert names == [("sluice.notifier",), ("sluice.q_orders",)]


def test_the_channels_of_a_queue_with_a_long_name_differ(connection):
    channel = "select sluice.notify_channel(repeat('a', 47), %s)"
    assert value(connection, channel, "results") != value(connection, channel, "queue")
    assert len(value(connection, channel, "results")) <= 63


def test_an_unknown_kind_is_refused(connection):
    with pytest.raises(
        psycopg.errors.InvalidParameterValue, match="'tick' is not a kind of channel"
    ):
        connection.execute("select sluice.notify_channel('orders', 'tick')")
