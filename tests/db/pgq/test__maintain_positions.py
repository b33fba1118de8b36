"""pgq._maintain_positions: it empties the two position ledgers in turn without losing positions."""

import pytest

from support import rows, value
from support.log import consume_all, error_of, tick

MAINTAIN = "select pgq._maintain_positions(i_bytes_max => %s)"
ANY_SIZE = 1


def ledgers(connection):
    return rows(connection, "select sub_ledger from pgq.subscriber order by sub_key")


def sizes(connection):
    query = "select pg_relation_size('pgq.position_0'), pg_relation_size('pgq.position_1')"
    return rows(connection, query)[0]


def event_and_tick(connection):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    return tick(connection)


def test_a_small_ledger_stays(connection, consumer):
    assert value(connection, "select pgq._maintain_positions()") == 0
    assert ledgers(connection) == [(0,)]


def test_large_ledgers_are_emptied_in_turn(connection, consumer):
    before = rows(connection, "select * from pgq.subscription")
    for ledger in (1, 0, 1):
        assert value(connection, MAINTAIN, ANY_SIZE) == 1
        assert 0 not in sizes(connection), "it is truncated by a call that moves nobody"
        assert value(connection, MAINTAIN, ANY_SIZE) == 0
        assert ledgers(connection) == [(ledger,)]
        assert sizes(connection)[1 - ledger] == 0
        assert sizes(connection)[ledger] > 0
    assert rows(connection, "select * from pgq.subscription") == before


def test_the_position_and_an_open_batch_come_along(connection, consumer):
    for _ in range(3):
        event_and_tick(connection)
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")

    connection.execute(MAINTAIN, (ANY_SIZE,))

    assert value(connection, "select pgq.next_batch('changes', 'lake')") == batch
    assert rows(connection, "select ev_id from pgq.get_batch_events(%s)", batch) == [(1,)]
    assert value(connection, "select tick_id from pgq.get_batch_info(%s)", batch) == 2
    connection.execute("select sluice.hold_batch(%s)", (batch,))
    assert value(connection, "select pgq.finish_batch(%s)", batch) == 1
    assert consume_all(connection) == [[2], [3]]


def test_everything_works_from_the_second_ledger_too(connection, log):
    connection.execute("select pgq_coop.register_subconsumer('changes', 'lake', 'one')")
    connection.execute(MAINTAIN, (ANY_SIZE,))
    event_and_tick(connection)

    batch = value(connection, "select pgq_coop.next_batch('changes', 'lake', 'one')")
    assert value(connection, "select pgq_coop.finish_batch(%s)", batch) == 1
    assert value(connection, "select pgq.unregister_consumer('changes', 'lake')") == 2
    assert rows(connection, "select * from pgq.position_1") == []


def test_consumer_with_an_open_batch_is_skipped(database, connection, consumer):
    event_and_tick(connection)
    connection.execute("select pgq.register_consumer('changes', 'idle')")
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    connection.execute("set lock_timeout = '1 s'")
    with database.connect(autocommit=False) as worker:
        worker.execute("select sluice.hold_batch(%s)", (batch,))

        assert value(connection, MAINTAIN, ANY_SIZE) == 1
        assert ledgers(connection) == [(0,), (1,)]
        assert value(worker, "select pgq.finish_batch(%s)", batch) == 1

    # Both ledgers are large now; the first one waits only for that worker.
    for _ in range(2):
        connection.execute(MAINTAIN, (ANY_SIZE,))
    assert len(set(ledgers(connection))) == 1
    assert 0 in sizes(connection)
    assert consume_all(connection) == []


def test_ledger_in_use_is_truncated_by_the_next_call(database, connection, consumer):
    connection.execute("set lock_timeout = '1 s'")
    with database.connect(autocommit=False) as reader:
        reader.execute("select * from pgq.standing")
        assert value(connection, MAINTAIN, ANY_SIZE) == 1
        assert value(connection, MAINTAIN, ANY_SIZE) == 0
        assert 0 not in sizes(connection)
        assert ledgers(connection) == [(1,)], "no move goes to it before it is truncated"

    connection.execute(MAINTAIN, (10**9,))
    assert 0 not in sizes(connection)
    connection.execute(MAINTAIN, (ANY_SIZE,))
    assert 0 in sizes(connection)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_transaction_with_one_snapshot_is_refused(database, connection, consumer, isolation):
    with database.connect(autocommit=False) as session:
        session.execute(f"set transaction isolation level {isolation}")

        assert error_of(session, MAINTAIN, ANY_SIZE) == (
            "PQ004",
            f"cannot maintain positions in a {isolation} transaction",
        )


def test_a_held_snapshot_leaves_no_dead_rows_in_the_ledgers(database, connection, consumer):
    with database.connect(autocommit=False) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1")
        for _ in range(200):
            tick(connection)
        consume_all(connection)

        connection.execute("vacuum pgq.position_0, pgq.subscriber")
        dead = "select n_dead_tup from pg_stat_user_tables where relname = 'position_0'"
        connection.execute("select pg_stat_clear_snapshot()")
        assert value(connection, dead) == 0
        for _ in range(2):
            connection.execute(MAINTAIN, (ANY_SIZE,))
        assert sizes(connection)[0] == 0
