import psycopg
import pytest

from support import rows, value


def test_the_short_form_leaves_the_extra_fields_empty(connection, log):
    assert (
        value(
            connection,
            "select pgq.insert_event(queue_name => 'changes', ev_type => 't', ev_data => 'd')",
        )
        == 1
    )

    assert rows(
        connection,
        "select ev_id, ev_type, ev_data, ev_extra1, ev_extra4, ev_owner, ev_retry from pgq.event_1_0",
    ) == [(1, "t", "d", None, None, None, None)]


def test_the_long_form_fills_them_and_notes_time_and_transaction(connection, log):
    with connection.transaction():
        connection.execute("select pgq.insert_event('changes', 't', 'd', '1', '2', '3', '4')")
        same = value(
            connection,
            "select ev_txid = pg_current_xact_id() and ev_time = now() from pgq.event_1_0",
        )

    assert same is True
    assert rows(
        connection, "select ev_extra1, ev_extra2, ev_extra3, ev_extra4 from pgq.event_1_0"
    ) == [("1", "2", "3", "4")]


def test_an_event_of_a_savepoint_carries_the_id_of_the_whole_transaction(connection, log):
    with connection.transaction():
        top = value(connection, "select pg_current_xact_id()::text")
        with connection.transaction():
            connection.execute("select pgq.insert_event('changes', 't', 'd')")

    assert value(connection, "select ev_txid::text from pgq.event_1_0") == top


def test_unknown_log_is_an_error_with_a_hint(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.insert_event('missing', 't', 'd')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == ("PQ001", "No such queue")
    assert caught.value.diag.message_hint == "create it with pgq.create_queue('missing')"


def test_a_null_name_is_refused(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.insert_event(null, 't', 'd')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "22004",
        "Queue name must not be NULL",
    )


def test_a_closed_log_takes_events_only_from_replication(connection, log):
    connection.execute("update pgq.queue set queue_disable_insert = true")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ004",
        "Insert into queue disallowed",
    )

    connection.execute("set session_replication_role = replica")
    assert value(connection, "select pgq.insert_event('changes', 't', 'd')") == 1


def test_a_function_that_takes_the_place_of_the_long_form_is_called_by_the_short_one(
    connection, log
):
    connection.execute(
        """create or replace function pgq.insert_event(
               queue_name text, ev_type text, ev_data text,
               ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
           ) returns bigint language sql as 'select -1::bigint'"""
    )

    assert value(connection, "select pgq.insert_event('changes', 't', 'd')") == -1


def test_the_short_form_costs_no_call_of_its_own(connection, log):
    plan = rows(connection, "explain verbose select pgq.insert_event('changes', 't', 'd')")

    assert "'d'::text, NULL::text, NULL::text" in str(plan)


def test_a_search_path_cannot_change_what_the_short_form_calls(connection, log):
    connection.execute("create schema trap")
    connection.execute(
        """create function trap.insert_event(
               queue_name text, ev_type text, ev_data text,
               ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
           ) returns bigint language sql as 'select -1::bigint'"""
    )
    connection.execute("set search_path = trap, pgq, pg_catalog")

    assert value(connection, "select pgq.insert_event('changes', 't', 'd')") == 1


def test_the_event_goes_into_the_current_table(connection, log):
    connection.execute("update pgq.queue set queue_cur_table = 2")

    connection.execute("select pgq.insert_event('changes', 't', 'd')")

    assert value(connection, "select count(*) from pgq.event_1_2") == 1
