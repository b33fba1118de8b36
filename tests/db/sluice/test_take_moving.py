"""sluice.take_moving: messages leave their queue for another shard."""

from __future__ import annotations

from support import rows
from support.moving import KEYS, TAKE


def left(connection) -> list[int]:
    return [row[0] for row in rows(connection, "select msg_id from pgmq.q_orders order by 1")]


def test_messages_of_the_keys_are_taken_from_the_end_in_steps(keyed):
    assert rows(keyed, TAKE, None, None, *KEYS, 3) == [(3, [], 2)]
    assert left(keyed) == [1, 3, 6, 7]
    assert rows(keyed, TAKE, None, 2, *KEYS, 3) == [(1, [], None)]
    assert left(keyed) == [3, 6, 7]
    assert rows(keyed, TAKE, None, None, *KEYS, 3) == [(0, [], None)]


def test_messages_in_flight_or_locked_stay_and_their_keys_are_named(database, keyed):
    keyed.execute("select pgmq.read('orders', 60, 1)")
    with database.connect(autocommit=False) as other:
        other.execute("select from pgmq.q_orders where msg_id = 5 for update")
        assert rows(keyed, TAKE, None, None, *KEYS, 9) == [(2, ["k", "l"], None)]
    assert left(keyed) == [1, 3, 5, 6, 7]
    keyed.execute("update pgmq.q_orders set vt = clock_timestamp() where msg_id = 1")
    assert rows(keyed, TAKE, None, None, *KEYS, 9) == [(2, [], None)]


def test_key_with_a_message_that_waits_for_another_stays(keyed):
    keyed.execute("select sluice.enable_successors('orders')")
    keyed.execute(
        "select sluice.send_after('orders', '8', array['orders'], array[1::bigint], '{\"x-pgmq-group\": \"l\"}')"
    )
    assert rows(keyed, TAKE, None, None, *KEYS, 9) == [(0, ["k", "l"], None)]
