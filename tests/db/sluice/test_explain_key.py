"""Keys of queues; those of share groups are in test_explain_group.py."""

from __future__ import annotations

import psycopg
import pytest

from support.explaining import causes, explain
from support.queue_options import set_queue_options


def explained(connection):
    return explain(connection, "explain_key", "orders", "k")


@pytest.fixture
def queue(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "select pgmq.send('orders', '1', '{\"x-pgmq-group\": \"k\"}'::jsonb) from generate_series(1, 3)"
    )
    return connection


def state(connection):
    return explained(connection)[0].detail["state"]


def test_key_of_a_queue_without_order_blocks_nothing(queue):
    assert state(queue) == "unordered"


def test_key_names_its_messages_and_the_one_in_flight(queue):
    set_queue_options(queue, "orders", key_concurrency=1)
    assert causes(explained(queue)) == []
    queue.execute("select sluice.claim_messages('orders', 600, 1)")

    assert (
        explained(queue)[0].fact == "Key 'k' of queue orders has 3 messages, 2 visible, 1 in flight"
    )
    assert causes(explained(queue)) == ["key in flight"]

    queue.execute("select pgmq.delete('orders', 1)")
    assert causes(explained(queue)) == []
    queue.execute("select pgmq.delete('orders', array[2, 3]::bigint[])")
    assert state(queue) == "empty"


def test_fifo_group_is_explained_by_its_indexes(queue):
    queue.execute("select pgmq.create_fifo_index('orders')")
    queue.execute("select * from pgmq.read_grouped_head('orders', 600, 1)")

    assert causes(explained(queue)) == ["key"]


def test_keys_are_for_readers(queue, as_member):
    query = "select * from sluice.explain_key('orders', 'k')"
    assert as_member("sluice_reader", query)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", query)
