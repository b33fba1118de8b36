"""sluice.count_retrying: failed messages that wait for their next attempt."""

import json

import pytest

from support import value
from support.log import error_of


@pytest.fixture
def claimed(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 3)")


def fail(connection, *msg_ids, **fields):
    failures = [{"msg_id": msg_id, "read_ct": 1, **fields} for msg_id in msg_ids]
    connection.execute("select sluice.fail('orders', %s)", [json.dumps(failures)])


def retrying(connection):
    return value(connection, "select sluice.count_retrying('Orders')")


def test_messages_that_failed_count_until_they_are_claimed_again(connection, claimed):
    assert retrying(connection) == 0
    fail(connection, 1, 2, delay=0)
    assert retrying(connection) == 2

    connection.execute("select pgmq.read('orders', 30, 1)")

    assert retrying(connection) == 1


def test_dead_letters_and_messages_that_are_gone_do_not_count(connection, claimed):
    fail(connection, 1, 2, delay=60)
    fail(connection, 3, reject=True)
    connection.execute("select pgmq.delete('orders', 1)")

    assert retrying(connection) == 1


def test_an_unknown_queue_is_an_error(connection):
    assert error_of(connection, "select sluice.count_retrying('none')")[0] == "42P01"


def test_it_reads_the_failed_messages_and_not_the_queue(connection, claimed, buffers):
    connection.execute(
        "select pgmq.send_batch('orders', array(select to_jsonb(n) from generate_series(1, 20000) as n))"
    )
    connection.execute("analyze pgmq.q_orders")
    fail(connection, 1, 2, delay=60)

    assert buffers("select sluice.count_retrying('orders')") < 100
