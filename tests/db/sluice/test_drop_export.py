import psycopg
import pytest

from support import rows, value
from support.exports import archived, create_export
from support.queue_options import set_queue_options


def test_an_archive_is_no_longer_kept_for_it(orders):
    create_export(orders)
    set_queue_options(orders, "orders", archive_retention="0")
    assert rows(orders, "select * from sluice._maintain_retention()") == []

    assert value(orders, "select sluice.drop_export('ORDERS', 'lake')")

    assert not value(orders, "select sluice.drop_export('orders', 'lake')")
    orders.execute("select * from sluice._maintain_retention()")
    assert archived(orders) == []


def test_an_unknown_queue_is_named(connection):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist"):
        connection.execute("select sluice.drop_export('missing', 'lake')")
