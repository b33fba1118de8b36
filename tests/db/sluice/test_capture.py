import psycopg
import pytest

from support import rows, value


def test_one_trigger_for_each_kind_of_change_and_none_twice(connection, captured):
    connection.execute("select sluice.capture('account', 'changes')")

    assert rows(
        connection, "select tgname from pg_trigger where tgrelid = 'account'::regclass order by 1"
    ) == [
        ("sluice_capture_delete_1",),
        ("sluice_capture_insert_1",),
        ("sluice_capture_truncate_1",),
        ("sluice_capture_update_1",),
    ]


def test_a_table_with_an_odd_name_in_an_odd_schema(connection):
    connection.execute('create schema "Odd one"')
    connection.execute('create table "Odd one"."T.able" ("Col umn" int)')
    connection.execute("select pgq.create_queue('it''s; odd')")

    connection.execute("""select sluice.capture('"Odd one"."T.able"', 'it''s; odd')""")
    connection.execute('insert into "Odd one"."T.able" values (1)')

    assert rows(connection, "select ev_extra1, ev_data::json -> 'after' from pgq.event_1_0") == [
        ("Odd one.T.able", {"Col umn": 1})
    ]


def test_an_unknown_log_is_an_error(connection):
    connection.execute("create table account (id int)")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select sluice.capture('account', 'missing')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "PQ001",
        "event log 'missing' does not exist",
    )


def test_writers_of_the_table_need_no_rights_on_the_log(connection, captured, role):
    connection.execute(f"grant insert on account to {role}")
    with connection.transaction():
        connection.execute(f"set local role {role}")
        connection.execute("insert into account values (1, 'a')")

    assert value(connection, "select count(*) from pgq.event_1_0") == 1
    connection.execute(f"revoke insert on account from {role}")
