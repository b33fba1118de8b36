"""sluice.received_moving: the note of what a shard has received."""

from __future__ import annotations

import json

from support import rows, value
from support.moving import KEYS, NEXT, TAKE


def test_messages_are_received_in_order_and_the_note_of_them_is_kept(keyed):
    keyed.execute(TAKE, (None, None, *KEYS, 9))
    keyed.execute("select pgmq.create('mine')")
    queues, messages = rows(keyed, NEXT, [], ["l"], 9)[0]
    assert queues == ["orders"]
    assert [each["msg_id"] for each in json.loads(messages)] == [1, 4]
    assert value(keyed, "select sluice.received_moving('a')") == []
    assert value(keyed, "select sluice.receive_moving('a', %s::jsonb)", messages) == 2
    found = rows(
        keyed,
        "select message, headers -> 'x-pgmq-moved-from' from pgmq.q_orders where msg_id > 7 order by msg_id",
    )
    assert found == [(n, {"shard": "a", "queue": "orders", "msg_id": n}) for n in (1, 4)]
    received = value(keyed, "select sluice.received_moving('a')")
    assert {str(each) for each in received} == {each["moving_id"] for each in json.loads(messages)}
    # The sender forgets what the receiver has noted, and goes on.
    _, messages = rows(keyed, NEXT, received, [], 1)[0]
    assert [each["msg_id"] for each in json.loads(messages)] == [2]
    assert value(keyed, "select count(*) from sluice.moving_message") == 2
