"""sluice.wake_groups: between two ticks, who waits for a claim is woken once for what is new."""

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
def heard(database, group):
    """What a listener hears within a moment."""
    with database.connect() as session, database.connect() as other:
        session.execute("select sluice.listen_log('changes')")
        session.execute("listen done")

        def drain():
            # Notifications come in the order of commits.
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


def test_each_event_wakes_once(connection, ticker, heard):
    insert(connection)
    assert tick(ticker) == 1
    assert heard() == ["2"]
    assert wake(ticker) == 1
    assert heard() == []

    for _ in range(2):
        insert(connection)
        assert [wake(ticker), wake(ticker)] == [1, 1]
        assert heard() == [""]


def test_what_is_committed_late_wakes_when_it_is(database, connection, ticker, heard):
    insert(connection)
    tick(ticker)
    with database.connect(autocommit=False) as late:
        insert(late)
        insert(connection)
        wake(ticker)
        assert heard() == ["2", ""]
        wake(ticker)
        assert heard() == []
        late.commit()

    wake(ticker)
    assert heard() == [""]


def test_of_two_tickers_the_one_with_the_newest_tick_wakes(database, connection, ticker, heard):
    with database.connect() as other:
        for session in (other, ticker):
            insert(connection)
            assert tick(session) == 1
        assert heard() == ["2", "3"]
        insert(connection)
        assert [wake(other), wake(ticker)] == [1, 1]

    assert heard() == [""]


def test_who_never_ticked_and_a_log_without_groups_are_passed_over(connection, ticker, heard):
    connection.execute("select pgq.create_queue('plain')")
    connection.execute("select pgq.insert_event('plain', 't', 'd')")
    insert(connection)
    assert tick(ticker) == 2
    assert (wake(ticker), wake(connection)) == (1, 0)


def test_a_log_that_is_settled_costs_a_look_at_its_sequence(connection, ticker, heard):
    insert(connection)
    for _ in range(4):
        tick(ticker)
    connection.execute("drop function pgq.event_1_any(pg_snapshot, pg_snapshot)")

    assert wake(ticker) == 1
    assert heard() == ["2"]
