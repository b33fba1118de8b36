"""sluice.set_retention, with _registered_name, which finds a queue by its name."""

import psycopg
import pytest

from support import rows


def test_a_retention_is_set_changed_and_taken_away(orders):
    query = "select queue_name, archive_retention::text from sluice.retention"
    assert rows(orders, query) == []

    orders.execute("select sluice.set_retention('orders', '30 days')")
    assert rows(orders, query) == [("orders", "30 days")]
    orders.execute("select sluice.set_retention('ORDERS', '1 hour')")
    assert rows(orders, query) == [("orders", "01:00:00")]
    orders.execute("select sluice.set_retention('orders', null)")
    assert rows(orders, query) == []


def test_the_retention_goes_with_the_queue(orders):
    orders.execute("select sluice.set_retention('orders', '30 days')")

    orders.execute("select pgmq.drop_queue('orders')")

    assert rows(orders, "select * from sluice.retention") == []


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "message"),
    [
        ("'missing', '1 day'", "QU005", "queue 'missing' does not exist"),
        ("'missing', null", "QU005", "queue 'missing' does not exist"),
        ("'orders', '-1 day'", "22023", "archive_retention is negative: -1 days"),
        ("'orders', '300000 years'", "22008", "timestamp out of range"),
    ],
)
def test_invalid_retention_is_refused(orders, arguments, sqlstate, message):
    with pytest.raises(psycopg.Error) as caught:
        orders.execute(f"select sluice.set_retention({arguments})")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
    assert rows(orders, "select * from sluice.retention") == []


def test_only_an_admin_decides_what_is_kept(orders, as_member):
    query = "select sluice.set_retention('orders', '1 day')"

    assert as_member("sluice_admin", query) == [("",)]
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
