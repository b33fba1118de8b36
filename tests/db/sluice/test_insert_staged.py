import psycopg
import pytest

from support import rows, value


def stage(connection, columns, *lines):
    names = [name.strip() for name in columns.split(",")]
    number = value(connection, "select sluice.create_stage('s', 0, %s)", names)
    for line in lines:
        connection.execute(f"insert into sluice.stage_{number} ({columns}) values ({line})")
    return number


def insert(connection, number, count, to="log"):
    return value(connection, "select sluice.insert_staged(%s, %s, %s)", to, [number], [count])


def test_events_come_in_the_order_of_the_rows_and_are_delivered(connection):
    connection.execute("select pgq.create_queue('log'), pgq.register_consumer('log', 'c')")
    number = stage(
        connection,
        "ev_type, ev_data, ev_extra4",
        "'a', '1', 'x'",
        "null, '2', null",
        "'b', null, 'y'",
    )

    assert insert(connection, number, 3) == 3
    connection.execute("select sluice.log_tick('log')")
    batch = value(connection, "select pgq.next_batch('log', 'c')")
    assert rows(connection, "select ev_type, ev_data, ev_extra4 from pgq.get_batch_events(%s)", batch) == [
        ("a", "1", "x"), (None, "2", None), ("b", None, "y"),
    ]  # fmt: skip


def test_each_row_may_name_its_log(connection):
    connection.execute("select pgq.create_queue('log'), pgq.create_queue('other')")
    number = stage(connection, "log, ev_data", "'log', '1'", "'other', '2'", "'log', '3'")

    assert insert(connection, number, 3, to=None) == 3
    assert rows(connection, "select ev_data from pgq.event_1 order by ev_id") == [("1",), ("3",)]
    assert rows(connection, "select ev_data from pgq.event_2") == [("2",)]


@pytest.mark.parametrize(
    ("to", "columns", "line", "count", "code"),
    [
        ("log", "ev_data", "'1'", 2, "55000"),
        (None, "ev_data", "'1'", 1, "22004"),
        (None, "log, ev_data", "null, '1'", 1, "22004"),
        ("log", "message", "'1'", 1, "22023"),
        ("absent", "ev_data", "'1'", 1, "PQ001"),
    ],
)
def test_invalid_event_is_refused(connection, to, columns, line, count, code):
    connection.execute("select pgq.create_queue('log')")

    with pytest.raises(psycopg.Error) as caught:
        insert(connection, stage(connection, columns, line), count, to)

    assert caught.value.sqlstate == code
    assert rows(connection, "select * from pgq.event_1") == []


def test_a_producer_of_logs_may(connection, role):
    connection.execute("select pgq.create_queue('log')")
    connection.execute(f"grant pgq_writer to {role}")
    with connection.transaction():
        connection.execute(f"set local role {role}")
        assert insert(connection, stage(connection, "ev_data", "'1'"), 1) == 1
        assert value(connection, "select sluice.drop_stages('s', 0)") == 1
