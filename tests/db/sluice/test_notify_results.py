import pytest


@pytest.mark.parametrize(
    ("msg_ids", "payload"), [([3, 14], "3,14"), (list(range(10_000, 12_000)), "")]
)
def test_a_listener_gets_the_ids_or_nothing_if_they_are_too_many(
    database, connection, claimed, msg_ids, payload
):
    with database.connect() as listener:
        listener.execute("select sluice.listen('orders', 'results')")

        connection.execute("select sluice.notify_results('Orders', %s)", [msg_ids])

        (notification,) = listener.notifies(timeout=30, stop_after=1)
    assert notification.payload == payload


def test_two_calls_of_a_transaction_with_the_same_ids_notify_once(database, connection, claimed):
    with database.connect() as listener:
        listener.execute("select sluice.listen('orders', 'results')")
        with connection.transaction():
            connection.execute("select sluice.notify_results('orders', '{1}')")
            connection.execute("select sluice.notify_results('orders', '{1}')")
        connection.execute("select sluice.notify_results('orders', '{2}')")

        found = [each.payload for each in listener.notifies(timeout=30, stop_after=2)]
    assert found == ["1", "2"]
