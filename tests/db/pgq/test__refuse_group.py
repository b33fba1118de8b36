"""pgq._refuse_group: consumer functions reject a share group."""

from __future__ import annotations

from support import value
from support.log import error_of


def test_a_consumer_is_let_through(connection, log, consumer):
    key = value(connection, "select sub_key from pgq.subscriber")

    connection.execute("select pgq._refuse_group(%s)", (key,))
    connection.execute("select pgq._refuse_group(null)")


def test_a_share_group_is_not(connection, log):
    connection.execute("select sluice.create_group('changes', 'it''s a group')")
    key = value(connection, "select sub_key from pgq.subscriber")

    assert error_of(connection, "select pgq._refuse_group(%s)", key) == (
        "PQ004",
        "consumer it's a group on queue changes is a share group",
    )
