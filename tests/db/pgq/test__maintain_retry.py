"""pgq._maintain_retry and pgq._last_retry_pass: the retry entries do not grow with what is done."""

import psycopg
import pytest

from support import rows, value
from support_log import consume_all, finish, move_retries, open_batch, tick, waiting


def entries(connection):
    return value(connection, "select count(*) from pgq.retry_entry")


def empty(connection):
    return value(connection, "select pgq._maintain_retry(0)")


def test_what_waits_is_kept_and_what_was_moved_goes(connection, consumer):
    batch = open_batch(connection, 5)
    connection.execute("select sluice.retry(%s, '{1, 2, 3}', interval '0')", (batch,))
    connection.execute("select sluice.retry(%s, '{4, 5}', interval '1 hour')", (batch,))
    finish(connection, batch)
    move_retries(connection)
    assert entries(connection) == 5

    assert empty(connection) is True

    assert entries(connection) == 2
    assert waiting(connection) == [4, 5]
    assert move_retries(connection) == 0
    tick(connection)
    assert consume_all(connection) == [[1, 2, 3]]


def test_it_goes_on_in_the_other_table_again_and_again(connection, consumer):
    tables = []
    for _ in range(4):
        batch = open_batch(connection, 1)
        connection.execute("select pgq.batch_retry(%s, 0)", (batch,))
        finish(connection, batch)
        tables.append(
            value(connection, "select distinct tableoid::regclass::text from pgq.retry_entry")
        )
        assert move_retries(connection) == 1
        assert empty(connection) is True
        assert entries(connection) == 0
        assert value(connection, "select count(*) from pgq.retry_pass") == 1
        tick(connection)
        finish(connection, value(connection, "select pgq.next_batch('changes', 'lake')"))

    assert tables == [f"pgq.retry_entry_{n}" for n in (0, 1, 0, 1)]


def test_entries_of_an_open_batch_stay_so_that_its_events_come_again_once(connection, consumer):
    batch = open_batch(connection)
    connection.execute("select pgq.event_retry(%s, 3, 0)", (batch,))
    move_retries(connection)

    assert empty(connection) is True

    assert value(connection, "select pgq.event_retry(%s, 3, 0)", batch) == 0
    assert waiting(connection) == []


def test_a_table_that_is_small_or_not_twice_what_was_kept_is_left(connection, consumer):
    batch = open_batch(connection, 500)
    connection.execute("select pgq.batch_retry(%s, 3600)", (batch,))
    assert value(connection, "select pgq._maintain_retry()") is False
    assert empty(connection) is True

    assert empty(connection) is False, "all of it was kept: it is not twice as large"


def test_it_does_not_wait_for_a_transaction_that_has_queued_an_event(
    database, connection, consumer
):
    batch = open_batch(connection)
    with database.connect(autocommit=False) as session:
        session.execute("select pgq.event_retry(%s, 3, 0)", (batch,))
        connection.execute("set lock_timeout = '10s'")

        assert empty(connection) is False
        session.commit()

    assert waiting(connection) == [3]
    assert empty(connection) is True
    assert waiting(connection) == [3]


def test_an_old_snapshot_gets_a_serialization_failure_instead_of_a_wrong_answer(
    database, connection, consumer
):
    batch = open_batch(connection)
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        connection.execute("select pgq.event_retry(%s, 3, 0)", (batch,))
        assert empty(connection) is True

        with pytest.raises(psycopg.errors.SerializationFailure):
            old.execute("select pgq.event_retry(%s, 3, 0)", (batch,))


def test_a_held_snapshot_keeps_no_dead_rows(database, connection, consumer):
    with database.connect(autocommit=False) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select pg_current_xact_id()")
        for _ in range(30):
            batch = open_batch(connection, 20)
            connection.execute("select pgq.batch_retry(%s, 0)", (batch,))
            finish(connection, batch)
            move_retries(connection)
            empty(connection)
            tick(connection)
            consume_all(connection)
        sizes = rows(
            connection,
            "select c.relname, pg_relation_size(c.oid) from pg_class as c"
            " where c.relname ~ '^retry_(entry_[01]|pass)$' order by 1",
        )

    assert [name for name, _ in sizes] == ["retry_entry_0", "retry_entry_1", "retry_pass"]
    assert max(size for _, size in sizes) <= 5 * 8192, sizes
