"""sluice.listen: the channels of a queue and of the notifier's heartbeat."""

from __future__ import annotations

from support import rows, value


def channels(connection):
    return {name for (name,) in rows(connection, "select * from pg_listening_channels()")}


def test_it_listens_to_the_queue_and_to_the_notifier(connection):
    assert value(connection, "select sluice.listen('Orders')") == "sluice.q_orders"

    assert channels(connection) == {"sluice.q_orders", "sluice.notifier"}


def test_null_listens_to_the_notifier_alone(connection):
    assert value(connection, "select sluice.listen(null)") is None

    assert channels(connection) == {"sluice.notifier"}


def test_it_takes_effect_with_the_commit(database):
    with database.connect(autocommit=False) as connection:
        connection.execute("select sluice.listen('orders')")
        connection.rollback()

        assert channels(connection) == set()


def test_a_reader_may_listen_and_is_notified(database, connection, role):
    connection.execute(f"grant sluice_reader to {role}")
    with database.connect(user=role) as reader:
        reader.execute("select sluice.listen('orders')")
        connection.execute("select sluice.notifier_wake('{orders}', true)")

        found = {n.channel for n in reader.notifies(timeout=30, stop_after=2)}

    assert found == {"sluice.q_orders", "sluice.notifier"}
