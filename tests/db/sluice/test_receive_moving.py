"""sluice.receive_moving."""

from __future__ import annotations

from support import rows
from support.moving import KEYS, NEXT, TAKE


def test_payload_that_is_null_and_none_stay_different(keyed):
    keyed.execute("update pgmq.q_orders set message = 'null' where msg_id = 1")
    keyed.execute("update pgmq.q_orders set message = null where msg_id = 4")
    keyed.execute(TAKE, (None, None, *KEYS, 9))
    _, messages = rows(keyed, NEXT, [], ["l"], 9)[0]
    keyed.execute("select sluice.receive_moving('a', %s::jsonb)", (messages,))
    found = rows(keyed, "select message::text from pgmq.q_orders where msg_id > 7 order by msg_id")
    assert found == [("null",), (None,)]
