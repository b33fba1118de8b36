"""`sluice.list_queue_states`, with _queue_state and _count_dead."""

import psycopg
import pytest

from support import rows

STATES = (
    "select queue_name, length, ready, in_flight, retrying, delayed, oldest_ready_s >= 0, sent, finished, dead "
    "from sluice.list_queue_states()"
)


def test_messages_are_counted_by_state(orders: psycopg.Connection):
    assert rows(orders, STATES) == [
        ("again", 0, 0, 0, 0, 0, None, 0, 0, 0),
        ("orders", 4, 2, 1, 0, 1, True, 9, 5, 1),
    ]


def figures(connection):
    connection.execute("select pg_stat_force_next_flush()")
    (found,) = rows(
        connection, "select sent, finished, in_flight, retrying from sluice.list_queue_states()"
    )
    return found


@pytest.mark.parametrize("create", ["create('q')", "create_partitioned('q', '100', '1000')"])
def test_only_messages_that_were_in_the_queue_and_left_it_are_finished(connection, create):
    connection.execute(f"select pgmq.{create}")
    connection.execute("begin")
    connection.execute("select pgmq.send('q', '1') from generate_series(1, 250)")
    connection.execute("rollback")
    connection.execute("select pgmq.send('q', '1') from generate_series(1, 3)")
    assert figures(connection) == (253, 0, 0, 0)

    connection.execute("select pgmq.delete('q', msg_id) from pgmq.read('q', 60, 1)")
    assert figures(connection) == (253, 1, 0, 0)
    connection.execute("select pgmq.pop('q')")
    connection.execute("select pgmq.archive('q', msg_id) from pgmq.read('q', 60, 1)")
    assert figures(connection) == (253, 3, 0, 0)

    connection.execute("select pgmq.send('q', '1') from generate_series(1, 2)")
    connection.execute("select pgmq.purge_queue('q')")
    assert figures(connection)[1] == 3


def test_messages_that_wait_for_a_retry_are_retrying_and_not_in_flight(connection):
    connection.execute("select pgmq.create('q')")
    connection.execute("select pgmq.send('q', '1') from generate_series(1, 4)")
    connection.execute("select sluice.set_queue_options('q', '{\"backoff_base\": \"10 min\"}')")
    connection.execute(
        "select sluice.fail('q', jsonb_agg(jsonb_build_object('msg_id', m.msg_id, 'read_ct', m.read_ct))) "
        "from pgmq.read('q', 60, 2) as m"
    )
    connection.execute("select pgmq.read('q', 60, 1)")
    assert figures(connection)[2:] == (1, 2)

    connection.execute("update pgmq.q_q set vt = clock_timestamp() where msg_id = 1")
    assert figures(connection)[2:] == (1, 1)


def test_the_oldest_ready_message_is_the_one_ready_for_the_longest_time(connection):
    connection.execute(
        "select pgmq.create('q'), pgmq.send_batch('q', array['1', '2', '3']::jsonb[])"
    )
    connection.execute(
        "update pgmq.q_q set enqueued_at = now() - interval '9 h', vt = now() - msg_id * interval '10 s'"
    )
    connection.execute("update pgmq.q_q set vt = now() + interval '1 h' where msg_id = 3")

    ((oldest_s,),) = rows(connection, "select oldest_ready_s from sluice.list_queue_states()")

    assert 20 <= oldest_s < 30


def test_long_queues_are_estimated_at_a_bounded_cost(large: psycopg.Connection, buffers):
    ((length, ready, in_flight, delayed),) = rows(
        large, "select length, ready, in_flight, delayed from sluice.list_queue_states()"
    )

    assert 98_000 <= length <= 102_000
    assert ready == length
    assert (in_flight, delayed) == (0, 0)
    # Some 3,200 messages by id, however long the queue is.
    assert buffers("select * from sluice.list_queue_states()") < 10_000


def test_names_are_paged(orders: psycopg.Connection):
    first = rows(orders, "select queue_name from sluice.list_queue_states('', 1)")
    second = rows(orders, "select queue_name from sluice.list_queue_states('again', 5)")

    assert (first, second) == ([("again",)], [("orders",)])


def test_a_broken_queue_does_not_hide_the_others(orders: psycopg.Connection):
    orders.execute("drop table pgmq.q_again")

    assert [name for name, *_ in rows(orders, STATES)] == ["orders"]


def test_a_monitor_counts_and_cannot_read_payloads(orders: psycopg.Connection, as_member):
    assert len(as_member("sluice_monitor", STATES)) == 2
    for table in ("pgmq.q_orders", "sluice.dead_letter"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member("sluice_monitor", f"select message from {table}")
