"""pgq._maintain_retry, with pgq._last_retry_pass: it removes the entries of moved events."""

import psycopg
import pytest

from support import rows, value
from support.log import (
    consume_all,
    contents,
    delay_event,
    finish,
    move_retries,
    open_batch,
    tick,
    wait_until_due,
    waiting,
)


def entries(connection):
    return value(connection, "select count(*) from pgq.retry_entry")


def empty(connection):
    """Copy what is needed, and then truncate: these are different calls."""
    is_done = value(connection, "select pgq._maintain_retry(0)")
    if is_done:
        assert value(connection, "select pgq._maintain_retry(0)") is True
    return is_done


def test_pending_retries_are_kept_and_moved_ones_removed(connection, consumer):
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


def test_tables_are_used_and_emptied_in_turn(connection, consumer):
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


def test_entries_of_an_open_batch_stay_and_its_events_are_redelivered_once(connection, consumer):
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

    assert empty(connection) is False, "all entries were kept, so the table is not twice as large"


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

        with pytest.raises(psycopg.errors.SerializationFailure, match="newer than") as raised:
            old.execute("select pgq.event_retry(%s, 3, 0)", (batch,))

    assert "(repeatable read) sees no row of pgq.retry_pass, which has 8192 bytes" in str(
        raised.value.diag.message_detail
    )


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


def copy_step(connection, entries):
    return value(connection, "select pgq._maintain_retry(0, %s)", entries)


def test_many_are_copied_in_steps_and_meanwhile_each_comes_once(connection, log):
    for n in range(10):
        delay_event(connection, f"soon {n}", delay=f"{100 + n} ms")
        delay_event(connection, f"later {n}", delay="1 hour")
    wait_until_due(connection)
    counted = []
    while True:
        counted.append(value(connection, "select sluice.count_delayed('changes')"))
        if not copy_step(connection, 3):
            break
        # Moves copied and uncopied entries alternately.
        value(connection, "select pgq._move_retries(1)")

    assert len(counted) > 6
    assert counted[0] == 20
    move_retries(connection)
    assert sorted(data for _, data in contents(connection)) == [f"soon {n}" for n in range(10)]
    assert value(connection, "select sluice.count_delayed('changes')") == 10
    assert value(connection, "select count(distinct tableoid) from pgq.retry_entry") == 1


def test_an_entry_that_is_written_while_others_are_copied_goes_where_they_go(connection, log):
    for _ in range(5):
        delay_event(connection, delay="1 hour")
    copy_step(connection, 2)

    delay_event(connection, "new")

    wait_until_due(connection)
    assert move_retries(connection) == 1
    while copy_step(connection, 2):
        pass
    assert value(connection, "select count(distinct tableoid) from pgq.retry_entry") == 1
    assert entries(connection) == 6
    assert contents(connection) == [(1, "new")]


def test_nothing_waits_while_others_are_copied(database, connection, log):
    for _ in range(5):
        delay_event(connection, delay="1 hour")
    with database.connect(autocommit=False) as copier:
        copy_step(copier, 2)  # switches the tables, in a transaction of its own
        copier.commit()
        copy_step(copier, 2)
        connection.execute("set lock_timeout = '10s'")

        delay_event(connection, delay="1 hour")
        assert value(connection, "select pgq.maint_retry_events()") == 0
        assert value(connection, "select sluice.count_delayed('changes')") == 6
        copier.commit()

    assert value(connection, "select sluice.count_delayed('changes')") == 6


def test_a_transaction_that_reads_what_waits_only_puts_the_end_off(database, connection, log):
    delay_event(connection, delay="1 hour")
    copy_step(connection, 1)
    with database.connect(autocommit=False) as reader:
        assert value(reader, "select sluice.count_delayed('changes')") == 1
        connection.execute("set lock_timeout = '10s'")

        assert copy_step(connection, 5) is True
        assert entries(connection) == 2, "not emptied yet"
        assert value(connection, "select sluice.count_delayed('changes')") == 1

    assert copy_step(connection, 5) is True
    assert entries(connection) == 1


def test_retries_of_a_dropped_log_are_removed_by_truncate(connection, log):
    connection.execute("select pgq.create_queue('other')")
    for _ in range(6):
        delay_event(connection, delay="150 ms")
    connection.execute("select sluice.insert_event('other', 't', 'd', delay => '200 ms')")
    connection.execute("select pgq.drop_queue('changes')")
    assert entries(connection) == 7
    wait_until_due(connection)

    assert value(connection, "select pgq._move_retries(1)") == 1, (
        "entries of the dropped log are skipped"
    )
    assert contents(connection, "other") == [(1, "d")]
    assert empty(connection) is True
    assert entries(connection) == 0
