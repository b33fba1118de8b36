"""sluice.next_due: when a message of a queue becomes visible next."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value

DUE = "select sluice.next_due('orders', %s)"


@pytest.fixture
def orders(connection):
    connection.execute("select pgmq.create('orders')")
    return connection


def test_without_a_message_that_waits_nothing_is_due(orders):
    orders.execute("select pgmq.send('orders', '1')")

    assert value(orders, "select sluice.next_due('orders')") is None


def test_it_is_the_earliest_end_of_a_delay_or_a_claim(orders):
    orders.execute(
        "select pgmq.send('orders', '1'), pgmq.send('orders', '2', 100), pgmq.send('orders', '3', 50)"
    )
    orders.execute("select pgmq.read('orders', 20, 1)")
    ends = [vt for (vt,) in rows(orders, "select vt from pgmq.q_orders order by vt")]

    assert value(orders, "select sluice.next_due('orders')") == ends[0]
    assert [value(orders, DUE, end) for end in ends] == [*ends[1:], None]


def test_time_due_since_the_last_check_is_not_skipped(orders):
    """Time passes between an empty read and this call."""
    orders.execute("select pgmq.send('orders', '1', 1)")
    looked_at = value(orders, "select clock_timestamp()")
    orders.execute("select pgmq.set_vt('orders', 1, clock_timestamp() + interval '1 microsecond')")

    assert value(orders, "select sluice.next_due('orders')") is None
    assert value(orders, DUE, looked_at) == value(orders, "select vt from pgmq.q_orders")


def test_message_with_infinite_vt_is_not_due(orders):
    orders.execute("select pgmq.send('orders', '1')")
    orders.execute("select pgmq.set_vt('orders', 1, 'infinity'::timestamptz)")

    assert value(orders, "select sluice.next_due('orders')") is None


def test_a_queue_that_is_not_there_is_the_usual_error(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select sluice.next_due('missing')")


def test_it_is_one_step_in_an_index_however_many_wait(orders, buffers):
    orders.execute("select pgmq.send('orders', to_jsonb(n), n) from generate_series(1, 5000) as n")

    assert buffers("select sluice.next_due('orders')") < 30


def test_a_reader_and_a_monitor_may_ask(orders, as_member):
    orders.execute("select pgmq.send('orders', '1', 50)")

    for member_of in ("sluice_admin", "sluice_reader"):
        assert as_member(member_of, "select sluice.next_due('orders')")[0][0] is not None
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", "select sluice.next_due('orders')")
