import psycopg
import pytest

from support import value


def test_it_is_the_last_value_of_a_sequence(connection):
    connection.execute("create sequence public.ids start 5")
    assert value(connection, "select pgq.seq_getval('public.ids')") == 5

    connection.execute("select nextval('public.ids'), nextval('public.ids')")
    assert value(connection, "select pgq.seq_getval('ids')") == 6


def test_anybody_may_look_at_the_sequences_of_a_log(connection, log, role):
    connection.execute("select pgq.insert_event('changes', 't', 'd') from generate_series(1, 3)")
    with connection.transaction():
        connection.execute(f"set local role {role}")
        assert value(connection, "select pgq.seq_getval('pgq.event_1_id_seq')") == 3
        assert value(connection, "select pgq.seq_getval('pgq.event_1_tick_seq')") == 1


def test_null_is_null_and_an_unknown_sequence_an_error(connection):
    assert value(connection, "select pgq.seq_getval(null)") is None
    with pytest.raises(psycopg.errors.UndefinedTable, match=r"public\.missing"):
        connection.execute("select pgq.seq_getval('missing')")


def test_it_has_its_callers_rights(connection, role):
    connection.execute("create sequence public.ids")
    with connection.transaction(force_rollback=True):
        connection.execute(f"set local role {role}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select pgq.seq_getval('ids')")
