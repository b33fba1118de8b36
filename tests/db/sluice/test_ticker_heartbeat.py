"""sluice.ticker_heartbeat: a ticker notifies listeners that it is running."""

from __future__ import annotations

import psycopg
import pytest


def test_listeners_are_notified_of_its_start_and_end(connection):
    connection.execute('listen "sluice.ticker"')
    connection.execute("select sluice.ticker_heartbeat()")
    connection.execute("select sluice.ticker_heartbeat(is_gone => true)")

    payloads = [notice.payload for notice in connection.notifies(timeout=10, stop_after=2)]

    assert payloads == ["", "gone"]


def test_ticker_roles_may_call_it(as_member):
    for member_of in ("pgq_admin", "sluice_admin"):
        as_member(member_of, "select sluice.ticker_heartbeat()")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", "select sluice.ticker_heartbeat()")
