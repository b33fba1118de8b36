"""sluice.wake_groups: between ticks, it notifies waiting consumers once of new events."""

import pytest

from support import replace_in, value


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
        session.execute("select sluice.listen('changes', 'log')")
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


def check_two_tickers(database, connection, ticker, notified):
    with database.connect() as other:
        for session in (other, ticker):
            insert(connection)
            assert tick(session) == 1
        assert notified() == ["2", "3"]
        insert(connection)
        assert [wake(other), wake(ticker)] == [1, 1]

    assert notified() == [""]


def test_of_two_tickers_the_one_with_the_newest_tick_wakes(database, connection, ticker, notified):
    check_two_tickers(database, connection, ticker, notified)


def test_logs_without_ticks_or_groups_are_skipped(connection, ticker, notified):
    connection.execute("select pgq.create_queue('plain')")
    connection.execute("select pgq.insert_event('plain', 't', 'd')")
    insert(connection)
    assert tick(ticker) == 2
    assert (wake(ticker), wake(connection)) == (1, 0)


def check_settled(_database, connection, ticker, notified):
    # An error in the look would be caught, but a warning is seen.
    warnings = []
    ticker.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
    insert(connection)
    for _ in range(4):
        tick(ticker)
    replace_in(
        connection,
        "pgq.event_1_any(pg_snapshot,pg_snapshot)",
        "begin\n    if",
        "begin\n    raise warning 'read';\n    if",
    )

    assert wake(ticker) == 1
    assert warnings == []
    assert notified() == ["2"]

    insert(connection)
    assert wake(ticker) == 1
    assert warnings == ["read"]


def test_a_log_that_is_settled_costs_a_look_at_its_sequence(database, connection, ticker, notified):
    check_settled(database, connection, ticker, notified)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        # A ticker keeps its settings when another has made the newest tick.
        (
            check_two_tickers,
            "and v_woken[1]::bigint =",
            "and 0 <",
        ),
        (
            check_settled,
            "if current_setting(format('sluice.settled_%s', v_queue_id), true)\n"
            "                    is distinct from pg_sequence_last_value(",
            "if '' is distinct from pg_sequence_last_value(",
        ),
    ],
)
def test_a_planted_bug_is_found(database, connection, ticker, notified, check, old, new):
    replace_in(connection, "sluice._wake_groups()", old, new)

    with pytest.raises(AssertionError):
        check(database, connection, ticker, notified)
