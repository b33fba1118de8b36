"""sluice.set_queue_options: a pause. Workers claim nothing from a paused queue; producers and pgmq.read go on."""

import pytest

from support import rows, value
from support.listen import Channel
from support.queue_options import set_queue_options

CLAIM = "select msg_id from sluice.claim_messages('Orders', 30, 1)"


@pytest.mark.parametrize("limits", [{}, {"fleet_concurrency": 9}, {"when_waiting": "block"}])
def test_paused_queue_gives_workers_nothing_and_readers_messages(orders, limits):
    set_queue_options(orders, "orders", **limits)

    options = {"paused": True, "pause_reason": "bank is down"}
    assert set_queue_options(orders, "ORDERS", **options) == "changed"

    assert rows(orders, CLAIM) == []
    assert value(orders, "select sluice.next_capacity('orders')") is None
    assert rows(orders, "select msg_id from pgmq.read('orders', 30, 1)") == [(8,)]
    assert value(orders, "select pgmq.send('orders', '10')") == 10


def test_other_queues_are_claimed(orders):
    orders.execute("select pgmq.send('again', '1')")

    set_queue_options(orders, "orders", paused=True)

    assert rows(orders, "select msg_id from sluice.claim_messages('again', 30, 1)") == [(1,)]


def test_message_claimed_before_the_pause_is_acknowledged(orders):
    assert rows(orders, CLAIM) == [(8,)]

    set_queue_options(orders, "orders", paused=True)

    assert value(orders, "select sluice.archive('orders', 8, 1)") is True


def test_second_pause_keeps_the_first_and_replaces_its_reason_if_one_is_given(orders):
    query = "select paused_at, paused_by, pause_reason from sluice.queue_settings"
    orders.execute("set application_name = 'a b'")
    assert set_queue_options(orders, "orders", paused=True, pause_reason="first") == "changed"
    ((paused_at, paused_by, _),) = rows(orders, query)

    orders.execute("set application_name = 'c'")
    for options, outcome, kept in (
        ({"paused": True}, "unchanged", "first"),
        ({"paused": True, "pause_reason": "second"}, "changed", "second"),
        ({"pause_reason": "third"}, "changed", "third"),
        ({"pause_reason": None}, "changed", None),
    ):
        assert set_queue_options(orders, "orders", **options) == outcome
        assert rows(orders, query) == [(paused_at, paused_by, kept)]

    assert paused_by == f"role {orders.info.user}, application 'a b'"


def test_pause_ends_with_the_queue(orders):
    set_queue_options(orders, "orders", paused=True)

    orders.execute("select pgmq.drop_queue('orders'), pgmq.create('orders')")

    assert rows(orders, "select * from sluice.queue_settings") == []


@pytest.mark.parametrize("paused", [False, None])
def test_resumed_queue_is_claimed_and_its_listeners_are_notified(orders, database, paused):
    set_queue_options(orders, "orders", paused=True, pause_reason="bank is down")
    with Channel(database.url, "orders") as channel:
        assert set_queue_options(orders, "ORDERS", paused=paused) == "changed"
        assert channel.wait(10)
        assert set_queue_options(orders, "orders", paused=paused) == "unchanged"

    assert rows(orders, CLAIM) == [(8,)]
    assert rows(orders, "select paused_at, paused_by, pause_reason from sluice.queue_settings") == [
        (None, None, None)
    ]


def test_reason_without_a_pause_is_not_kept(orders):
    assert set_queue_options(orders, "orders", pause_reason="bank is down") == "unchanged"

    set_queue_options(orders, "orders", paused=True)

    assert value(orders, "select pause_reason from sluice.queue_settings") is None


def test_a_reader_respects_a_pause(orders, as_member):
    set_queue_options(orders, "orders", paused=True)

    assert as_member("sluice_reader", CLAIM) == []
