import psycopg
import pytest

from support import rows, value


@pytest.fixture
def bound(connection):
    for name, patterns in (("second", ["a.*", "#"]), ("first", ["#"])):
        connection.execute("select pgmq.create(%s)", (name,))
        for pattern in patterns:
            connection.execute("select pgmq.bind_topic(%s, %s)", (pattern, name))


def test_each_queue_gets_all_messages_in_order_and_queues_come_by_name(connection, bound):
    connection.execute("select pgmq.send('first', '0'::jsonb)")
    batch = "array['10', '20', '30']::jsonb[]"

    cursor = connection.execute(f"select * from pgmq.send_batch_topic('a.b', {batch})")

    assert [column.name for column in cursor.description] == ["queue_name", "msg_id"]
    assert cursor.fetchall() == [
        ("first", 2), ("first", 3), ("first", 4), ("second", 1), ("second", 2), ("second", 3),
    ]  # fmt: skip
    assert rows(connection, "select message from pgmq.read('second', 30, 9)") == [
        (10,),
        (20,),
        (30,),
    ]


HEADERS = "array['{\"h\": 1}', null]::jsonb[]"


@pytest.mark.parametrize(
    ("more", "headers", "low_s", "high_s"),
    [
        ("", [None, None], -30, 0),
        (f", {HEADERS}", [{"h": 1}, None], -30, 0),
        (", 60", [None, None], 30, 60),
        (", -60", [None, None], -90, -60),
        (", clock_timestamp() + interval '60 s'", [None, None], 30, 60),
        (f", {HEADERS}, 60", [{"h": 1}, None], 30, 60),
        (f", {HEADERS}, clock_timestamp() + interval '60 s'", [{"h": 1}, None], 30, 60),
    ],
)
def test_every_form_stores_what_it_names(connection, bound, more, headers, low_s, high_s):
    batch = "array['1', '2']::jsonb[]"

    connection.execute(f"select pgmq.send_batch_topic('x', {batch}{more})")

    for name in ("first", "second"):
        stored = rows(connection, f"select message, headers from pgmq.q_{name} order by msg_id")
        assert stored == [(1, headers[0]), (2, headers[1])]
        visible = f"select bool_and(extract(epoch from vt - clock_timestamp()) between %s and %s) from pgmq.q_{name}"
        assert value(connection, visible, low_s, high_s) is True


def test_unmatched_routing_key_sends_no_message(connection):
    assert rows(connection, "select * from pgmq.send_batch_topic('x', array['1']::jsonb[])") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'a..b', null::jsonb[]", "routing_key cannot contain consecutive dots. Got: a..b"),
        ("'a', null::jsonb[]", "msgs cannot be NULL or empty"),
        ("'a', '{}'::jsonb[], '{}'::jsonb[]", "msgs cannot be NULL or empty"),
        (
            "'a', array['1', '2']::jsonb[], array['1']::jsonb[]",
            "headers array length (1) must match msgs array length (2)",
        ),
    ],
)
@pytest.mark.parametrize("is_bound", [True, False])
def test_invalid_arguments_are_refused_with_or_without_bindings(
    connection, bound, arguments, message, is_bound
):
    # _validate_batch_params runs before the bindings are read.
    if not is_bound:
        connection.execute("delete from pgmq.topic_bindings")

    with pytest.raises(psycopg.errors.RaiseException) as caught:
        connection.execute(f"select * from pgmq.send_batch_topic({arguments})")

    assert caught.value.diag.message_primary == message
    assert caught.value.diag.message_hint
    assert value(connection, "select count(*) from pgmq.q_first") == 0


def test_it_goes_to_all_queues_or_to_none(connection, bound):
    connection.execute("drop table pgmq.q_second")

    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select * from pgmq.send_batch_topic('x', array['1']::jsonb[])")

    assert value(connection, "select count(*) from pgmq.q_first") == 0
