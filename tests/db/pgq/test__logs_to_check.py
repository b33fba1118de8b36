"""pgq._logs_to_check, and pgq._tick_if_due, which reads what it remembers."""

import pytest

from support import rows, value

CHECK = "select pgq._logs_to_check(array[1, 2])"


@pytest.fixture
def known(connection):
    """Two logs that this session knows to be idle: `changes`, and `other` for comparison."""
    connection.execute("select pgq.create_queue('changes'), pgq.create_queue('other')")
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    connection.execute("update pgq.tick set tick_time = clock_timestamp() - interval '1 minute'")
    assert value(connection, "select pgq.ticker()") == 2
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '1 hour', queue_ticker_idle_period = '2 hours'"
    )
    assert value(connection, "select pgq.ticker()") == 0
    assert value(connection, CHECK) == []
    return connection


def remember(connection, age_s, gap_s):
    """Make the last tick of `changes` older in the memory of the session."""
    ticks, _, events, _ = value(connection, "select current_setting('sluice.ticked_1')").split()
    now = value(connection, "select extract(epoch from clock_timestamp())")
    memory = f"{ticks} {float(now) - age_s} {events} {gap_s}"
    connection.execute("select set_config('sluice.ticked_1', %s, false)", (memory,))


def test_logs_are_checked_once_and_skipped_while_nothing_changes(connection, known):
    connection.execute("drop function pgq.tick_1_last()")
    warnings = []
    connection.add_notice_handler(lambda d: warnings.append(d.message_primary))

    assert value(connection, "select pgq.ticker()") == 0
    assert warnings == []


@pytest.mark.parametrize(
    "change",
    [
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0' where queue_id = 1",
        "select pgq._take_tick(1)",
        "update pgq.queue set queue_switch_step2 = null where queue_id = 1",
        "update pgq.origin set part = part where queue_id = 1 and part = 0",
        "select sluice._note_failure('tick', 'changes', null, 'failed')",
        "set sluice.ticked_1 = ''",
        "drop sequence pgq.event_1_id_seq cascade",
        "drop sequence pgq.event_1_tick_seq cascade",
    ],
)
def test_log_is_checked_after_a_change(connection, known, change):
    connection.execute(change)

    assert value(connection, CHECK) == [1]


def test_tick_of_another_session_is_noticed(database, connection, known):
    with database.connect() as other:
        other.execute("select pgq._take_tick(1)")

    assert value(connection, CHECK) == [1]
    assert value(connection, "select pgq.ticker()") == 0
    assert value(connection, CHECK) == []


def test_new_events_are_due_by_number_and_by_age(connection, known):
    connection.execute("update pgq.queue set queue_ticker_max_count = 3")
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 2)")
    assert value(connection, CHECK) == []

    remember(connection, age_s=3601, gap_s=3600)
    assert value(connection, CHECK) == [1]
    remember(connection, age_s=0, gap_s=3600)
    assert value(connection, CHECK) == []
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    assert value(connection, CHECK) == [1]
    assert value(connection, "select pgq.ticker()") == 1
    assert rows(connection, "select max(tick_event_seq) from pgq.tick_1") == [(4,)]


@pytest.mark.parametrize(
    ("age_s", "gap_s", "is_due"),
    [
        (1700, 0, False),  # younger than half of the maximum lag
        (1900, 0, True),  # the time between the last two ticks is not known
        (1900, 1000, False),
        (1900, 900, True),
        (7100, 9000, False),
        (7300, 9000, True),  # older than the idle period
        (-60, 0, True),  # the clock was set back
    ],
)
def test_idle_log_is_due_at_growing_intervals(connection, known, age_s, gap_s, is_due):
    remember(connection, age_s, gap_s)

    assert value(connection, CHECK) == ([1] if is_due else [])


def test_rolled_back_pass_is_not_remembered(connection, known):
    connection.execute("set sluice.ticked_1 = ''")
    with connection.transaction(force_rollback=True):
        assert value(connection, "select pgq.ticker()") == 0
        assert value(connection, CHECK) == []

    assert value(connection, CHECK) == [1]


def test_log_that_another_session_ticks_is_not_remembered(database, connection, known):
    connection.execute("set sluice.ticked_1 = ''")
    with database.connect(autocommit=False) as other:
        other.execute("select pgq._lock_ticks(1, false)")
        assert value(connection, "select pgq.ticker()") == 0

    assert value(connection, CHECK) == [1]


def test_unreadable_memory_checks_all(connection, known):
    connection.execute("set sluice.ticked_1 = 'no numbers'")

    assert value(connection, CHECK) == [1, 2]
