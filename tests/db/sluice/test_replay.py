"""sluice.replay, with _replay_sql and _replayed_headers."""

import psycopg
import pytest

from support import rows, value

ORIGIN = "x-pgmq-replayed-from"


def test_archived_messages_are_sent_again_and_stay_archived(orders):
    assert rows(orders, "select * from sluice.replay('orders', array[3, 1, 3, 5, 77])") == [
        (1, 10),
        (3, 11),
    ]

    assert rows(
        orders,
        "select msg_id, read_ct, message, vt = enqueued_at, headers - %s from pgmq.q_orders where msg_id > 9 order by 1",
        ORIGIN,
    ) == [
        (10, 0, {"n": 1, "odd": True}, True, {"h": 1}),
        (11, 0, {"n": 3, "odd": True}, True, {"h": 0}),
    ]
    assert value(orders, "select count(*) from pgmq.a_orders") == 4


def test_a_replayed_message_says_where_it_comes_from(orders):
    orders.execute("select sluice.replay('ORDERS', array[2], 'again')")

    origin = value(orders, "select headers -> %s from pgmq.q_again", ORIGIN)
    assert (origin["queue"], origin["msg_id"], len(origin)) == ("orders", 2, 3)
    assert value(
        orders,
        "select archived_at = %s::timestamptz from pgmq.a_orders where msg_id = 2",
        origin["archived_at"],
    )


def test_replayed_again_it_says_where_it_was_last(orders):
    orders.execute("select sluice.replay('orders', array[2], 'again')")
    orders.execute("select pgmq.archive('again', 1)")
    orders.execute("select sluice.replay('again', array[1], 'orders')")

    assert rows(
        orders,
        "select headers -> %s ->> 'queue', headers -> 'h' from pgmq.q_orders where msg_id = 10",
        ORIGIN,
    ) == [("again", 2)]


@pytest.mark.parametrize(
    ("headers", "kept"),
    [("null", None), ("'null'", None), ("'[1, 2]'", [1, 2]), ("'\"text\"'", "text")],
)
def test_headers_that_are_not_an_object_are_kept_with_the_origin(orders, headers, kept):
    orders.execute(f"update pgmq.a_orders set headers = {headers}::jsonb where msg_id = 1")

    orders.execute("select sluice.replay('orders', array[1], 'again')")

    found = value(orders, "select headers from pgmq.q_again")
    assert found.keys() == {ORIGIN}
    assert found[ORIGIN].get("headers") == kept


def test_listeners_are_notified_of_replayed_messages(orders, database):
    orders.execute("select pgmq.enable_notify_insert('again', 0)")
    with database.connect() as listener:
        listener.execute('listen "pgmq.q_again.INSERT"')
        orders.execute("select sluice.replay('orders', array[1, 2], 'again')")

        assert len(list(listener.notifies(timeout=10, stop_after=1))) == 1


@pytest.mark.parametrize("arguments", ["'missing', array[1]", "'orders', array[1], 'missing'"])
def test_an_unknown_queue_is_named(orders, arguments):
    with pytest.raises(psycopg.Error) as caught:
        orders.execute(f"select sluice.replay({arguments})")

    assert caught.value.sqlstate == "QU005"
    assert caught.value.diag.message_primary == "queue 'missing' does not exist"


def test_only_an_admin_replays(orders, as_member):
    query = "select * from sluice.replay('orders', array[1])"

    assert len(as_member("sluice_admin", query)) == 1
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
