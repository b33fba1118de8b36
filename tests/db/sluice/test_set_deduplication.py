import psycopg
import pytest

from support import rows, value

SEND = "select sluice.send('orders', '1', 'k')"
SETTINGS = "select queue_name, deduplication_window::text from sluice.deduplication"


@pytest.fixture
def orders(connection):
    connection.execute("select pgmq.create('Orders')")
    return connection


def test_a_window_is_set_and_changed_by_any_spelling_of_the_name(orders):
    orders.execute("select sluice.set_deduplication('Orders', '5 minutes')")
    assert rows(orders, SETTINGS) == [("Orders", "00:05:00")]

    orders.execute("select sluice.set_deduplication('oRDERS', '1 hour')")
    assert rows(orders, SETTINGS) == [("Orders", "01:00:00")]


def test_a_new_window_is_that_of_keys_sent_from_now_on(orders):
    orders.execute("select sluice.set_deduplication('orders', '1 hour')")
    assert value(orders, SEND) == 1

    orders.execute("select sluice.set_deduplication('orders', '1 second')")

    assert value(orders, SEND) == 1
    left = "select expires_at > now() + interval '1 minute' from sluice.deduplication_key"
    assert rows(orders, left) == [(True,)]


def test_without_a_window_the_keys_are_forgotten_for_good(orders):
    orders.execute("select sluice.set_deduplication('orders', '1 hour')")
    assert value(orders, SEND) == 1

    orders.execute("select sluice.set_deduplication('orders', null)")
    orders.execute("select sluice.set_deduplication('orders', null)")
    assert rows(orders, SETTINGS) == []
    with pytest.raises(psycopg.DatabaseError, match="has no deduplication window"):
        orders.execute(SEND)

    orders.execute("select sluice.set_deduplication('orders', '1 hour')")
    assert value(orders, SEND) == 2


def test_a_queue_that_is_dropped_and_made_again_knows_no_key_of_the_old_one(orders):
    orders.execute("select sluice.set_deduplication('orders', '1 hour')")
    assert value(orders, SEND) == 1

    orders.execute("select pgmq.drop_queue('Orders')")
    assert rows(orders, SETTINGS) == []
    orders.execute("select pgmq.create('orders')")
    orders.execute("select sluice.set_deduplication('orders', '1 hour')")

    assert value(orders, SEND) == 1
    assert value(orders, "select count(*) from pgmq.q_orders") == 1


def test_a_queue_that_does_not_exist_is_named_with_the_way_out(connection):
    with pytest.raises(psycopg.errors.UndefinedTable) as caught:
        connection.execute("select sluice.set_deduplication('nope', '5 minutes')")

    assert caught.value.diag.message_primary == "queue 'nope' does not exist"
    assert caught.value.diag.message_hint == "create it with pgmq.create('nope')"


@pytest.mark.parametrize("window", ["0", "-1 minute"])
def test_a_window_that_is_not_positive_is_refused(orders, window):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="is not positive"):
        orders.execute("select sluice.set_deduplication('orders', %s::interval)", [window])


def test_only_an_admin_sets_it(orders):
    orders.execute("set role sluice_writer")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        orders.execute("select sluice.set_deduplication('orders', '1 hour')")

    orders.execute("set role sluice_admin")
    orders.execute("select sluice.set_deduplication('orders', '1 hour')")
    orders.execute("select sluice.set_deduplication('orders', null)")
