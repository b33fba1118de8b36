"""sluice.redrive, and its part _redrive_sql."""

import psycopg
import pytest

from support import rows, value


def test_a_dead_letter_goes_back_into_its_queue_as_a_new_message(orders):
    (letter,) = rows(orders, "select dead_letter_id, dead_at from sluice.dead_letter")

    assert rows(
        orders, "select * from sluice.redrive('ORDERS', array[%s::bigint, 77])", letter[0]
    ) == [(letter[0], 10)]

    assert value(orders, "select count(*) from sluice.dead_letter") == 0
    ((read_ct, message, headers, origin),) = rows(
        orders,
        "select read_ct, message, headers - 'x-pgmq-replayed-from', headers -> 'x-pgmq-replayed-from' "
        "from pgmq.q_orders where msg_id = 10",
    )
    assert (read_ct, message, headers) == (0, {"n": 5, "odd": True}, {"h": 2})
    assert value(orders, "select %s::timestamptz = %s", origin.pop("dead_at"), letter[1])
    assert origin == {
        "queue": "orders", "msg_id": 5, "dead_letter_id": letter[0], "reason": "bad shape",
    }  # fmt: skip


def test_dead_letter_is_redriven_to_another_queue_on_request(orders):
    assert rows(orders, "select msg_id from sluice.redrive('orders', array[1], 'again')") == [(1,)]
    assert value(orders, "select message -> 'n' from pgmq.q_again") == 5


def test_dead_letters_of_other_queues_stay(orders):
    assert rows(orders, "select * from sluice.redrive('again', array[1])") == []
    assert value(orders, "select count(*) from sluice.dead_letter") == 1


def test_a_queue_that_is_gone_is_named_and_the_dead_letter_stays(orders):
    orders.execute("select pgmq.drop_queue('orders')")

    with pytest.raises(psycopg.Error) as caught:
        orders.execute("select sluice.redrive('orders', array[1])")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "QU005",
        "queue 'orders' does not exist",
    )
    assert rows(orders, "select msg_id from sluice.redrive('orders', array[1], 'again')") == [(1,)]


def test_only_an_admin_redrives_without_being_superuser(orders, as_member):
    for query in (
        "select * from sluice.redrive('orders', array[1])",
        "select * from sluice.redrive_matching('orders')",
    ):
        assert len(as_member("sluice_admin", query)) == 1
        for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, query)
