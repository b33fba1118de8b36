from support import rows, value


def test_every_log_whose_first_step_is_done_gets_its_second(connection):
    for name in ("a", "b", "c"):
        connection.execute("select pgq.create_queue(%s)", (name,))
    connection.execute("update pgq.queue set queue_rotation_period = '0' where queue_name <> 'c'")
    connection.execute(
        "select pgq.maint_rotate_tables_step1('a'), pgq.maint_rotate_tables_step1('b')"
    )
    before = rows(connection, "select queue_name from pgq.queue where queue_switch_step2 is null")
    assert sorted(before) == [("a",), ("b",)]

    assert value(connection, "select pgq.maint_rotate_tables_step2()") == 0

    assert value(connection, "select count(*) from pgq.queue where queue_switch_step2 is null") == 0


def test_a_log_that_is_being_changed_is_left_for_the_next_time(database, connection, log):
    connection.execute("update pgq.queue set queue_rotation_period = '0'")
    connection.execute("select pgq.maint_rotate_tables_step1('changes')")
    connection.execute("set lock_timeout = '5 s'")
    with database.connect(autocommit=False) as other:
        other.execute("update pgq.queue set queue_ticker_max_count = 3")

        assert value(connection, "select pgq.maint_rotate_tables_step2()") == 0
        assert value(connection, "select queue_switch_step2 from pgq.queue") is None
