"""Concurrent readers of FIFO groups in fixed orders, and late commits; tests/property is random."""

from __future__ import annotations

import pytest

from support import rows, value

READERS = ("read_grouped", "read_grouped_rr", "read_grouped_head")


@pytest.mark.parametrize("reader", READERS)
def test_a_late_commit_is_delivered_after_the_later_message_never_beside_it(database, reader):
    """Message 1 commits while 2 is in flight, and is read after 2 is acknowledged."""
    call = f"select msg_id from pgmq.{reader}('orders', 60, 5)"
    with database.connect() as connection, database.connect(autocommit=False) as late:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.create_fifo_index('orders')")
        late.execute("select pgmq.send('orders', '1'::jsonb)")
        connection.execute("select pgmq.send_batch('orders', '{2,3}'::jsonb[])")
        assert (2,) in rows(connection, call)
        late.commit()

        assert rows(connection, call) == []

        connection.execute("select pgmq.delete('orders', array[2, 3])")
        assert rows(connection, call) == [(1,)]


@pytest.mark.parametrize("reader", READERS)
def test_a_claim_that_is_not_committed_cannot_hold_a_late_commit_back(database, reader):
    """A known limit: the claim of 2 is in an open transaction and invisible to other sessions."""
    call = f"select msg_id from pgmq.{reader}('orders', 60, 1)"
    with (
        database.connect() as connection,
        database.connect(autocommit=False) as late,
        database.connect(autocommit=False) as claiming,
    ):
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.create_fifo_index('orders')")
        late.execute("select pgmq.send('orders', '1'::jsonb)")
        connection.execute("select pgmq.send('orders', '2'::jsonb)")
        assert rows(claiming, call) == [(2,)]
        late.commit()

        assert rows(connection, call) == [(1,)]


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_keeps_a_group_as_long_as_its_transaction_is_open(database, reader):
    """The second consumer gets neither the head of the group nor later messages."""
    with database.connect() as connection, database.connect(autocommit=False) as first:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.send_batch('orders', '{1,2,3}'::jsonb[])")
        call = f"select msg_id from pgmq.{reader}('orders', 60, 1)"
        assert rows(first, call) == [(1,)]

        assert rows(connection, call) == []
        first.commit()
        assert rows(connection, call) == []


@pytest.mark.parametrize("reader", READERS)
def test_one_reader_of_one_message_holds_no_other_group(database, reader):
    with database.connect() as connection, database.connect(autocommit=False) as first:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.create_fifo_index('orders')")
        connection.execute(
            "select pgmq.send_batch('orders', array_agg('1'::jsonb), array_agg(jsonb_build_object('x-pgmq-group', n))) "
            "from generate_series(1, 50) as n"
        )
        assert rows(first, f"select msg_id from pgmq.{reader}('orders', 60, 1)") == [(1,)]

        found = rows(connection, f"select msg_id from pgmq.{reader}('orders', 60, 100)")

        assert len(found) == 49
        assert value(connection, "select count(*) from pg_locks where locktype = 'advisory'") == 0
