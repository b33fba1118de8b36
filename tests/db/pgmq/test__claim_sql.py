"""What a claim costs, and what it gives: ready messages and those that have become due, by msg_id."""

import pytest

from support import rows, value


def ids(connection, call):
    return [row[0] for row in rows(connection, f"select * from {call}")]


@pytest.fixture
def six(connection, queue):
    connection.execute(
        "select pgmq.send_batch('orders', array['1', '2', '3', '4', '5', '6']::jsonb[])"
    )


def indexes_of(connection, statement):
    return "\n".join(
        line for (line,) in rows(connection, "explain (analyze, costs off) " + statement)
    )


def test_a_message_sent_without_delay_is_ready_and_one_with_delay_is_deferred(connection, queue):
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    connection.execute("select pgmq.send('orders', '2'::jsonb, 0)")
    connection.execute("select pgmq.send('orders', '3'::jsonb, 60)")
    connection.execute("select pgmq.send_batch('orders', array['4']::jsonb[])")

    assert rows(connection, "select msg_id, vt <= enqueued_at from pgmq.q_orders order by 1") == [
        (1, True),
        (2, True),
        (3, False),
        (4, True),
    ]


def test_due_messages_come_among_the_ready_ones_by_id(connection, six):
    connection.execute("select pgmq.set_vt('orders', array[2, 5], 0)")

    assert ids(connection, "pgmq.read('orders', 30, 1)") == [1]
    assert ids(connection, "pgmq.read('orders', 30, 3)") == [2, 3, 4]
    assert ids(connection, "pgmq.pop('orders', 9)") == [5, 6]


def test_a_lapsed_claim_comes_back_before_later_messages(connection, six):
    connection.execute("select pgmq.read('orders', 0, 3)")

    assert ids(connection, "pgmq.read('orders', 30, 4)") == [1, 2, 3, 4]


def test_a_condition_holds_for_due_messages_too(connection, six):
    connection.execute("select pgmq.set_vt('orders', array[2, 5], 0)")

    assert ids(connection, "pgmq.read('orders', 30, 9, '5')") == [5]
    assert ids(connection, "pgmq.read('orders', 30, 9, '3')") == [3]


def test_more_than_a_thousand_due_messages_are_all_delivered_once(connection, queue):
    connection.execute(
        "insert into pgmq.q_orders (vt, enqueued_at, message) select now() - n * interval '1 ms', now() - interval '1 h', '1' from generate_series(1, 3500) as n"
    )

    delivered = []
    while batch := ids(connection, "pgmq.read('orders', 30, 700)"):
        assert batch == sorted(batch)
        delivered += batch

    assert sorted(delivered) == list(range(1, 3501))


def test_two_readers_share_due_messages_without_waiting(database, connection, six):
    connection.execute("select pgmq.set_vt('orders', array[1, 2, 3], 0)")
    with database.connect(autocommit=False) as first, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")
        assert ids(first, "pgmq.read('orders', 30, 2)") == [1, 2]
        # The first also holds the ready ones that it looked at, until it commits.
        assert ids(second, "pgmq.read('orders', 30, 9)") == [3, 6]
        first.commit()
        assert ids(second, "pgmq.read('orders', 30, 9)") == [4, 5]


@pytest.mark.parametrize("invisible", [0, 100_000])
def test_the_hot_statement_uses_its_indexes_and_reads_nothing_it_does_not_return(
    connection, queue, invisible
):
    connection.execute(
        "insert into pgmq.q_orders (vt, message) select now() + interval '1 day', '1' from generate_series(1, %s)",
        (invisible,),
    )
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    claim = value(connection, "select pgmq._claim_sql('q_orders', now())")
    for number, literal in (("$1", "now()"), ("$2", "1"), ("$3", "null::jsonb")):
        claim = claim.replace(number, literal)

    plan = indexes_of(connection, claim)

    assert "q_orders_ready_idx" in plan, plan
    assert "Seq Scan" not in plan, plan
    assert "Rows Removed by Filter" not in plan, plan


def test_due_messages_are_found_by_their_index(connection, queue):
    connection.execute(
        "insert into pgmq.q_orders (vt, enqueued_at, message) select now(), now() - interval '1 s', '1' from generate_series(1, 5000)"
    )
    connection.execute("analyze pgmq.q_orders")
    claim = value(connection, "select pgmq._claim_sql('q_orders', now())")
    for number, literal in (("$1", "now()"), ("$2", "1"), ("$3", "null::jsonb")):
        claim = claim.replace(number, literal)

    plan = indexes_of(connection, claim)

    assert "q_orders_vt_idx" in plan, plan
    assert "Seq Scan" not in plan, plan


def test_an_empty_poll_looks_at_two_ends_of_indexes(connection, queue):
    connection.execute(
        "insert into pgmq.q_orders (vt, message) select now() + interval '1 day', '1' from generate_series(1, 50000)"
    )
    read = "select idx_tup_read from pg_stat_user_indexes where indexrelname = 'q_orders_vt_idx'"
    connection.execute("select pg_stat_force_next_flush()")
    before = value(connection, read)

    assert ids(connection, "pgmq.read('orders', 30, 10)") == []

    connection.execute("select pg_stat_force_next_flush()")
    assert value(connection, read) - before <= 2
    assert (
        value(connection, "select seq_tup_read from pg_stat_user_tables where relname = 'q_orders'")
        == 0
    )
