from support import rows


def operations(connection):
    return rows(connection, "select func_name, func_arg from pgq.maint_operations()")


def test_a_log_that_is_due_is_to_be_rotated(connection):
    connection.execute("select pgq.create_queue('b'), pgq.create_queue('a')")
    assert operations(connection) == [("pgq.maint_rotate_tables_step2", None)]

    connection.execute("update pgq.queue set queue_rotation_period = '0'")

    assert operations(connection) == [
        ("pgq.maint_rotate_tables_step1", "a"),
        ("pgq.maint_rotate_tables_step1", "b"),
        ("pgq.maint_rotate_tables_step2", None),
    ]


def test_extra_functions_of_a_log_come_in_their_order(connection, log):
    connection.execute("create schema mine")
    for name in ("first", "second"):
        connection.execute(f"create function mine.{name}(text) returns void language sql as ''")
    connection.execute(
        "update pgq.queue set queue_extra_maint = '{mine.second,mine.missing,mine.first}'"
    )

    assert operations(connection)[1:] == [
        ("mine.second", "changes"),
        ("mine.first", "changes"),
    ]


def test_only_administrators_may_name_functions_that_a_daemon_runs(connection, log):
    allowed = rows(
        connection,
        """select r.rolname from pg_roles as r
        where has_column_privilege(r.rolname, 'pgq.queue', 'queue_extra_maint', 'update')
          and r.rolname ~ '^(pgq|sluice)_' order by 1""",
    )
    assert allowed == [("pgq_admin",), ("sluice_admin",), ("sluice_owner",)]
