"""pgq._admit_due, with pgq._any_retry and pgq._ended_between: due events without maintenance."""

import pytest

from support import replace_in, rows, value, wait_until
from support.log import contents, delay_event, wait_until_due


def admit(connection):
    return value(connection, "select pgq._admit_due()")


def passes(connection):
    return value(connection, "select max(pass_id) from pgq.retry_pass")


@pytest.mark.usefixtures("log")
def test_nothing_is_due_and_nothing_is_written(connection):
    delay_event(connection, delay="1 hour")
    connection.execute("select pgq.maint_retry_events()")
    before = passes(connection)

    with connection.transaction():
        assert admit(connection) == 0
        assert value(connection, "select pg_current_xact_id_if_assigned()") is None

    assert passes(connection) == before


@pytest.mark.usefixtures("log")
def test_due_event_is_delivered_once(connection):
    delay_event(connection, "now")
    delay_event(connection, "later", delay="1 hour")
    wait_until_due(connection)

    assert (admit(connection), admit(connection)) == (1, 0)
    assert contents(connection) == [(1, "now")]


@pytest.mark.usefixtures("log")
def test_a_thousand_at_a_time_and_those_of_one_time_too(connection):
    # As sluice.insert_event writes them, but already due.
    connection.execute(
        "insert into pgq.retry_entry_0 (ev_retry_after, ev_queue, ev_time, ev_type, ev_data)"
        " select now(), q.queue_id, now(), 't', n::text from pgq.queue as q, generate_series(1, 2500) as n"
    )

    assert [admit(connection) for _ in range(4)] == [1000, 1000, 500, 0]
    assert contents(connection) == [(n, str(n)) for n in range(1, 2501)]


@pytest.mark.slow
@pytest.mark.usefixtures("log")
def test_event_committed_after_its_due_time_is_delivered_within_a_second(database, connection):
    with database.connect(autocommit=False) as late:
        delay_event(late, "late")
        delay_event(connection, "early")
        wait_until_due(connection)
        wait_until_due(late)
        assert admit(connection) == 1
        late.commit()

    wait_until(lambda: admit(connection) == 1, "the event with the late commit")
    assert contents(connection) == [(1, "early"), (2, "late")]


@pytest.mark.usefixtures("log")
def test_it_skips_events_that_another_session_is_moving(database, connection):
    delay_event(connection)
    wait_until_due(connection)
    with database.connect(autocommit=False) as mover:
        assert value(mover, "select pgq.maint_retry_events()") == 1
        connection.execute("set lock_timeout = '10s'")

        assert admit(connection) == 0
        mover.commit()

    assert contents(connection) == [(1, "d")]


def check_table(connection, table):
    connection.execute(
        f"insert into pgq.retry_entry_{table} (ev_retry_after, ev_queue, ev_time, ev_type, ev_data)"
        " select now(), q.queue_id, now(), 't', 'd' from pgq.queue as q"
    )

    assert admit(connection) == 1
    assert contents(connection) == [(1, "d")]


@pytest.mark.parametrize("table", [0, 1])
@pytest.mark.usefixtures("log")
def test_due_events_of_both_tables_are_delivered(connection, table):
    check_table(connection, table)


@pytest.mark.parametrize("table", [0, 1])
@pytest.mark.usefixtures("log")
def test_looking_for_entries_in_one_table_only_is_found(connection, table):
    other = f"pg_relation_size('pgq.retry_entry_{1 - table}') = 0"
    both = "pg_relation_size('pgq.retry_entry_0') + pg_relation_size('pgq.retry_entry_1') = 0"
    replace_in(connection, "pgq._admit_due()", both, other)

    with pytest.raises(AssertionError):
        check_table(connection, table)


@pytest.mark.parametrize(
    ("after", "upto", "wanted"),
    [
        ("10:10:", "10:10:", []),
        ("10:10:", "11:11:", [(9, 11)]),
        ("10:10:", "20:20:", [(9, 20)]),
        ("10:10:", "12:20:12,15", [(9, 12), (12, 15), (15, 20)]),
        ("10:10:", "10:12:10,11", []),
        ("5:10:5,7", "10:10:", [(4, 6), (6, 8)]),
        ("5:10:5,7", "7:12:7,10", [(4, 6), (10, 12)]),
    ],
)
def test_transactions_that_ended_between_two_snapshots(connection, after, upto, wanted):
    assert (
        rows(
            connection,
            "select after_txid::text::int, before_txid::text::int from pgq._ended_between(%s, %s) order by 1",
            after,
            upto,
        )
        == wanted
    )
