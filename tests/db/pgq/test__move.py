"""Moves of a consumer: one from a snapshot before the last move fails and changes nothing."""

import pytest

from support import rows, value
from support.log import consume_all, error_of, tick

TAKEN = "on conflict do nothing"
POSITION = "select sub_last_tick, sub_batch is not null from pgq.subscription"


@pytest.fixture
def two_batches(connection, consumer):
    for _ in range(2):
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        tick(connection)


@pytest.fixture
def old(database, connection, two_batches):
    """A session whose snapshot precedes the first batch."""
    with database.connect(autocommit=False) as session:
        session.execute("set transaction isolation level repeatable read")
        assert rows(session, POSITION) == [(1, False)]
        batch = value(connection, "select pgq.next_batch('changes', 'lake')")
        connection.execute("select pgq.finish_batch(%s)", (batch,))
        yield session


@pytest.mark.parametrize(
    "call",
    [
        "pgq.next_batch('changes', 'lake')",
        "pgq.register_consumer_at('changes', 'lake', 1)",
        "sluice.log_commit('changes', 'lake', 3)",
    ],
)
def test_old_snapshot_moves_no_consumer(connection, old, call):
    assert error_of(old, f"select {call}")[0] == "40001"
    assert consume_all(connection) == [[2]]


def test_an_old_snapshot_finishes_nothing(database, connection, two_batches):
    batch = value(connection, "select pgq.next_batch('changes', 'lake')")
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        assert rows(old, POSITION) == [(1, True)]
        assert value(connection, "select pgq.finish_batch(%s)", batch) == 1

        assert error_of(old, "select pgq.finish_batch(%s)", batch)[0] == "40001"
    assert consume_all(connection) == [[2]]


@pytest.mark.parametrize("calls", [1, 2])
def test_an_old_snapshot_is_refused_after_the_ledger_was_emptied_too(connection, old, calls):
    for _ in range(calls):  # the first one moves, the second one truncates
        connection.execute("select pgq._maintain_positions(1)")

    assert error_of(old, "select pgq.next_batch('changes', 'lake')")[0] == "40001"
    assert consume_all(connection) == [[2]]


def test_without_the_key_it_would_get_the_batch_again(connection, old):
    """Counterproof: without the primary key the stale session receives the batch."""
    old.commit()
    connection.execute("alter table pgq.position_0 drop constraint position_0_pkey")
    connection.execute("create index on pgq.position_0 (pos_subscriber, pos_move)")
    connection.execute("select pgq.register_consumer_at('changes', 'lake', 1)")
    old.execute("set transaction isolation level repeatable read")
    assert rows(old, POSITION) == [(1, False)]
    assert consume_all(connection) == [[1], [2]]

    batch = value(old, "select pgq.next_batch('changes', 'lake')")

    assert rows(old, "select ev_id from pgq.get_batch_events(%s)", batch) == [(1,)]
