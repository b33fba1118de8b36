"""Concurrent acknowledgements: no deadlock, and a stale one changes nothing."""

from __future__ import annotations

import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock

EFFECTS = ["delete", "archive", "extend", "release"]


def call(effect):
    seconds = ", 60" if effect in ("extend", "release") else ""
    return f"select * from sluice.{effect}('orders', %s::bigint[], %s::integer[]{seconds})"


@pytest.fixture
def hundred(connection):
    """A queue with a hundred messages, each claimed once."""
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "select pgmq.send_batch('orders', (select array_agg(to_jsonb(n)) from generate_series(1, 100) as n))"
    )
    connection.execute("select pgmq.read('orders', 30, 100)")
    return connection


def in_thread(session, query, *parameters):
    """Run a query in a thread; return a function that waits for its rows or its error."""
    results = []

    def run():
        try:
            results.append(rows(session, query, *parameters))
        except psycopg.Error as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def join():
        thread.join(30)
        return results[0]

    return join


def opposite_batches(database, hundred, statement):
    """Acknowledge the same rows in opposite orders in two sessions at once; return both results.

    A third session locks a row in the middle, so that both hold row locks before they conflict.
    """
    ids = list(range(1, 101))
    with (
        database.connect(autocommit=False) as gate,
        database.connect() as first,
        database.connect() as second,
    ):
        gate.execute("select from pgmq.q_orders where msg_id = 50 for update")
        one = in_thread(first, statement, ids, [1] * 100)
        wait_for_lock(hundred, first)
        two = in_thread(second, statement, ids[::-1], [1] * 100)
        wait_for_lock(hundred, second)
        gate.rollback()
        return one(), two()


@pytest.mark.parametrize("effect", EFFECTS)
def test_opposite_batches_wait_for_each_other_and_do_not_deadlock(database, hundred, effect):
    one, two = opposite_batches(database, hundred, call(effect))

    assert [outcome for _, outcome in one] == ["done"] * 100
    after = "gone" if effect in ("delete", "archive") else "done"
    assert [outcome for _, outcome in two] == [after] * 100


@pytest.mark.slow
def test_the_same_batches_without_the_order_do_deadlock(database, hundred):
    # The same update, row by row as the batch names them.
    hundred.execute(
        "create function public.unordered(ids bigint[], read_cts integer[]) returns setof bigint language plpgsql as "
        "$$ begin for i in 1 .. cardinality(ids) loop update pgmq.q_orders set vt = now() where msg_id = ids[i]; "
        "return next ids[i]; end loop; end $$"
    )

    results = opposite_batches(
        database, hundred, "select * from public.unordered(%s::bigint[], %s::integer[])"
    )

    assert sum(isinstance(result, psycopg.errors.DeadlockDetected) for result in results) == 1


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_claim_that_is_taken_over_while_it_waits_is_stale(database, hundred, effect):
    with database.connect(autocommit=False) as other, database.connect() as late:
        other.execute("select pgmq.set_vt('orders', 1, 0)")
        assert rows(other, "select msg_id, read_ct from pgmq.read('orders', 600, 1)") == [(1, 2)]
        waiting = in_thread(late, call(effect), [2, 1], [1, 1])
        wait_for_lock(hundred, late)
        other.commit()

        assert waiting() == [(2, "done"), (1, "stale")]

    kept = "select read_ct, vt > now() + interval '5 min' from pgmq.q_orders where msg_id = 1"
    assert rows(hundred, kept) == [(2, True)]


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_message_that_is_taken_away_while_the_claim_waits_is_gone(database, hundred, effect):
    with database.connect(autocommit=False) as other, database.connect() as late:
        other.execute("select pgmq.delete('orders', 1)")
        waiting = in_thread(late, call(effect), [2, 1], [1, 1])
        wait_for_lock(hundred, late)
        other.commit()

        assert waiting() == [(2, "done"), (1, "gone")]


@pytest.mark.parametrize("effect", EFFECTS)
def test_above_read_committed_a_claim_that_is_taken_over_is_worth_another_try(
    database, hundred, effect
):
    with (
        database.connect() as other,
        database.connect(autocommit=False) as late,
    ):
        late.execute("set transaction isolation level repeatable read")
        late.execute("select count(*) from pgmq.q_orders")
        other.execute("select pgmq.set_vt('orders', 1, 0)")
        other.execute("select pgmq.read('orders', 600, 1)")

        with pytest.raises(psycopg.errors.SerializationFailure):
            late.execute(call(effect), [[1], [1]])
        late.rollback()

        assert rows(late, call(effect), [1], [1]) == [(1, "stale")]


def test_pgmqs_delete_takes_the_message_of_another_and_the_fenced_one_does_not(hundred):
    hundred.execute("select pgmq.set_vt('orders', array[1, 2]::bigint[], 0)")
    hundred.execute("select pgmq.read('orders', 600, 2)")

    assert value(hundred, "select pgmq.delete('orders', 1)") is True
    assert value(hundred, "select sluice.delete('orders', 2, 1)") is False
