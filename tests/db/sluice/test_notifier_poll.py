"""sluice.notifier_poll: the bounds of the messages that a read would find."""

from __future__ import annotations

import pytest

from support import rows

LOOK = """
select queue_name, first_ready, last_ready,
    round(extract(epoch from first_due - now())), round(extract(epoch from last_due - now())),
    round(extract(epoch from next_due - now())), cost >= '0 s' and cost < '10 s'
from sluice.notifier_poll(%s, %s, %s)
"""


def look(connection, *queue_names, ready_after=None, due_after=None):
    found = rows(
        connection, LOOK, list(queue_names),
        [ready_after] * len(queue_names), [due_after] * len(queue_names),
    )  # fmt: skip
    assert all(row[-1] for row in found)
    return {row[0]: tuple(None if x is None else int(x) for x in row[1:-1]) for row in found}


@pytest.fixture
def queue(connection):
    """Messages 1 to 3 are ready, 4 and 5 due since 200 and 100 s, 6 and 7 due in 100 and 200 s."""
    connection.execute("select pgmq.create('orders'), pgmq.create('empty')")
    connection.execute("select pgmq.send('orders', '1') from generate_series(1, 7)")
    connection.execute(
        "update pgmq.q_orders set enqueued_at = now() - interval '1 h', "
        "vt = now() + (array[-200, -100, 100, 200])[msg_id - 3] * interval '1 s' where msg_id > 3"
    )
    return connection


def test_it_tells_the_ends_of_the_ready_and_of_the_due_and_when_the_next_is_due(queue):
    assert look(queue, "orders", "empty") == {
        "orders": (1, 3, -200, -100, 100),
        "empty": (None,) * 5,
    }


def test_beyond_the_bounds_it_sees_only_what_is_behind_them(queue):
    assert look(queue, "orders", ready_after=2)["orders"][:2] == (3, 3)
    assert look(queue, "orders", ready_after=3)["orders"][:2] == (None, None)
    (bound,) = rows(queue, "select vt from pgmq.q_orders where msg_id = 4")[0]
    assert look(queue, "orders", due_after=bound)["orders"][2:] == (-100, -100, None)
    (bound,) = rows(queue, "select vt from pgmq.q_orders where msg_id = 5")[0]
    assert look(queue, "orders", due_after=bound)["orders"][2:] == (None, None, None)


def test_claimed_message_is_due_at_its_expiry(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send('orders', '1')")
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert look(connection, "orders") == {"orders": (None, None, None, None, 30)}


def test_uncommitted_message_is_not_seen(database, queue):
    with database.connect(autocommit=False) as sender:
        sender.execute("select pgmq.send('empty', '1')")

        assert look(queue, "empty") == {"empty": (None,) * 5}


def test_locked_or_dropped_queue_is_skipped_without_blocking(database, queue):
    queue.execute("set statement_timeout = '10 s'")
    with database.connect(autocommit=False) as ddl:
        ddl.execute("lock table pgmq.q_orders in access exclusive mode")

        assert look(queue, "orders", "empty", "gone") == {"empty": (None,) * 5}


def test_a_name_that_needs_quotes_is_only_a_name(connection):
    name = 'or"der s'
    connection.execute("select pgmq.create(%s)", [name])

    assert look(connection, name) == {name: (None,) * 5}


def test_each_end_is_one_entry_of_an_index(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "insert into pgmq.q_orders (enqueued_at, vt) "
        "select now(), now() from generate_series(1, 50000) "
        "union all "
        "select now() - interval '1 h', now() + n * interval '1 s' from generate_series(-3000, 47000) as n"
    )
    connection.execute("analyze pgmq.q_orders")
    # The view below includes unreported counts of this session, as from building the indexes.
    connection.execute("select pg_stat_force_next_flush()")

    with connection.transaction():
        connection.execute("select * from sluice.notifier_poll('{orders}', '{null}', '{null}')")
        ((scanned, fetched),) = rows(
            connection,
            "select seq_scan, idx_tup_fetch from pg_stat_xact_user_tables where relname = 'q_orders'",
        )

    assert scanned == 0
    assert fetched <= 10
