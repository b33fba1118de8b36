import psycopg
import pytest

from support import rows
from support.exports import create_export, verify

EXPORTS = "select queue_name, export_name, lake, lake_id from sluice.export order by 2"


def test_an_export_is_created_once_and_knows_where_its_table_is(orders):
    assert create_export(orders)
    assert not create_export(orders)
    orders.execute("select sluice.create_export('ORDERS', 'lake', '/moved', 'id of lake')")

    assert rows(orders, EXPORTS) == [("orders", "lake", "/moved", "id of lake")]


def test_another_table_does_not_take_the_place_of_the_one_that_holds_the_messages(orders):
    create_export(orders)

    with pytest.raises(psycopg.Error) as caught:
        orders.execute("select sluice.create_export('orders', 'lake', '/lake', 'another')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "QU006",
        "export 'lake' of queue 'orders' is of another table than the one in /lake",
    )
    assert "sluice.drop_export('orders', 'lake')" in caught.value.diag.message_hint


def test_the_export_goes_with_the_queue(orders):
    create_export(orders)
    verify(orders, 1, 2)

    orders.execute("select pgmq.drop_queue('orders')")

    assert rows(orders, EXPORTS) == rows(orders, "select * from sluice.exported_page") == []


def test_an_archive_with_more_than_the_lake_takes_is_refused(orders):
    orders.execute("alter table pgmq.a_orders add note text")

    with pytest.raises(psycopg.Error, match="columns that an export does not copy: note"):
        create_export(orders)

    orders.execute("alter table pgmq.a_orders drop note")
    orders.execute(
        "alter table pgmq.a_orders add n bigint generated always as ((message ->> 'n')::bigint) stored"
    )
    assert create_export(orders)


@pytest.mark.parametrize(
    ("arguments", "sqlstate"),
    [
        ("'missing', 'lake', '/lake', 'id'", "QU005"),
        ("'orders', null, '/lake', 'id'", "22004"),
        ("'orders', 'lake', '/lake', null", "22004"),
    ],
)
def test_invalid_export_name_is_refused(orders, arguments, sqlstate):
    with pytest.raises(psycopg.Error) as caught:
        orders.execute(f"select sluice.create_export({arguments})")

    assert caught.value.sqlstate == sqlstate


def test_only_an_admin_decides_what_is_kept_for_whom(orders, as_member):
    query = "select sluice.create_export('orders', 'lake', '/lake', 'id')"

    assert as_member("sluice_admin", query) == [(True,)]
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
