import pytest

from support import value
from support.log import error_of, tick


@pytest.fixture
def batch(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")
    tick(connection)
    return value(connection, "select pgq.next_batch('changes', 'lake')")


def test_second_session_on_a_batch_gets_an_error_immediately(database, connection, batch):
    with database.connect(autocommit=False) as first, database.connect(autocommit=False) as second:
        first.execute("select sluice.hold_batch(batch_id => %s)", (batch,))

        assert error_of(second, "select sluice.hold_batch(%s)", batch) == (
            "PQ004",
            f"batch {batch} is being processed by another session",
        )
        second.rollback()
        assert value(first, "select pgq.finish_batch(%s)", batch) == 1
        first.commit()
        assert error_of(second, "select sluice.hold_batch(%s)", batch) == (
            "PQ003",
            "batch not found",
        )


def test_a_session_that_gives_it_back_leaves_it_to_the_next(database, connection, batch):
    with database.connect(autocommit=False) as first:
        first.execute("select sluice.hold_batch(%s)", (batch,))
        first.rollback()

        connection.execute("select sluice.hold_batch(%s)", (batch,))


@pytest.mark.parametrize("unknown", [99, None])
def test_closed_batch_cannot_be_held(connection, batch, unknown):
    assert error_of(connection, "select sluice.hold_batch(%s::bigint)", unknown) == (
        "PQ003",
        "batch not found",
    )


def test_any_reader_may_hold_its_batch(database, connection, batch, role):
    connection.execute(f"grant sluice_reader to {role}")
    with database.connect(user=role) as reader:
        reader.execute("select sluice.hold_batch(%s)", (batch,))
