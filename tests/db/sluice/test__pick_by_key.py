"""sluice._pick_by_key: claims from a queue with a limit or an order for each key.

Also covers _first_of_keys, _first_without_key, _next_keys, _park_keys and _limit_key_sql.
"""

import pytest

from support import rows, value
from support.queue_options import set_queue_options

CLAIM = "select msg_id from sluice.claim_messages('q', 30, %s)"


@pytest.fixture
def queue(connection):
    """The queue `q`: 1 and 2 of key `a`, 3 and 4 of `b`, 5 and 6 without a key, 7 of `a`."""
    connection.execute("select pgmq.create('q')")
    for key in ("a", "a", "b", "b", None, None, "a"):
        send(connection, key)
    return connection


def send(connection, key, number=1, delay=0):
    connection.execute(
        "select pgmq.send('q', '1'::jsonb, jsonb_strip_nulls(jsonb_build_object('x-pgmq-group', %s::text)), %s::int) "
        "from generate_series(1, %s)",
        (key, delay, number),
    )


def claim(connection, qty=99):
    return [msg_id for (msg_id,) in rows(connection, CLAIM, qty)]


def retry(connection, msg_id, delay=600):
    """Release a claimed message with a delay."""
    connection.execute(
        "select sluice.release('q', msg_id, read_ct, %s) from pgmq.q_q where msg_id = %s",
        (delay, msg_id),
    )


def due(connection, msg_id):
    """Make a delayed message visible now."""
    connection.execute("update pgmq.q_q set vt = clock_timestamp() where msg_id = %s", (msg_id,))


def test_of_a_key_no_more_are_in_flight_than_key_concurrency(queue):
    set_queue_options(queue, "q", key_concurrency=2)

    assert claim(queue, 3) == [1, 2, 3]
    assert claim(queue) == [4, 5, 6]
    assert claim(queue) == []

    queue.execute("select pgmq.delete('q', 2)")
    assert claim(queue) == [7]


def test_message_pending_retry_occupies_no_slot_of_its_key(queue):
    set_queue_options(queue, "q", key_concurrency=2)
    claim(queue)

    retry(queue, 1)

    assert claim(queue) == [7]


@pytest.mark.parametrize("when_waiting", ["block", "skip", "park"])
def test_messages_of_a_key_are_claimed_one_after_the_other(queue, when_waiting):
    set_queue_options(queue, "q", when_waiting=when_waiting)

    assert claim(queue) == [1, 3, 5, 6]
    assert claim(queue) == []
    queue.execute("select pgmq.delete('q', 1)")
    assert claim(queue) == [2]
    queue.execute("select pgmq.delete('q', 2)")
    assert claim(queue) == [7]


@pytest.mark.parametrize("when_waiting", ["block", "skip", "park"])
def test_immediate_redelivery_precedes_later_messages(queue, when_waiting):
    """After a release without delay or an expiry, no message of the key waits."""
    set_queue_options(queue, "q", when_waiting=when_waiting)
    claim(queue)

    retry(queue, 1, delay=0)
    due(queue, 3)

    assert claim(queue) == [1, 3]


def test_block_holds_the_key_until_the_redelivery(queue):
    set_queue_options(queue, "q", when_waiting="block")
    claim(queue)
    retry(queue, 1)
    assert claim(queue) == []

    due(queue, 1)

    assert claim(queue) == [1]
    assert claim(queue) == []


def test_skip_goes_on_and_the_message_has_the_next_turn_when_its_time_has_come(queue):
    set_queue_options(queue, "q", when_waiting="skip")
    claim(queue)
    retry(queue, 1)
    assert claim(queue) == [2]
    due(queue, 1)
    assert claim(queue) == []

    queue.execute("select pgmq.delete('q', 2)")

    assert claim(queue) == [1]


def test_park_holds_the_key_until_unparked_also_when_checked_late(queue):
    set_queue_options(queue, "q", when_waiting="park")
    claim(queue)
    retry(queue, 1)
    due(queue, 1)  # before the next claim

    assert claim(queue) == []
    assert rows(queue, "select key, msg_id from sluice.parked_key") == [("a", 1)]
    send(queue, "a")
    assert claim(queue) == []


def test_dead_lettered_message_blocks_no_key(queue):
    set_queue_options(queue, "q", when_waiting="block")
    claim(queue)

    queue.execute("select sluice.reject('q', 1, 1, 'bad')")

    assert claim(queue) == [2]


def test_delayed_message_is_not_read_before_its_time(queue):
    set_queue_options(queue, "q", when_waiting="block")
    send(queue, "c", delay=600)
    send(queue, "c")

    assert claim(queue) == [1, 3, 5, 6, 9]
    due(queue, 8)
    assert claim(queue) == []


def test_late_commit_is_claimed_after_the_later_message_is_settled(database):
    with database.connect() as connection, database.connect(autocommit=False) as late:
        connection.execute("select pgmq.create('q')")
        set_queue_options(connection, "q", when_waiting="block")
        send(late, "a")
        send(connection, "a", 2)
        assert claim(connection) == [2]
        late.commit()
        assert claim(connection) == []

        connection.execute("select pgmq.delete('q', 2)")

        assert claim(connection) == [1]


def test_locked_message_holds_its_key(database):
    """While an open transaction has read a message, no claim gets another one of its key."""
    with database.connect() as connection, database.connect(autocommit=False) as other:
        connection.execute("select pgmq.create('q')")
        set_queue_options(connection, "q", when_waiting="skip")
        send(connection, "a", 2)
        send(connection, "b", 2)
        assert rows(other, "select msg_id from pgmq.read('q', 30, 1)") == [(1,)]

        assert claim(connection) == [3]


@pytest.mark.slow
@pytest.mark.parametrize("statistics", ["none", "outdated"])
@pytest.mark.parametrize("state", ["ready", "due"])
def test_backlog_of_a_full_key_costs_nothing_and_blocks_no_key(
    connection, buffers, state, statistics
):
    connection.execute("select pgmq.create('q')")
    connection.execute("alter table pgmq.q_q set (autovacuum_enabled = off)")
    set_queue_options(connection, "q", key_concurrency=1)
    if statistics != "none":
        connection.execute(
            "insert into pgmq.q_q (vt, message, headers) "
            "select now(), '1', jsonb_build_object('x-pgmq-group', n) from generate_series(1, 1000) as n"
        )
        connection.execute("analyze pgmq.q_q")
        connection.execute("delete from pgmq.q_q")
        connection.execute("vacuum pgmq.q_q")
    connection.execute(
        "insert into pgmq.q_q (vt, enqueued_at, message, headers) "
        "select now() - interval '1 hour', now() - %s::interval, to_jsonb(repeat('x', 300)), '{\"x-pgmq-group\": \"full\"}' "
        "from generate_series(1, 50000)",
        ({"ready": "0", "due": "2 hours"}[state],),
    )
    assert len(claim(connection)) == 1
    for n in range(40):
        send(connection, f"key {n}")

    assert len(claim(connection, 10)) == 10
    # The messages of the full key fill 2,500 pages; the claim checks 41 keys in four indexes.
    assert buffers("select * from sluice.claim_messages('q', 30, 5)") < 1500


def test_a_thousand_keys_are_walked_at_most_and_all_get_their_turn(connection):
    """1,500 full keys with several messages each precede one key that is not full."""
    connection.execute("select pgmq.create('q')")
    set_queue_options(connection, "q", key_concurrency=1)
    connection.execute(
        "insert into pgmq.q_q (vt, message, headers) "
        "select now(), '1', jsonb_build_object('x-pgmq-group', n % 1500) from generate_series(1, 4500) as n"
    )
    while value(connection, "select count(*) < 1500 from pgmq.q_q where read_ct > 0"):
        claim(connection, 1500)
    assert claim(connection, 9) == []
    send(connection, "free")

    # Each claim starts at a random key and checks two thirds of the keys.
    assert any(claim(connection, 9) == [4501] for _ in range(60))


def test_keys_are_walked_in_the_order_of_their_hashes(queue):
    hashes = sorted(value(queue, "select hashtextextended(%s, 0)", key) for key in ("a", "b"))
    set_queue_options(queue, "q", key_concurrency=1)
    walk = "select sluice._next_keys('q_q', %s, %s, 9)"
    most = 2**63 - 1

    assert value(queue, walk, -(2**63), most) == hashes
    assert value(queue, walk, hashes[0], most) == hashes[1:]
    assert value(queue, walk, -(2**63), hashes[0]) == hashes[:1]
    assert value(queue, "select sluice._first_without_key('q_q', clock_timestamp(), 9)") == [5, 6]
