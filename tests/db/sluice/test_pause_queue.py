"""sluice.pause_queue: workers claim nothing from a paused queue; producers and pgmq.read go on."""

import psycopg
import pytest

from support import rows, value

CLAIM = "select msg_id from sluice.claim_messages('Orders', 30, 1)"


@pytest.mark.parametrize("limits", [None, "fleet_concurrency => 9", "when_waiting => 'block'"])
def test_paused_queue_gives_workers_nothing_and_readers_messages(orders, limits):
    if limits is not None:
        orders.execute(f"select sluice.set_queue_limits('orders', {limits})")

    assert value(orders, "select sluice.pause_queue('ORDERS', 'bank is down')") is True

    assert rows(orders, CLAIM) == []
    assert value(orders, "select sluice.next_capacity('orders')") is None
    assert rows(orders, "select msg_id from pgmq.read('orders', 30, 1)") == [(8,)]
    assert value(orders, "select pgmq.send('orders', '10')") == 10


def test_other_queues_are_claimed(orders):
    orders.execute("select pgmq.send('again', '1')")

    orders.execute("select sluice.pause_queue('orders')")

    assert rows(orders, "select msg_id from sluice.claim_messages('again', 30, 1)") == [(1,)]


def test_message_claimed_before_the_pause_is_acknowledged(orders):
    assert rows(orders, CLAIM) == [(8,)]

    orders.execute("select sluice.pause_queue('orders')")

    assert value(orders, "select sluice.archive('orders', 8, 1)") is True


def test_second_pause_keeps_the_first_and_replaces_its_reason_if_one_is_given(orders):
    query = "select paused_at, paused_by, reason from sluice.queue_pause"
    orders.execute("set application_name = 'a b'")
    assert value(orders, "select sluice.pause_queue('orders', 'first')") is True
    ((paused_at, paused_by, _),) = rows(orders, query)

    for reason, kept in (("null", "first"), ("'second'", "second")):
        assert value(orders, f"select sluice.pause_queue('orders', {reason})") is False
        assert rows(orders, query) == [(paused_at, paused_by, kept)]

    assert paused_by == f"role {orders.info.user}, application 'a b'"


def test_pause_ends_with_the_queue(orders):
    orders.execute("select sluice.pause_queue('orders')")

    orders.execute("select pgmq.drop_queue('orders'), pgmq.create('orders')")

    assert rows(orders, "select * from sluice.queue_pause") == []


def test_missing_queue_is_named(connection):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist") as caught:
        connection.execute("select sluice.pause_queue('missing')")

    assert caught.value.sqlstate == "QU005"


def test_only_an_admin_pauses_and_a_reader_respects_it(orders, as_member):
    query = "select sluice.pause_queue('orders')"

    assert as_member("sluice_admin", query) == [(True,)]
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
    orders.execute(query)
    assert as_member("sluice_reader", CLAIM) == []
