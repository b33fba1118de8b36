import psycopg
import pytest

from support import rows, value

COLUMNS = [
    "segment",
    "is_current",
    "event_bytes",
    "first_tick",
    "last_tick",
    "consumers",
    "reason",
]


def test_segments_with_what_keeps_them(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute("update pgq.queue set queue_rotation_period = '0'")
    for consumer in ("lake", "bill"):
        connection.execute("select pgq.register_consumer('changes', %s)", (consumer,))
    connection.execute("select pgq.insert_event('changes', 't', 'd')")
    connection.execute("select sluice.log_tick('changes')")
    connection.execute("select * from sluice.rotate()")

    cursor = connection.execute("select * from sluice.list_segments('changes')")

    assert [c.name for c in cursor.description] == COLUMNS
    listed = cursor.fetchall()
    assert [row[:2] + row[3:] for row in listed] == [
        (0, False, 1, 1, ["bill", "lake"], "not yet read by bill, lake"),
        (1, True, 2, 2, ["bill", "lake"], "events go here"),
        (2, False, None, None, None, None),
    ]
    assert [row[2] for row in listed] == [
        value(connection, "select pg_total_relation_size(%s)", f"pgq.event_1_{n}") for n in range(3)
    ]


def test_an_unknown_log_is_an_error(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from sluice.list_segments('missing')")
    assert caught.value.sqlstate == "PQ001"


def test_a_reader_may_look(connection, role):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(f"grant sluice_reader to {role}; set role {role}")

    assert len(rows(connection, "select * from sluice.list_segments('changes')")) == 3
