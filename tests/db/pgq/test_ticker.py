import psycopg
import pytest

from support import rows, value


@pytest.fixture
def default_log(connection):
    connection.execute("select pgq.create_queue('changes')")


def age_ticks(connection, interval):
    """Make the ticks older; the ticker only reads their times."""
    connection.execute("update pgq.tick set tick_time = tick_time - %s::interval", (interval,))


def test_nothing_new_and_nothing_due_is_no_tick(connection, default_log):
    assert value(connection, "select pgq.ticker('changes')") is None


def test_the_first_event_of_a_new_log_counts(connection, default_log):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    age_ticks(connection, "3 s")

    assert value(connection, "select pgq.ticker('changes')") == 2
    assert rows(connection, "select tick_event_seq from pgq.tick order by tick_id") == [(0,), (1,)]


def test_enough_events_tick_at_once(connection, default_log):
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 499)")
    assert value(connection, "select pgq.ticker('changes')") is None

    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    assert value(connection, "select pgq.ticker('changes')") == 2


def test_a_few_events_tick_when_the_last_tick_is_older_than_max_lag(connection, default_log):
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    age_ticks(connection, "2.5 s")
    assert value(connection, "select pgq.ticker('changes')") is None

    age_ticks(connection, "0.6 s")
    assert value(connection, "select pgq.ticker('changes')") == 2


def test_an_idle_log_ticks_at_growing_distances_up_to_the_idle_period(connection, default_log):
    age_ticks(connection, "60 s")
    assert value(connection, "select pgq.ticker('changes')") == 2
    connection.execute(
        "update pgq.tick set tick_time = clock_timestamp() - interval '10 s' where tick_id = 1"
    )
    connection.execute(
        "update pgq.tick set tick_time = clock_timestamp() - interval '5 s' where tick_id = 2"
    )

    assert (
        value(connection, "select pgq.ticker('changes')") is None
    )  # 5 s since the last tick, 5 s between the last two
    connection.execute("update pgq.tick set tick_time = tick_time - interval '6 s'")
    assert (
        value(connection, "select pgq.ticker('changes')") == 3
    )  # 11 s since the last tick, more than twice the gap


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("queue_external_ticker", "This queue has external tick source."),
        ("queue_ticker_paused", "Ticker has been paused for this queue"),
    ],
)
def test_log_with_ticker_disabled_is_an_error_and_skipped_by_the_ticker_of_all(
    connection, default_log, column, message
):
    connection.execute(
        f"update pgq.queue set {column} = true, queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.ticker('changes')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == ("PQ004", message)
    assert value(connection, "select pgq.ticker()") == 0


def test_an_unknown_log_is_an_error(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.ticker('missing')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == ("PQ001", "no such queue")


def test_all_logs_are_ticked_that_are_due(connection, log):
    connection.execute("select pgq.create_queue('quiet')")

    assert value(connection, "select pgq.ticker()") == 1
    assert rows(connection, "select queue_name, last_tick_id from pgq.get_queue_info()") == [
        ("changes", 2),
        ("quiet", 1),
    ]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_snapshot_from_the_start_of_a_transaction_is_refused(connection, log, level):
    connection.execute(f"set default_transaction_isolation = '{level}'")

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.ticker('changes')")

    assert caught.value.sqlstate == "PQ004"
    assert (
        caught.value.diag.message_primary
        == f"cannot tick event log 'changes' in a {level} transaction"
    )


def test_a_snapshot_behind_the_last_tick_is_refused(connection, log):
    # As after restoring a dump into a server with lower transaction ids.
    connection.execute("update pgq.tick set tick_snapshot = '9000000000:9000000010:'")

    with pytest.raises(
        psycopg.Error,
        match="Invalid PgQ state: old xmin=9000000000, old xmax=9000000010, cur txid=",
    ):
        connection.execute("select pgq.ticker('changes')")
    assert value(connection, "select count(*) from pgq.tick") == 1


def test_a_log_that_cannot_be_ticked_does_not_stop_the_others(connection, log):
    connection.execute("select pgq.create_queue('a restored one')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute(
        "update pgq.tick set tick_snapshot = '9000000000:9000000010:' where tick_queue = 2"
    )
    warnings = []
    connection.add_notice_handler(lambda d: warnings.append(d.message_primary))

    assert value(connection, "select pgq.ticker()") == 1

    assert len(warnings) == 1
    assert warnings[0].startswith(
        "event log a restored one is not ticked: Invalid PgQ state: old xmin="
    )


def test_all_logs_are_not_ticked_from_an_old_snapshot(connection, log):
    connection.execute("set default_transaction_isolation = 'repeatable read'")

    with pytest.raises(psycopg.Error, match="cannot tick in a repeatable read transaction"):
        connection.execute("select pgq.ticker()")


@pytest.fixture
def copied_log(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("select pgq.set_queue_config('changes', 'external_ticker', 'true')")


EXTERNAL = "select pgq.ticker('changes', %s, '2020-01-01 00:00+00', %s)"


def test_a_tick_from_outside_is_stored_as_it_is_and_moves_the_numbers(connection, copied_log):
    assert value(connection, EXTERNAL, 5, 100) == 5

    stored = rows(
        connection,
        "select tick_id, tick_time = '2020-01-01 00:00+00', tick_event_seq from pgq.tick_1 order by 1",
    )
    assert stored[1] == (5, True, 100)
    assert value(connection, "select last_value from pgq.event_1_tick_seq") == 5
    assert value(connection, "select last_value from pgq.event_1_id_seq") == 100
    # Sequences only advance.
    assert value(connection, EXTERNAL, 6, 90) == 6
    assert value(connection, "select last_value from pgq.event_1_id_seq") == 100


@pytest.mark.parametrize("tick_id", [5, 4, 1])
def test_a_tick_from_outside_that_is_not_after_the_last_is_refused(connection, copied_log, tick_id):
    connection.execute(EXTERNAL, (5, 100))
    with pytest.raises(psycopg.Error, match="is not after its last tick, 5") as caught:
        connection.execute(EXTERNAL, (tick_id, 100))
    assert caught.value.sqlstate == "PQ004"


def test_ticks_from_outside_wait_for_each_other(database, connection, copied_log):
    with database.connect(autocommit=False) as other:
        other.execute(EXTERNAL, (5, 100))
        connection.execute("set lock_timeout = '100 ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute(EXTERNAL, (6, 100))


@pytest.mark.parametrize("column", ["queue_ticker_paused = true", "queue_external_ticker = false"])
def test_a_tick_from_outside_needs_a_log_for_it(connection, copied_log, column):
    connection.execute(f"update pgq.queue set {column}")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(EXTERNAL, (5, 100))
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ004",
        "queue not found or ticker disabled: changes",
    )


@pytest.mark.parametrize("arguments", [(None, 100), (5, None)])
def test_a_tick_from_outside_is_complete(connection, copied_log, arguments):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(EXTERNAL, arguments)
    assert caught.value.sqlstate == "22004"
