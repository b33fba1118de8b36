import psycopg
import pytest

from support import rows, value
from support.log import consume_all, tick

COLUMNS = ["log_name", "segment", "action", "reason"]


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        """update pgq.queue
        set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '0'"""
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")


def fill(connection, events=1):
    connection.execute(
        "select pgq.insert_event('changes', 't', 'd') from generate_series(1, %s)", (events,)
    )
    tick(connection)


def rotate(connection):
    return rows(connection, "select segment, action, reason from sluice.rotate('changes')")


def test_rotate_reports_done_and_skipped_steps(connection, log):
    fill(connection)
    cursor = connection.execute("select * from sluice.rotate('changes')")
    assert [c.name for c in cursor.description] == COLUMNS
    assert cursor.fetchall() == [("changes", 1, "switched", None)]

    assert rotate(connection) == [(0, "kept", "not yet read by lake"), (2, "switched", None)]
    consume_all(connection)
    assert rotate(connection) == [(0, "reclaimed", None), (0, "switched", None)]


def test_it_does_not_switch_before_the_period_is_over_but_empties(connection, log):
    fill(connection)
    rotate(connection)
    consume_all(connection)
    connection.execute("update pgq.queue set queue_rotation_period = '1 hour'")
    connection.execute("update pgq.tick set tick_time = tick_time - interval '2 hours'")

    assert rotate(connection) == [(0, "reclaimed", None)]
    assert rotate(connection) == []


def test_a_consumer_may_go_back_for_a_rotation_period(connection, log):
    fill(connection)
    rotate(connection)
    read = consume_all(connection)
    connection.execute("update pgq.queue set queue_rotation_period = '1 hour'")

    kept = (0, "kept", "a consumer may move back to it within its rotation period")
    assert rotate(connection) == [kept]
    assert value(connection, "select pgq.register_consumer_at('changes', 'lake', 1)") == 0
    assert consume_all(connection) == read


def test_segments_are_made_as_they_are_needed_and_used_again(connection, log):
    for expected in (1, 2, 3, 4):
        fill(connection)
        assert rotate(connection)[-1] == (expected, "switched", None)
    assert value(connection, "select queue_ntables from pgq.queue") == 5
    assert value(connection, "select pgq.current_event_table('changes')") == "pgq.event_1_4"

    consume_all(connection)
    steps = rotate(connection)
    assert [s for s in steps if s[1] == "reclaimed"] == [(n, "reclaimed", None) for n in range(4)]
    assert steps[-1] == (0, "switched", None)
    assert value(connection, "select queue_ntables from pgq.queue") == 5


def test_a_new_segment_has_the_grants_of_its_neighbour(role, connection, log):
    connection.execute(
        f"grant select, insert (ev_type) on pgq.event_1_0 to {role}; grant select on pgq.event_1_2 to {role}"
    )
    connection.execute("drop table pgq.event_1_1, pgq.event_1_2, pgq.tick_1_1, pgq.tick_1_2")
    fill(connection)

    assert rotate(connection) == [(1, "switched", None)]

    acl = """select c.relacl, (select a.attacl from pg_attribute as a where a.attrelid = c.oid and a.attname = 'ev_type')
        from pg_class as c where c.oid = 'pgq.event_1_%s'::regclass"""
    assert rows(connection, acl % 1) == rows(connection, acl % 0)


def test_with_many_segments_kept_the_period_doubles_for_each(connection, log):
    for _ in range(7):
        fill(connection)
        rotate(connection)
    fill(connection)
    connection.execute("update pgq.queue set queue_rotation_period = '10 minutes'")

    def switches_after(minutes):
        connection.execute(
            "update pgq.queue set queue_switch_time = clock_timestamp() - make_interval(mins => %s)",
            (minutes,),
        )
        return any(action == "switched" for _, action, _ in rotate(connection))

    # Seven segments are kept, one more than the six that do not delay a switch.
    assert not switches_after(19)
    assert switches_after(21)
    fill(connection)
    assert not switches_after(39)
    assert switches_after(41)


def test_the_newest_tick_moves_along(connection, log):
    fill(connection)
    fill(connection)
    rotate(connection)

    assert rows(connection, "select tick_id from pgq.tick_1_0 order by 1") == [(1,), (2,)]
    assert rows(connection, "select tick_id from pgq.tick_1_1") == [(3,)]
    consume_all(connection)
    assert rotate(connection)[0] == (0, "reclaimed", None)
    assert value(connection, "select pgq.register_consumer('changes', 'new')") == 1


def test_the_oldest_segment_goes_first(database, connection, log):
    fill(connection)
    rotate(connection)
    fill(connection)
    rotate(connection)
    consume_all(connection)
    with database.connect(autocommit=False) as reader:
        value(reader, "select count(*) from only pgq.event_1_0")
        assert rotate(connection)[:2] == [
            (0, "kept", f"locked by pid {reader.info.backend_pid}"),
            (1, "kept", "an older segment is kept"),
        ]
        # The log retains all events after its oldest tick.
        assert (
            value(
                connection,
                "select tick_id from sluice.log_start('changes', null, 'earliest')",
            )
            == 1
        )
        assert value(connection, "select count(*) from pgq.event_1") == 2


def test_all_logs_are_rotated_without_a_name(connection, log):
    connection.execute("select pgq.create_queue('other')")
    connection.execute("update pgq.queue set queue_rotation_period = '0'")

    assert rows(connection, "select log_name, action from sluice.rotate()") == [
        ("changes", "switched"),
        ("other", "switched"),
    ]


def test_a_reader_in_the_same_session_is_an_answer_and_no_error(connection, log):
    fill(connection)
    rotate(connection)
    consume_all(connection)
    with connection.transaction():
        connection.execute("declare c cursor for select * from only pgq.event_1_0")
        assert rotate(connection)[0] == (0, "kept", "this session reads it")


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("select * from sluice.rotate('missing')", "PQ001", "event log 'missing' does not exist"),
        (
            "begin isolation level repeatable read; select * from sluice.rotate()",
            "PQ004",
            "cannot rotate an event log in a repeatable read transaction",
        ),
    ],
)
def test_errors(connection, log, call, code, message):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(call)
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (code, message)


def test_a_sequence_that_caches_numbers_is_reported(connection):
    connection.execute("select pgq.create_queue('changes')")
    report = (
        "select log_name, segment, action, reason from sluice.rotate() where action = 'misnumbered'"
    )
    assert rows(connection, report) == []

    connection.execute("alter sequence pgq.event_1_id_seq cache 20")

    assert rows(connection, report) == [
        (
            "changes",
            None,
            "misnumbered",
            "sequence pgq.event_1_id_seq caches 20 numbers for each session; alter sequence pgq.event_1_id_seq cache 1",
        )
    ]
