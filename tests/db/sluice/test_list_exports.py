from support import rows
from support.exports import create_export, verify

QUERY = (
    "select queue_name, export_name, lake, verified_at is not null, kept from sluice.list_exports()"
)


def test_every_export_is_listed_with_what_it_has_verified_of_the_archive(orders):
    assert rows(orders, QUERY) == []
    for name in ("lake", "backup"):
        create_export(orders, name)
    verify(orders, 1, 2, 4)

    assert rows(orders, QUERY) == [
        ("orders", "backup", "/backup", False, 0),
        ("orders", "lake", "/lake", True, 3),
    ]
    orders.execute(
        "select sluice.drop_export('orders', 'backup'), sluice.drop_exported('orders', 1)"
    )
    assert rows(orders, QUERY) == [("orders", "lake", "/lake", True, 2)]


def test_readers_and_monitors_may_look(orders, as_member):
    create_export(orders)

    for member_of in ("sluice_admin", "sluice_reader", "sluice_monitor"):
        assert len(as_member(member_of, QUERY)) == 1
