"""sluice.purge_messages: delete the messages of a queue up to a msg_id, in steps."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value

PURGE = "select * from sluice.purge_messages"


@pytest.fixture
def queue(connection):
    """The queue `q` with the messages 1 to 7: 1 is in flight, and 2 delayed."""
    connection.execute("select pgmq.create('q')")
    connection.execute("select pgmq.send_batch('q', array_fill('{}'::jsonb, '{7}'))")
    connection.execute("select pgmq.read('q', 600, 1)")
    connection.execute("select pgmq.set_vt('q', 2, 600)")
    return connection


def left(connection):
    return [row[0] for row in rows(connection, "select msg_id from pgmq.q_q order by 1")]


def test_lowest_go_first_in_steps_up_to_the_bound(queue):
    assert rows(queue, f"{PURGE}('Q', 5, qty => 3)") == [(3, 3)]
    assert left(queue) == [4, 5, 6, 7]
    assert rows(queue, f"{PURGE}('q', 5, 3, 3)") == [(2, 5)]
    assert rows(queue, f"{PURGE}('q', 5, 5, 3)") == [(0, None)]
    assert left(queue) == [6, 7]


def test_each_step_is_recorded(queue):
    queue.execute(f"{PURGE}('q', 5, qty => 3)")
    queue.execute(f"{PURGE}('q', 5, 5)")

    query = "select action, queue_name, filter, message_count from sluice.list_actions()"
    assert rows(queue, query) == [("purge_messages", "q", {"upto_msg_id": 5}, 3)]


def test_locked_messages_and_those_sent_meanwhile_stay(queue, database):
    with database.connect(autocommit=False) as worker:
        worker.execute("select from pgmq.q_q where msg_id = 3 for update")
        worker.execute("select pgmq.send('q', '{}')")
        queue.execute("set lock_timeout = '10s'")

        assert rows(queue, f"{PURGE}('q', 7)") == [(6, 7)]
        worker.commit()

    assert left(queue) == [3, 8]


def test_archive_is_kept(queue):
    queue.execute("select pgmq.archive('q', 1)")
    queue.execute(f"{PURGE}('q', 7)")

    assert value(queue, "select count(*) from pgmq.a_q") == 1


def test_missing_queue_and_bound_are_errors(queue):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist"):
        queue.execute(f"{PURGE}('missing', 1)")
    with pytest.raises(psycopg.Error, match="upto_msg_id is null"):
        queue.execute(f"{PURGE}('q', null)")


def test_only_an_admin_purges(queue, as_member):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", f"{PURGE}('q', 1)")
    assert as_member("sluice_admin", f"{PURGE}('q', 1)") == [(1, 1)]
