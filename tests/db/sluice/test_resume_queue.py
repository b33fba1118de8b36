"""sluice.resume_queue: workers claim again, and those that wait are notified."""

import psycopg
import pytest

from support import rows, value
from support.listen import Channel


def test_resumed_queue_is_claimed_and_its_listeners_are_notified(orders, database):
    orders.execute("select sluice.pause_queue('orders')")
    with Channel(database.url, "orders") as channel:
        assert value(orders, "select sluice.resume_queue('ORDERS')") is True
        assert channel.wait(10)
        assert value(orders, "select sluice.resume_queue('orders')") is False

    assert rows(orders, "select msg_id from sluice.claim_messages('orders', 30, 1)") == [(8,)]


def test_missing_queue_is_named(connection):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist") as caught:
        connection.execute("select sluice.resume_queue('missing')")

    assert caught.value.sqlstate == "QU005"


def test_only_an_admin_resumes(orders, as_member):
    orders.execute("select sluice.pause_queue('orders')")
    query = "select sluice.resume_queue('orders')"

    assert as_member("sluice_admin", query) == [(True,)]
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
