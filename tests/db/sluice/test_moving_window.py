"""sluice.moving_window."""

from __future__ import annotations

from support import rows


def test_window_has_the_keys_of_the_last_messages(keyed):
    query = "select first_msg_id, keys from sluice.moving_window('orders', %s, %s)"
    assert rows(keyed, query, None, 3) == [(5, ["l", "m"])]
    assert rows(keyed, query, 5, 10) == [(1, ["k", "l", "m"])]
    assert rows(keyed, query, 1, 10) == [(None, [])]
