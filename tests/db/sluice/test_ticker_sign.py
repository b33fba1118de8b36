"""sluice.ticker_sign: who ticks gives a sign of life."""

from __future__ import annotations

import psycopg
import pytest


def test_listeners_hear_that_it_is_there_and_that_it_is_gone(connection):
    connection.execute('listen "sluice.ticker"')
    connection.execute("select sluice.ticker_sign()")
    connection.execute("select sluice.ticker_sign(is_gone => true)")

    heard = [notice.payload for notice in connection.notifies(timeout=10, stop_after=2)]

    assert heard == ["", "gone"]


def test_those_who_may_tick_may_give_it(as_member):
    for member_of in ("pgq_admin", "sluice_admin"):
        as_member(member_of, "select sluice.ticker_sign()")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", "select sluice.ticker_sign()")
