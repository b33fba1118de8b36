from support import rows, value


def test_a_segment_is_read_with_its_log(connection, log):
    connection.execute("select pgq._create_segment(1, 7)")

    connection.execute("insert into pgq.event_1_7 (ev_type) values ('t')")
    connection.execute(
        "insert into pgq.tick_1_7 (tick_queue, tick_id, tick_event_seq) values (1, 9, 1)"
    )
    assert rows(connection, "select ev_id, ev_type from pgq.event_1") == [(1, "t")]
    assert value(connection, "select max(tick_id) from pgq.tick") == 9
    assert rows(connection, "select * from pgq._segments(1)") == [(0,), (1,), (2,), (7,)]


def test_an_event_that_is_copied_in_has_its_transaction_before_its_number(connection, log):
    default = value(
        connection,
        """select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef as d
        join pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum
        where d.adrelid = 'pgq.event_1_0'::regclass and a.attname = 'ev_id'""",
    )
    assert default.startswith("nextval(")
    assert "pg_current_xact_id()" in default
