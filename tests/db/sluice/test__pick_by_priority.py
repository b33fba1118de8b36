"""sluice._pick_by_priority: claims from a queue with priorities, with _limit_level_sql."""

from collections import Counter

import pytest

from support import rows, value
from support.queue_options import set_queue_options


@pytest.fixture
def queue(connection):
    """The queue `q` with the weights 16, 4 and 1."""
    connection.execute("select pgmq.create('q')")
    set_queue_options(connection, "q", priority_weights=[16, 4, 1])
    return connection


def send(connection, level, number, delay=0):
    return rows(
        connection,
        "select pgmq.send('q', to_jsonb(%s::int), jsonb_build_object('x-pgmq-priority', %s::int), %s::int) "
        "from generate_series(1, %s)",
        level,
        level,
        delay,
        number,
    )


def levels(connection, qty):
    """Return the levels of claimed messages in order."""
    query = "select message from sluice.claim_messages('q', 30, %s)"
    return [level for (level,) in rows(connection, query, qty)]


def test_of_many_each_level_gets_its_part_the_most_urgent_first(queue):
    for level in (3, 1, 2):
        send(queue, level, 100)

    assert levels(queue, 42) == [1] * 32 + [2] * 8 + [3] * 2


def test_unused_share_of_a_priority_goes_to_others_most_urgent_first(queue):
    send(queue, 3, 100)
    send(queue, 2, 10)

    assert levels(queue, 42) == [2] * 10 + [3] * 32


def test_one_message_is_found_on_whichever_level_it_is(queue):
    for level in (1, 2, 3) * 10:
        send(queue, level, 1)
        assert levels(queue, 1) == [level]


def test_claims_of_one_starve_no_level_that_has_a_weight(queue):
    """With weights 16, 4 and 1, level 3 gets 14 of 300 claims on average.

    It gets fewer than 2 once in 100,000 runs.
    """
    for level in (1, 2, 3):
        send(queue, level, 300)

    got = Counter(levels(queue, 1)[0] for _ in range(300))

    assert got[3] >= 2
    assert got[1] > got[2] > got[3]


def test_priority_without_weight_gets_the_remainder(queue):
    set_queue_options(queue, "q", priority_weights=[1, 0])
    send(queue, 2, 5)
    send(queue, 1, 30)

    assert [levels(queue, 1) for _ in range(30)] == [[1]] * 30
    assert levels(queue, 9) == [2] * 5


def test_header_sets_the_level_and_invalid_values_mean_the_middle(queue):
    expression = value(queue, "select sluice._limit_level_sql('q', 3)")
    for headers, level in (
        ('{"x-pgmq-priority": 1}', 1),
        ('{"x-pgmq-priority": "3"}', 3),
        ('{"x-pgmq-priority": 4}', 2),
        ('{"x-pgmq-priority": 1.5}', 2),
        ('{"x-pgmq-priority": null}', 2),
        ('{"x-pgmq-priority": {"a": 1}}', 2),
        ('["x-pgmq-priority"]', 2),
        ("{}", 2),
        (None, 2),
    ):
        queue.execute("select pgmq.send('q', '1'::jsonb, %s::jsonb)", (headers,))

        assert value(queue, f"select {expression} from pgmq.q_q as q") == level
        assert len(levels(queue, 9)) == 1
        queue.execute("select pgmq.purge_queue('q')")


def test_messages_of_a_level_come_by_id_also_those_that_became_due(queue):
    send(queue, 1, 5)
    send(queue, 1, 1, delay=600)
    queue.execute("update pgmq.q_q set vt = vt + interval '1 us' where msg_id = 2")
    queue.execute("update pgmq.q_q set vt = enqueued_at + interval '1 us' where msg_id = 6")
    query = "select msg_id from sluice.claim_messages('q', 30, %s)"

    assert rows(queue, query, 3) == [(1,), (2,), (3,)]
    assert rows(queue, query, 9) == [(4,), (5,), (6,)]


def test_the_limits_of_the_queue_hold_with_priorities(queue):
    set_queue_options(queue, "q", fleet_concurrency=2)
    send(queue, 3, 5)
    send(queue, 1, 5)

    assert len(levels(queue, 9)) == 2
    assert levels(queue, 9) == []


def test_concurrent_claims_do_not_block_and_take_different_messages(database):
    with database.connect() as connection, database.connect(autocommit=False) as other:
        connection.execute("select pgmq.create('q')")
        set_queue_options(connection, "q", priority_weights=[2, 1])
        send(connection, 1, 4)
        query = "select msg_id from sluice.claim_messages('q', 30, 2)"
        first = rows(other, query)

        second = rows(connection, query)

        assert sorted(first + second) == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("qty", [1, 20])
@pytest.mark.parametrize("statistics", ["none", "from when all were urgent"])
def test_a_backlog_of_a_lower_level_costs_nothing(queue, buffers, qty, statistics):
    queue.execute("alter table pgmq.q_q set (autovacuum_enabled = off)")
    claim = f"select * from sluice.claim_messages('q', 0, {qty})"
    send(queue, 1, 100)
    if statistics != "none":
        queue.execute("analyze pgmq.q_q")
    empty = buffers(claim)
    queue.execute("delete from pgmq.q_q")
    queue.execute("vacuum pgmq.q_q")

    queue.execute(
        "insert into pgmq.q_q (vt, message, headers) "
        "select now(), '3', '{\"x-pgmq-priority\": 3}' from generate_series(1, 50000)"
    )
    send(queue, 1, 100)

    # The indexes have one or two more levels, and the claims read other pages.
    assert buffers(claim) < empty + 30 + 8 * qty
