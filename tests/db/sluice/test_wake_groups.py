"""sluice.wake_groups: between ticks, it notifies waiting consumers once of new events."""

import pytest

from support import value


@pytest.fixture
def group(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select sluice.create_group('changes', 'mail')")


@pytest.fixture
def ticker(database, group):
    with database.connect() as session:
        yield session


@pytest.fixture
def notified(database, group):
    """A function that returns the log's notifications since its last call."""
    with database.connect() as session, database.connect() as other:
        session.execute("select sluice.listen_log('changes')")
        session.execute("listen done")

        def drain():
            # Notifications arrive in commit order.
            other.execute("notify done")
            found = []
            for notification in session.notifies(timeout=10):
                if notification.channel == "done":
                    break
                found.append(notification.payload)
            return found

        yield drain


def insert(session):
    session.execute("select pgq.insert_event('changes', 't', 'd')")


def tick(session):
    return value(session, "select count(*) from sluice.tick()")


def wake(session):
    return value(session, "select sluice.wake_groups()")


def test_each_event_wakes_once(connection, ticker, notified):
    insert(connection)
    assert tick(ticker) == 1
    assert notified() == ["2"]
    assert wake(ticker) == 1
    assert notified() == []

    for _ in range(2):
        insert(connection)
        assert [wake(ticker), wake(ticker)] == [1, 1]
        assert notified() == [""]


def test_late_commit_wakes_the_group(database, connection, ticker, notified):
    insert(connection)
    tick(ticker)
    with database.connect(autocommit=False) as late:
        insert(late)
        insert(connection)
        wake(ticker)
        assert notified() == ["2", ""]
        wake(ticker)
        assert notified() == []
        late.commit()

    wake(ticker)
    assert notified() == [""]


def test_of_two_tickers_the_one_with_the_newest_tick_wakes(database, connection, ticker, notified):
    with database.connect() as other:
        for session in (other, ticker):
            insert(connection)
            assert tick(session) == 1
        assert notified() == ["2", "3"]
        insert(connection)
        assert [wake(other), wake(ticker)] == [1, 1]

    assert notified() == [""]


def test_logs_without_ticks_or_groups_are_skipped(connection, ticker, notified):
    connection.execute("select pgq.create_queue('plain')")
    connection.execute("select pgq.insert_event('plain', 't', 'd')")
    insert(connection)
    assert tick(ticker) == 2
    assert (wake(ticker), wake(connection)) == (1, 0)


def test_a_log_that_is_settled_costs_a_look_at_its_sequence(connection, ticker, notified):
    insert(connection)
    for _ in range(4):
        tick(ticker)
    connection.execute("drop function pgq.event_1_any(pg_snapshot, pg_snapshot)")

    assert wake(ticker) == 1
    assert notified() == ["2"]
