"""sluice.unlisten: the session stops listening to one queue."""

from __future__ import annotations

from support import rows


def test_it_leaves_the_other_queues_and_the_notifier(connection):
    connection.execute("select sluice.listen('orders'), sluice.listen('bills')")

    connection.execute(
        "select sluice.unlisten('Orders'), sluice.unlisten('nothing'), sluice.unlisten(null)"
    )

    assert sorted(rows(connection, "select * from pg_listening_channels()")) == [
        ("sluice.notifier",),
        ("sluice.q_bills",),
    ]
