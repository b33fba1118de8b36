import psycopg
import pytest

from support import replace_in, rows, value

MESSAGES = "array['{\"n\": 1}', null, '{\"n\": 3}']::jsonb[]"
HEADERS = "array['{\"h\": 1}', '{\"h\": 2}', null]::jsonb[]"


@pytest.mark.parametrize(
    ("arguments", "headers", "delay_s"),
    [
        (MESSAGES, False, 0),
        (f"{MESSAGES}, {HEADERS}", True, 0),
        (f"{MESSAGES}, 60", False, 60),
        (f"{MESSAGES}, clock_timestamp() + interval '60 s'", False, 60),
        (f"{MESSAGES}, {HEADERS}, 60", True, 60),
        (f"{MESSAGES}, {HEADERS}, clock_timestamp() + interval '60 s'", True, 60),
    ],
)
def test_each_overload_stores_all_in_the_order_of_the_array(
    connection, queue, arguments, headers, delay_s
):
    cursor = connection.execute(f"select * from pgmq.send_batch('orders', {arguments})")

    assert [column.name for column in cursor.description] == ["send_batch"]
    assert cursor.fetchall() == [(1,), (2,), (3,)]
    stored = rows(
        connection,
        "select msg_id, message, headers, round(extract(epoch from vt - clock_timestamp())) from pgmq.q_orders order by 1",
    )
    wanted = [{"h": 1}, {"h": 2}, None] if headers else [None] * 3
    assert stored == [
        (1, {"n": 1}, wanted[0], delay_s),
        (2, None, wanted[1], delay_s),
        (3, {"n": 3}, wanted[2], delay_s),
    ]


def check_order(connection):
    ids = rows(
        connection,
        "select pgmq.send_batch('orders', (select array_agg(to_jsonb(n) order by n desc) from generate_series(1, 10000) as n))",
    )

    assert ids == [(n,) for n in range(1, 10_001)]
    assert (
        value(connection, "select bool_and(message::integer = 10001 - msg_id) from pgmq.q_orders")
        is True
    )


def test_ten_thousand_messages_keep_their_order(connection, queue):
    check_order(connection)


def check_refused(connection, arguments, message):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select pgmq.send_batch('orders', {arguments})")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == ("P0001", message)
    assert value(connection, "select count(*) from pgmq.q_orders") == 0


UNEQUAL = (
    f"{MESSAGES}, array['1']::jsonb[]",
    "headers array length (1) must match msgs array length (3)",
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("null::jsonb[]", "msgs cannot be NULL or empty"),
        ("'{}'::jsonb[]", "msgs cannot be NULL or empty"),
        UNEQUAL,
        (
            f"{MESSAGES}, '{{}}'::jsonb[]",
            "headers array length (0) must match msgs array length (3)",
        ),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_whole(connection, queue, arguments, message):
    check_refused(connection, arguments, message)


def test_rows_that_are_sorted_otherwise_are_found(connection, queue):
    replace_in(
        connection,
        "pgmq.send_batch(text,jsonb[])",
        "select $1, unnest($2), null returning",
        "select $1, m, null from unnest($2) as m order by m returning",
    )

    with pytest.raises(AssertionError):
        check_order(connection)


def test_headers_are_missing_when_their_number_is_not_compared(connection, queue):
    replace_in(
        connection,
        "pgmq.send_batch(text,jsonb[],jsonb[])",
        "or headers is not null and array_length(headers, 1) is distinct from "
        "array_length(msgs, 1)",
        "",
    )

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_refused(connection, *UNEQUAL)
    assert value(connection, "select count(*) from pgmq.q_orders where headers is null") == 2
