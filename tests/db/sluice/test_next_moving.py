"""sluice.next_moving: what has been taken goes to its shard in steps."""

from __future__ import annotations

import json

from support import rows, value
from support.moving import KEYS, NEXT, TAKE


def test_messages_of_held_keys_are_not_returned_and_received_ones_are_forgotten(keyed):
    keyed.execute(TAKE, (None, None, *KEYS, 9))
    queues, messages = rows(keyed, NEXT, [], ["k"], 1)[0]
    (first,) = json.loads(messages)
    assert (queues, first["msg_id"], first["key"]) == (["orders"], 2, "l")
    _, messages = rows(keyed, NEXT, [first["moving_id"]], ["k"], 9)[0]
    assert [each["msg_id"] for each in json.loads(messages)] == [5]
    _, messages = rows(keyed, NEXT, [], ["k", "l"], 9)[0]
    assert messages is None
    assert value(keyed, "select count(*) from sluice.moving_message") == 3
