"""A queue with keys, and the statements that move its messages to the shard `b`."""

from __future__ import annotations

TAKE = "select taken, left_keys, first_msg_id from sluice.take_moving('orders', %s, %s, %s, %s, %s)"
NEXT = "select queue_names, messages::text from sluice.next_moving('b', %s, %s, %s)"
KEYS = (["k", "l"], ["b", "b"])
