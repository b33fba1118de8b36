import psycopg
import pytest

from support.exports import backlog, create_export, verify


def test_it_is_what_the_archive_holds_and_the_export_has_not_verified(orders):
    create_export(orders)
    create_export(orders, "backup")
    assert backlog(orders) == [(1, 4, 4)]

    verify(orders, 1, 3)

    assert backlog(orders) == [(2, 4, 2)]
    assert backlog(orders, "backup") == [(1, 4, 4)]
    verify(orders, 2, 4)
    assert backlog(orders) == []
    orders.execute("select pgmq.archive('orders', 8)")
    assert backlog(orders) == [(8, 8, 1)]


def test_it_is_counted_by_pages_of_ids(orders):
    create_export(orders)
    orders.execute(
        "insert into pgmq.a_orders (msg_id, vt) values (255, now()), (256, now()), (9000, now())"
    )

    assert backlog(orders) == [(1, 255, 5), (256, 256, 1), (9000, 9000, 1)]


def test_an_export_that_is_not_there_is_named(orders):
    with pytest.raises(psycopg.Error) as caught:
        backlog(orders, "none")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "QU006",
        "queue 'orders' has no export 'none'",
    )


def test_a_reader_may_look(orders, as_member):
    create_export(orders)

    query = "select * from sluice.export_backlog('orders', 'lake')"

    assert as_member("sluice_reader", query) == [(1, 4, 4)]
