"""pgq._append_event: the static INSERT of the first logs and segments, and the dynamic one of all others."""

import psycopg
import pytest

from support import replace_in, rows, value
from support.log import consume_all, tick

INSERT = "select pgq.insert_event(%s, 't', %s)"
CALLER = "pgq.insert_event(text, text, text, text, text, text, text)"
SIGNATURE = "pgq._append_event(integer, integer, xid8, text, text, text, text, text, text)"
WHERE_IS = "select distinct tableoid::regclass::text from pgq.event_1 where ev_data = %s"
STATIC_LOGS, STATIC_SEGMENTS = 16, 3


@pytest.fixture
def logs(connection):
    """Create one log more than have a static INSERT, each with four segments."""
    for number in range(1, STATIC_LOGS + 2):
        connection.execute("select pgq.create_queue(%s)", (f"log {number}",))
        connection.execute("set role sluice_owner")
        connection.execute("select pgq._create_segment(%s, %s)", (number, STATIC_SEGMENTS))
        connection.execute("reset role")
    return range(1, STATIC_LOGS + 2)


def check_segments_and_numbers(connection, logs):
    """Check where each event is; the numbers of each log start at a number of its own."""
    expected = []
    for number in logs:
        connection.execute(f"select setval('pgq.event_{number}_id_seq', {number * 100}, false)")
        for segment in range(STATIC_SEGMENTS + 1):
            connection.execute(
                "update pgq.queue set queue_cur_table = %s where queue_id = %s", (segment, number)
            )
            data = f"{number} {segment}"
            ev_id = number * 100 + segment
            assert value(connection, INSERT, f"log {number}", data) == ev_id
            expected.append((f"event_{number}_{segment}", ev_id, data))

    found = rows(
        connection,
        "select c.relname::text, e.ev_id, e.ev_data from pgq.event_template as e "
        "join pg_class as c on c.oid = e.tableoid order by e.ev_id",
    )

    assert found == expected


@pytest.mark.slow
def test_each_event_is_in_the_current_segment_of_its_log_with_the_next_number(connection, logs):
    check_segments_and_numbers(connection, logs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("event_12_1 (", "event_12_0 (", id="another segment in a static INSERT"),
        pytest.param("event_12_1 (", "event_11_1 (", id="another log in a static INSERT"),
        pytest.param(
            "i_queue_id, i_segment\n", "i_queue_id, 0\n", id="another segment in the dynamic INSERT"
        ),
        pytest.param(
            "event_%1$s_id_seq", "event_1_id_seq", id="another sequence in the dynamic INSERT"
        ),
    ],
)
def test_an_event_in_a_wrong_place_or_with_a_wrong_number_is_found(connection, logs, old, new):
    replace_in(connection, SIGNATURE, old, new)

    with pytest.raises(AssertionError):
        check_segments_and_numbers(connection, logs)


@pytest.mark.parametrize(
    ("log_number", "segment", "is_static"),
    [(1, 0, True), (5, 1, True), (16, 2, True), (16, 3, False), (17, 0, False)],
)
def test_other_logs_and_segments_have_a_dynamic_insert(connection, log_number, segment, is_static):
    connection.execute("select setval('pgq.queue_queue_id_seq', %s, false)", (log_number,))
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("set role sluice_owner")
    connection.execute("select pgq._create_segment(%s, %s)", (log_number, STATIC_SEGMENTS))
    connection.execute("update pgq.queue set queue_cur_table = %s", (segment,))
    connection.execute("reset role")
    replace_in(connection, SIGNATURE, "'insert into", "'broken into")

    if is_static:
        assert value(connection, INSERT, "changes", "d") == 1
    else:
        with pytest.raises(psycopg.errors.SyntaxError, match="broken"):
            connection.execute(INSERT, ("changes", "d"))


def check_rotations(database, connection):
    """Another session switches, truncates and creates segments, and builds the indexes of a share group."""
    connection.execute("update pgq.queue set queue_rotation_period = '0'")
    inserted, consumed, used = [], [], set()
    with database.connect() as writer:
        for turn in range(10):
            for _ in range(6):  # from the sixth call on, the plans are generic
                inserted.append(value(writer, INSERT, "changes", str(turn)))
            current = value(connection, "select queue_cur_table from pgq.queue")
            found = rows(connection, WHERE_IS, str(turn))
            assert found == [(f"pgq.event_1_{current}",)], "an event is not in the current segment"
            used.add(current)
            if turn == 5:
                connection.execute("select sluice.create_group('changes', 'workers', '{}')")
            if turn % 4 == 3:
                tick(connection)
                consumed += [ev_id for batch in consume_all(connection) for ev_id in batch]
            connection.execute("select sluice.rotate('changes')")
    tick(connection)
    consumed += [ev_id for batch in consume_all(connection) for ev_id in batch]

    assert sorted(consumed) == inserted
    assert used > {0, 1, 2}, "segment 3 was never the current one"


def test_a_session_with_cached_plans_follows_rotations(database, connection, consumer):
    check_rotations(database, connection)


def test_a_session_that_remembers_the_current_segment_is_found(database, connection, consumer):
    remembered = """set_config(
        'sluice.segment', coalesce(current_setting('sluice.segment', true), v_segment::text), false
    )::integer,"""
    replace_in(connection, CALLER, "v_queue_id, v_segment, pg_", f"v_queue_id, {remembered} pg_")

    with pytest.raises(AssertionError, match="not in the current segment"):
        check_rotations(database, connection)


def test_a_log_created_again_in_the_place_of_another_is_written_by_cached_plans(
    database, connection, log
):
    with database.connect() as writer:
        for _ in range(6):
            writer.execute(INSERT, ("changes", "before"))
        connection.execute("select pgq.drop_queue('changes')")
        connection.execute("select setval('pgq.queue_queue_id_seq', 1, false)")
        connection.execute("select pgq.create_queue('changes')")

        assert value(writer, INSERT, "changes", "after") == 1

    assert rows(connection, "select ev_data from pgq.event_1") == [("after",)]


def call_with_operators(connection):
    """Insert an event in a session whose operators raise an exception; return its number."""
    connection.execute(
        """create schema trap;
        grant usage on schema trap to public;
        create function trap.caught(integer, integer) returns boolean language plpgsql as
            $$ begin raise exception 'trapped'; end; $$;
        create operator trap.<= (leftarg = integer, rightarg = integer, function = trap.caught);
        create operator trap.= (leftarg = integer, rightarg = integer, function = trap.caught);
        set search_path = trap, pg_catalog"""
    )
    return value(connection, INSERT, "changes", "d")


def test_operators_of_the_caller_are_not_used(connection, log):
    assert call_with_operators(connection) == 1


def test_operators_of_the_caller_are_used_if_no_function_sets_the_search_path(connection, log):
    replace_in(connection, CALLER, " SET search_path TO 'pg_catalog', 'pg_temp'\n", "")

    with pytest.raises(psycopg.errors.RaiseException, match="trapped"):
        call_with_operators(connection)


def number_after_the_id(connection):
    """Insert an event; return its number, or -1 if it was taken before the transaction's id."""
    connection.execute(
        """create function pg_temp.noted(regclass) returns bigint language sql as
            'select case when pg_current_xact_id_if_assigned() is null then -1 else nextval($1) end'"""
    )
    source = value(
        connection, "select pg_get_functiondef(oid) from pg_proc where proname = '_append_event'"
    )
    connection.execute(source.replace("nextval(", "pg_temp.noted("))
    return value(connection, INSERT, "changes", "d")


def test_the_transaction_gets_its_id_before_the_number_is_taken(connection, log):
    """Also by the static statement: a tick that counts the number must know the transaction."""
    assert number_after_the_id(connection) == 1


def test_a_number_that_is_taken_before_the_id_of_the_transaction_is_found(connection, log):
    """The INSERT would evaluate the id after the number if it called the function itself."""
    replace_in(connection, CALLER, "pg_current_xact_id(), ev_type", "null, ev_type")
    source = value(connection, "select pg_get_functiondef(%s::regprocedure)", SIGNATURE)
    connection.execute(source.replace("now(), i_txid", "now(), pg_current_xact_id()"))

    assert number_after_the_id(connection) == -1, "the planted bug must take the number first"
