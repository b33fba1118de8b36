"""Readers of groups at once, in a stated order; and what a late commit can and cannot do. Many at once: tests/property."""

from __future__ import annotations

import pytest

from support import rows, value

READERS = ("read_grouped", "read_grouped_rr", "read_grouped_head")


@pytest.mark.parametrize("reader", READERS)
def test_a_late_commit_is_delivered_after_the_later_message_never_beside_it(database, reader):
    """What holds: order of commit. Message 1 commits when 2 is in flight, and waits until 2 is done."""
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
    """The limit of it: the claim of 2 is in an open transaction, and nobody can see it."""
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
    """Also behind its claim: the second consumer gets neither the head nor what follows it."""
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
