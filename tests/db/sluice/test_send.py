import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

STORED = "select msg_id, message, headers from pgmq.q_orders order by 1"
MANY_BYTES = "ü" * 600


@pytest.fixture
def orders(connection):
    """A queue with a deduplication window of five minutes."""
    connection.execute("select pgmq.create('orders')")
    set_queue_options(connection, "orders", deduplication_window="5 minutes")
    return connection


def test_a_second_send_with_the_same_key_returns_the_first_id_and_stores_nothing(orders):
    assert value(orders, "select sluice.send('orders', '1', 'k', '{\"h\": 1}')") == 1
    assert value(orders, "select sluice.send('orders', '2', 'k')") == 1
    assert value(orders, "select sluice.send('orders', '3', 'other')") == 2

    assert rows(orders, STORED) == [(1, 1, {"h": 1}), (2, 3, None)]


def test_without_a_key_each_one_is_stored(orders):
    assert value(orders, "select sluice.send('orders', '1', null)") == 1
    assert value(orders, "select sluice.send('orders', '1', null)") == 2


def test_keys_are_compared_bytewise_and_belong_to_one_queue(orders):
    orders.execute("select pgmq.create('others')")
    set_queue_options(orders, "others", deduplication_window="5 minutes")

    assert value(orders, "select sluice.send('orders', '1', 'k')") == 1
    assert value(orders, "select sluice.send('orders', '1', 'K')") == 2
    assert value(orders, "select sluice.send('orders', '1', 'k ')") == 3
    assert value(orders, "select sluice.send('others', '1', 'k')") == 1


def test_a_queue_has_one_space_of_keys_by_any_spelling_of_its_name(orders):
    assert value(orders, "select sluice.send('orders', '1', 'k')") == 1
    assert value(orders, "select sluice.send('ORDERS', '1', 'k')") == 1


def test_a_key_whose_window_is_over_is_sent_again(orders):
    assert value(orders, "select sluice.send('orders', '1', 'k')") == 1
    orders.execute("update sluice.deduplication_key set expires_at = now()")

    assert value(orders, "select sluice.send('orders', '2', 'k')") == 2
    assert value(orders, "select sluice.send('orders', '3', 'k')") == 2
    assert value(orders, "select count(*) from sluice.deduplication_key") == 1


@pytest.mark.parametrize(
    "end", ["delete('orders', 1)", "archive('orders', 1)", "purge_queue('orders')"]
)
def test_a_key_outlives_its_message(orders, end):
    orders.execute("select sluice.send('orders', '1', 'k')")
    orders.execute(f"select pgmq.{end}")

    assert value(orders, "select sluice.send('orders', '1', 'k')") == 1
    assert value(orders, "select count(*) from pgmq.q_orders") == 0


def test_a_key_that_is_rolled_back_is_not_known(orders):
    with orders.transaction(force_rollback=True):
        orders.execute("select sluice.send('orders', '1', 'k')")

    orders.execute("select sluice.send('orders', '2', 'k')")
    assert value(orders, "select message from pgmq.q_orders") == 2


@pytest.mark.parametrize(
    "delay", ["60", "clock_timestamp() + interval '60 s'"], ids=["seconds", "time"]
)
def test_a_delayed_message_is_hidden_until_then(orders, delay):
    orders.execute(f"select sluice.send('orders', '1', 'k', null, {delay})")

    left = "select extract(epoch from vt - clock_timestamp()) between 50 and 60 from pgmq.q_orders"
    assert value(orders, left) is True


def test_a_message_without_delay_is_ready(orders):
    orders.execute("select sluice.send('orders', '1', 'k')")

    assert value(orders, "select vt <= enqueued_at from pgmq.q_orders") is True


@pytest.mark.parametrize(
    ("key", "words"), [("", "has 0 bytes"), ("k" * 1025, "1025 bytes"), (MANY_BYTES, "1200 bytes")]
)
def test_a_key_that_cannot_be_kept_is_refused(orders, key, words):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=words):
        orders.execute("select sluice.send('orders', '1', %s)", [key])

    assert value(orders, "select count(*) from pgmq.q_orders") == 0


def test_the_longest_key_is_kept(orders):
    key = "".join(chr(0x20AC + n) for n in range(341))  # 1,023 incompressible bytes

    assert value(orders, "select sluice.send('orders', '1', %s)", key) == 1
    assert value(orders, "select sluice.send('orders', '1', %s)", key) == 1


def test_a_queue_without_a_window_is_named_with_a_hint(connection):
    connection.execute("select pgmq.create('orders')")

    with pytest.raises(psycopg.DatabaseError) as caught:
        connection.execute("select sluice.send('orders', '1', 'k')")

    assert caught.value.sqlstate == "QU004"
    assert caught.value.diag.message_primary == "queue 'orders' has no deduplication window"
    statement = "sluice.set_queue_options('orders', '{\"deduplication_window\": \"5 minutes\"}')"
    assert statement in caught.value.diag.message_hint


def test_a_queue_that_does_not_exist_is_an_undefined_table(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select sluice.send('nope', '1', 'k')")


def test_a_writer_may_and_a_reader_may_not(orders):
    orders.execute("set role sluice_writer")
    assert value(orders, "select sluice.send('orders', '1', 'k')") == 1
    assert value(orders, "select sluice.send('orders', '1', 'k')") == 1
    orders.execute("set role sluice_reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        orders.execute("select sluice.send('orders', '1', 'k')")


def test_the_keys_of_an_unlogged_queue_are_in_no_log_and_those_of_others_are(orders):
    orders.execute("select pgmq.create_unlogged('fast')")
    set_queue_options(orders, "fast", deduplication_window="5 minutes")
    orders.execute("select sluice.send('fast', '1', 'f')")
    orders.execute("select sluice.send('orders', '1', 'o')")

    where = "select k.key, c.relpersistence from sluice.deduplication_key k join pg_class c on c.oid = k.tableoid order by 1"
    assert rows(orders, where) == [("f", "u"), ("o", "p")]
