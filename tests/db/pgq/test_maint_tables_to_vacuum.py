from support import replace_in, rows

CALL = "select * from pgq.maint_tables_to_vacuum()"


def test_none_where_autovacuum_is_on(connection):
    assert rows(connection, CALL) == []


def test_lists_changing_tables_with_autovacuum_off(connection):
    replace_in(
        connection,
        "pgq.maint_tables_to_vacuum()",
        "current_setting('autovacuum')::boolean",
        "false",
    )

    tables = [name for (name,) in rows(connection, CALL)]

    assert tables[0] == "pgq.queue"
    for name in tables:
        connection.execute(f"vacuum {name}")
