"""sluice.queue_extent: number of messages and highest msg_id of a queue, at a bounded cost."""

from __future__ import annotations

import psycopg
import pytest

from support import rows

EXTENT = "select * from sluice.queue_extent"


@pytest.fixture
def queue(connection):
    """The queue `q` with the messages 1 to 7."""
    connection.execute("select pgmq.create('q')")
    connection.execute("select pgmq.send_batch('q', array_fill('{}'::jsonb, '{7}'))")
    return connection


def test_extent_is_the_number_and_the_highest_msg_id(queue):
    assert rows(queue, f"{EXTENT}('Q')") == [(7, 7)]
    assert rows(queue, f"{EXTENT}('q', 5)") == [(5, 5)]
    queue.execute("select pgmq.delete('q', array[4, 5]::bigint[])")
    assert rows(queue, f"{EXTENT}('q', 5)") == [(3, 3)]
    assert rows(queue, f"{EXTENT}('q', 0)") == [(0, None)]
    queue.execute("select pgmq.purge_queue('q')")
    assert rows(queue, f"{EXTENT}('q')") == [(0, None)]


def test_extent_of_a_large_queue_is_an_estimate_that_reads_little(queue):
    queue.execute(
        "insert into pgmq.q_q (vt, message) select now(), '{}' from generate_series(1, 20000)"
    )
    queue.execute("vacuum analyze pgmq.q_q")

    ((number, last),) = rows(queue, f"{EXTENT}('q')")
    assert last == 20007
    assert 15000 < number < 25000
    ((number, last),) = rows(queue, f"{EXTENT}('q', 20000)")
    assert last == 20000
    assert 15000 < number < 25000


def test_missing_queue_is_an_error(queue):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist"):
        queue.execute(f"{EXTENT}('missing')")


def test_readers_may_call_it(queue, as_member):
    assert as_member("sluice_reader", f"{EXTENT}('q')") == [(7, 7)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", f"{EXTENT}('q')")
