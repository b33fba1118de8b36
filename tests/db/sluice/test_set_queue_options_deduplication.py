"""sluice.set_queue_options: the deduplication window."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from support import rows, value
from support.queue_options import set_queue_options

SEND = "select sluice.send('orders', '1', 'k')"
SETTINGS = "select queue_name, deduplication_window::text from sluice.queue_settings where deduplication_window is not null"


@pytest.fixture
def orders(connection):
    connection.execute("select pgmq.create('Orders')")
    return connection


def test_a_window_is_set_and_changed_by_any_spelling_of_the_name(orders):
    set_queue_options(orders, "Orders", deduplication_window="5 minutes")
    assert rows(orders, SETTINGS) == [("Orders", "00:05:00")]

    set_queue_options(orders, "oRDERS", deduplication_window="1 hour")
    assert rows(orders, SETTINGS) == [("Orders", "01:00:00")]


def test_a_new_window_is_that_of_keys_sent_from_now_on(orders):
    set_queue_options(orders, "orders", deduplication_window="1 hour")
    assert value(orders, SEND) == 1

    set_queue_options(orders, "orders", deduplication_window="1 second")

    assert value(orders, SEND) == 1
    left = "select expires_at > now() + interval '1 minute' from sluice.deduplication_key"
    assert rows(orders, left) == [(True,)]


def test_without_a_window_the_keys_are_forgotten_for_good(orders):
    set_queue_options(orders, "orders", deduplication_window="1 hour")
    assert value(orders, SEND) == 1

    assert set_queue_options(orders, "orders", deduplication_window=None) == "changed"
    assert set_queue_options(orders, "orders", deduplication_window=None) == "unchanged"
    assert rows(orders, SETTINGS) == []
    with pytest.raises(psycopg.DatabaseError, match="has no deduplication window"):
        orders.execute(SEND)

    set_queue_options(orders, "orders", deduplication_window="1 hour")
    assert value(orders, SEND) == 2


def test_a_queue_that_is_dropped_and_made_again_knows_no_key_of_the_old_one(orders):
    set_queue_options(orders, "orders", deduplication_window="1 hour")
    assert value(orders, SEND) == 1

    orders.execute("select pgmq.drop_queue('Orders')")
    assert rows(orders, SETTINGS) == []
    orders.execute("select pgmq.create('orders')")
    set_queue_options(orders, "orders", deduplication_window="1 hour")

    assert value(orders, SEND) == 1
    assert value(orders, "select count(*) from pgmq.q_orders") == 1


@pytest.mark.parametrize("window", ["0", "-1 minute", 0])
def test_a_window_that_is_not_positive_is_refused(orders, window):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="is not positive"):
        set_queue_options(orders, "orders", deduplication_window=window)


def test_keys_stay_when_other_options_change(orders):
    set_queue_options(orders, "orders", deduplication_window="1 hour", fleet_concurrency=1)
    assert value(orders, SEND) == 1

    set_queue_options(orders, "orders", fleet_concurrency=None, max_attempts=3)

    assert value(orders, SEND) == 1


def test_a_window_and_until_exclude_each_other_and_keys_stay_when_one_replaces_the_other(orders):
    set_queue_options(orders, "orders", deduplication_window="1 hour")
    orders.execute("select sluice.send('orders', '1', 'k')")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="either a deduplication_window"):
        set_queue_options(orders, "orders", deduplication_until="done")

    set_queue_options(
        orders, "orders", deduplication_window=None, deduplication_until="done", on_duplicate="keep"
    )

    assert rows(
        orders, "select deduplication_until, on_duplicate from sluice.queue_options('orders')"
    ) == [("done", None)]
    assert value(orders, "select sluice.send('orders', '2', 'k')") == 1


@pytest.mark.parametrize(
    "options",
    [{"deduplication_window": "1 h"}, {"deduplication_until": "done"}],
    ids=["window", "until"],
)
def test_declared_deduplication_changes_with_its_handler_and_not_that_of_an_operator(
    connection, options
):
    connection.execute("select pgmq.create('orders')")
    both = dict.fromkeys(["deduplication_window", "deduplication_until", "on_duplicate"])
    declare = "select sluice.set_queue_options('orders', %s, 'shop.mail')"
    set_queue_options(connection, "orders", rate=5)  # other options of an operator do not matter

    for declared, outcome in (
        (both | options, "changed"),
        (both | options, "unchanged"),
        (both, "changed"),
    ):
        assert value(connection, declare, Jsonb(declared)) == outcome
    set_queue_options(connection, "orders", **options)
    assert value(connection, declare, Jsonb(both)) == "operator"
    assert value(connection, "select deduplication_by from sluice.queue_options('orders')") is None
