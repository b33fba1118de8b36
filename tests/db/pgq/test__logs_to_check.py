"""pgq._logs_to_check, and pgq._tick_if_due, which reads what it remembers."""

import pytest

from support import replace_in, rows, value

CHECK = "select pgq._logs_to_check(array[1, 2])"
FUNCTION = "pgq._logs_to_check(integer[])"


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


# What has changed → the statement, and the part of pgq._logs_to_check that notices it.
CHANGES = {
    "settings": (
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0' where queue_id = 1",
        "s.lag < q.queue_ticker_max_lag / 2",
    ),
    "tick": ("select pgq._take_tick(1)", "s.ticks = m.known[1]"),
    "open rotation": (
        "update pgq.queue set queue_switch_step2 = null where queue_id = 1",
        "q.queue_switch_step2 is not null",
    ),
    "restored from a dump": (
        "update pgq.origin set part = part where queue_id = 1 and part = 0",
        "(select count(*) from pgq.origin as o"
        " where o.queue_id = q.queue_id and o.made_by = o.xmin) = 2",
    ),
    "recorded failure": (
        "select sluice._note_failure('tick', 'changes', null, 'failed')",
        "not exists (select from sluice.failure as f"
        " where f.task = 'tick' and f.queue_name = q.queue_name)",
    ),
    "nothing remembered": ("set sluice.ticked_1 = ''", "is not true"),
    "no sequence of events": (
        "drop sequence pgq.event_1_id_seq cascade",
        "where s.event_ids is not null",
    ),
    "no sequence of ticks": ("drop sequence pgq.event_1_tick_seq cascade", "s.ticks = m.known[1]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_log_is_checked_after_a_change(connection, known, change):
    connection.execute(CHANGES[change][0])

    assert value(connection, CHECK) == [1]


@pytest.mark.parametrize("change", CHANGES)
def test_log_is_skipped_after_a_change_if_nothing_notices_it(connection, known, change):
    statement, part = CHANGES[change]
    instead = {"is not true": "is false", "where s.event_ids is not null": "where true"}
    replace_in(connection, FUNCTION, part, instead.get(part, "true"))
    connection.execute(statement)

    assert value(connection, CHECK) == [], "the planted bug must skip the log"


def check_tick_of_another_session(database, connection):
    with database.connect() as other:
        other.execute("select pgq._take_tick(1)")

    assert value(connection, CHECK) == [1]
    assert value(connection, "select pgq.ticker()") == 0
    assert value(connection, CHECK) == []


def check_new_events(connection):
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


AGES = [
    (1700, 0, False),  # younger than half of the maximum lag
    (1900, 0, True),  # the time between the last two ticks is not known
    (1900, 1000, False),
    (1900, 900, True),
    (7100, 9000, False),
    (7300, 9000, True),  # older than the idle period
    (-60, 0, True),  # the clock was set back
]


def check_age(connection, age_s, gap_s, is_due):
    remember(connection, age_s, gap_s)

    assert value(connection, CHECK) == ([1] if is_due else [])


def test_tick_of_another_session_is_noticed(database, connection, known):
    check_tick_of_another_session(database, connection)


def test_new_events_are_due_by_number_and_by_age(connection, known):
    check_new_events(connection)


@pytest.mark.parametrize(("age_s", "gap_s", "is_due"), AGES)
def test_idle_log_is_due_at_growing_intervals(connection, known, age_s, gap_s, is_due):
    check_age(connection, age_s, gap_s, is_due)


def check_all(database, connection):
    check_tick_of_another_session(database, connection)
    for age in AGES:
        check_age(connection, *age)
    remember(connection, age_s=0, gap_s=0)
    check_new_events(connection)


def test_the_checks_pass_one_after_the_other(database, connection, known):
    check_all(database, connection)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("s.ticks = m.known[1]", "true", id="ticks of others are not noticed"),
        pytest.param("s.lag >= '0'", "true", id="a clock that was set back is not noticed"),
        pytest.param(
            "when new.events > 0 then", "when false then", id="new events are not counted"
        ),
        pytest.param(
            "new.events < q.queue_ticker_max_count and", "", id="new events are due by age only"
        ),
        pytest.param(
            "and s.lag < q.queue_ticker_max_lag\n", "\n", id="new events are due by number only"
        ),
        pytest.param("- m.known[3]", "", id="all events count as new"),
        pytest.param(
            "s.lag < q.queue_ticker_idle_period and", "", id="an idle log waits without a limit"
        ),
        pytest.param("and s.lag < 2 * s.gap", "", id="intervals do not grow"),
        pytest.param("< 2 * s.gap", "< s.gap", id="intervals grow too slowly"),
    ],
)
def test_a_planted_bug_is_found(database, connection, known, old, new):
    replace_in(connection, FUNCTION, old, new)

    with pytest.raises(AssertionError):
        check_all(database, connection)


def test_rolled_back_pass_is_not_remembered(connection, known):
    connection.execute("set sluice.ticked_1 = ''")
    with connection.transaction(force_rollback=True):
        assert value(connection, "select pgq.ticker()") == 0
        assert value(connection, CHECK) == []

    assert value(connection, CHECK) == [1]


def check_while_another_session_ticks(database, connection):
    """Return the logs to check after a pass during which another session held the ticks' lock."""
    connection.execute("set sluice.ticked_1 = ''")
    with database.connect(autocommit=False) as other:
        other.execute("select pgq._lock_ticks(1, false)")
        assert value(connection, "select pgq.ticker()") == 0
    return value(connection, CHECK)


def test_log_that_another_session_ticks_is_not_remembered(database, connection, known):
    assert check_while_another_session_ticks(database, connection) == [1]


def test_log_that_another_session_ticks_is_remembered_if_it_is_read_without_the_lock(
    database, connection, known
):
    replace_in(
        connection,
        "pgq._tick_if_due(pgq.queue)",
        "return; -- another session is ticking this log",
        "null;",
    )

    assert check_while_another_session_ticks(database, connection) == [], (
        "the planted bug must remember what another session may be changing"
    )


def check_after_unreadable_memory(connection):
    connection.execute("set sluice.ticked_1 = 'no numbers'")
    return value(connection, CHECK)


def test_unreadable_memory_checks_all(connection, known):
    assert check_after_unreadable_memory(connection) == [1, 2]


def test_unreadable_memory_checks_nothing_if_the_error_does_not_mean_all(connection, known):
    replace_in(connection, FUNCTION, "return i_queue_ids;", "return '{}';")

    assert check_after_unreadable_memory(connection) == []
