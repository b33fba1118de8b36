"""sluice.drop_exported, which retention also calls."""

import psycopg
import pytest

from support import rows, value
from support.exports import archived, create_export, verify


def test_only_rows_verified_by_every_export_are_dropped(orders):
    for name in ("lake", "backup"):
        create_export(orders, name)
    verify(orders, 1, 2, 3)
    verify(orders, 2, 3, 4, export="backup")

    dropped = [value(orders, "select sluice.drop_exported('orders', 1)") for _ in range(3)]

    assert (dropped, archived(orders)) == ([1, 1, 0], [1, 4])


def test_without_an_export_nothing_goes(orders):
    assert value(orders, "select sluice.drop_exported('orders')") == 0
    assert archived(orders) == [1, 2, 3, 4]


def test_rows_deleted_manually_are_forgotten(orders):
    create_export(orders)
    verify(orders, 1, 2)
    orders.execute("delete from pgmq.a_orders where msg_id = 1")

    assert value(orders, "select sluice.drop_exported('orders')") == 1
    assert rows(orders, "select * from sluice.exported_page") == []


@pytest.mark.slow
def test_the_archive_beyond_what_is_verified_is_not_read(orders, buffers):
    orders.execute(
        "insert into pgmq.a_orders (msg_id, vt, message) select n, now(), '{}' from generate_series(50001, 150000) as n"
    )
    orders.execute("analyze pgmq.a_orders")
    create_export(orders)
    verify(orders, 1, 2, 3, 4, *range(60001, 60200))

    with orders.transaction(force_rollback=True):
        touched = buffers("select sluice.drop_exported('orders', 10)")

    assert touched < 400 < value(orders, "select pg_relation_size('pgmq.a_orders') / 8192")


@pytest.mark.parametrize("rows_max", ["0", "null"])
def test_invalid_limit_is_refused(orders, rows_max):
    with pytest.raises(psycopg.Error, match="rows_max must be 1 or more"):
        orders.execute(f"select sluice.drop_exported('orders', {rows_max})")
