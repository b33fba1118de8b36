"""sluice.create_stage, with _caller and _require_sink."""

import psycopg
import pytest

from support import rows, value


def test_a_stage_is_a_table_with_the_columns_asked_for(connection):
    first = value(connection, "select sluice.create_stage('s', 0, array['message', 'vt', 'delay'])")
    second = value(connection, "select sluice.create_stage('s', 0, array['ev_data'])")

    assert first != second
    columns = """select a.attname::text, format_type(a.atttypid, null), c.relpersistence::text
        from pg_attribute as a join pg_class as c on c.oid = a.attrelid
        where a.attrelid = format('sluice.stage_%%s', %s::bigint)::regclass and a.attnum > 0 order by a.attnum"""
    assert rows(connection, columns, first) == [
        ("message", "jsonb", "u"),
        ("vt", "timestamp with time zone", "u"),
        ("delay", "integer", "u"),
    ]
    assert rows(connection, columns, second) == [("ev_data", "text", "u")]


def test_stage_is_written_by_its_creator_and_read_by_no_other_role(connection, role):
    connection.execute(f"grant sluice_writer to {role}")
    with connection.transaction():
        connection.execute(f"set local role {role}")
        stage = value(connection, "select sluice.create_stage('s', 0, array['message'])")
        connection.execute(f"insert into sluice.stage_{stage} values ('1')")
        assert value(connection, f"select count(*) from sluice.stage_{stage}") == 1
        assert value(connection, "select made_by::text from sluice.stage") == role
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(f"delete from sluice.stage_{stage}")
    with connection.transaction():
        connection.execute("set local role sluice_writer")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(f"select * from sluice.stage_{stage}")
        # It cannot drop the stage either.
        assert value(connection, "select sluice.drop_stages('s', 0)") == 0
    with connection.transaction():
        connection.execute(f"set local role {role}")
        assert value(connection, "select sluice.drop_stages('s', 0)") == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("array['message', 'msg_id']", "a stage has no column 'msg_id'"),
        (
            "array['message); drop table x; --']",
            "a stage has no column 'message); drop table x; --'",
        ),
        ("'{}'", "a stage needs columns"),
        ("null", "a stage needs columns"),
        ("array[null]::text[]", "a stage needs columns"),
    ],
)
def test_columns_that_no_row_has_are_refused(connection, columns, message):
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        connection.execute(f"select sluice.create_stage('s', 0, {columns})")

    assert caught.value.diag.message_primary == message
    assert caught.value.diag.message_hint


def test_stages_do_not_change_what_the_schema_is_verified_by(connection):
    from pgsluice import schema

    before = schema.fingerprint(connection)
    connection.execute("select sluice.create_stage('s', 0, array['message'])")

    assert schema.fingerprint(connection) == before
