import psycopg
import pytest

from support import replace_in, rows, value


@pytest.fixture
def five(connection, queue):
    connection.execute(
        "select pgmq.send_batch('orders', (select array_agg(jsonb_build_object('n', n) order by n) from generate_series(1, 5) as n))"
    )


def ids(connection, call):
    return [row[0] for row in rows(connection, f"select * from {call}")]


def test_the_columns_are_those_of_message_record_in_its_order(connection, five):
    cursor = connection.execute("select * from pgmq.read('orders', 30, 1)")

    assert [column.name for column in cursor.description] == [
        "msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers",
    ]  # fmt: skip


def test_read_takes_the_lowest_ids_and_hides_them(connection, five):
    assert ids(connection, "pgmq.read('orders', 30, 2)") == [1, 2]
    assert ids(connection, "pgmq.read('orders', 30, 10)") == [3, 4, 5]
    assert ids(connection, "pgmq.read('orders', 30, 10)") == []


def test_a_claim_counts_and_is_dated(connection, five):
    (row,) = rows(
        connection,
        "select read_ct, vt - last_read_at, clock_timestamp() - last_read_at < '5 s' from pgmq.read('orders', 30, 1)",
    )

    assert (row[0], row[1].total_seconds(), row[2]) == (1, 30.0, True)


def test_a_message_comes_back_when_its_timeout_is_over(connection, five):
    assert ids(connection, "pgmq.read('orders', 0, 1)") == [1]

    assert rows(connection, "select msg_id, read_ct from pgmq.read('orders', 30, 1)") == [(1, 2)]


def test_rows_come_in_id_order_whatever_the_order_on_disk(connection, five):
    # An update moves a row to the end of the table, so rows in table order would be out of order.
    connection.execute("update pgmq.q_orders set headers = '{}' where msg_id in (2, 1)")

    assert ids(connection, "pgmq.read('orders', 30, 5)") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("conditional", "wanted"),
    [
        ("'{\"n\": 4}'", [4]),
        ("'{}'", [1, 2, 3, 4, 5]),
        ("null", [1, 2, 3, 4, 5]),
        ("'{\"n\": 9}'", []),
        ("'[]'", []),
    ],
)
def test_conditional_keeps_the_messages_that_contain_it(connection, five, conditional, wanted):
    assert ids(connection, f"pgmq.read('orders', 30, 10, {conditional}::jsonb)") == wanted


@pytest.mark.parametrize(
    ("qty", "wanted"), [("0", []), ("null", [1, 2, 3, 4, 5]), ("3", [1, 2, 3])]
)
def test_qty_bounds_the_claim_and_null_means_all(connection, five, qty, wanted):
    assert ids(connection, f"pgmq.read('orders', 30, {qty})") == wanted


def test_a_negative_timeout_leaves_the_message_visible(connection, five):
    assert ids(connection, "pgmq.read('orders', -5, 1)") == [1]
    assert ids(connection, "pgmq.read('orders', 30, 1)") == [1]


@pytest.mark.parametrize(
    ("call", "sqlstate", "message"),
    [
        ("pgmq.read('orders', 30, -1)", "2201W", "LIMIT must not be negative"),
        ("pgmq.read('orders', null, 1)", "23502", None),
        ("pgmq.read('missing', 30, 1)", "42P01", 'relation "pgmq.q_missing" does not exist'),
    ],
)
def test_bad_calls_fail_as_they_do_in_pgmq_and_claim_nothing(
    connection, five, call, sqlstate, message
):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select * from {call}")

    assert caught.value.sqlstate == sqlstate
    assert message is None or caught.value.diag.message_primary == message
    assert value(connection, "select sum(read_ct) from pgmq.q_orders") == 0


def check_two_readers(database, qty, wanted):
    with database.connect(autocommit=False) as first, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")
        assert ids(first, f"pgmq.read('orders', 30, {qty})") == wanted[:qty]
        assert ids(second, f"pgmq.read('orders', 30, {qty})") == wanted[qty:]


@pytest.mark.parametrize(("qty", "wanted"), [(1, [1, 2]), (2, [1, 2, 3, 4])])
def test_two_readers_never_get_the_same_message_and_never_wait(
    database, connection, five, qty, wanted
):
    check_two_readers(database, qty, wanted)


@pytest.mark.parametrize(("qty", "wanted"), [(1, [1, 2]), (2, [1, 2, 3, 4])])
@pytest.mark.parametrize("lock", ["for update", ""])
def test_two_readers_that_do_not_skip_locked_messages_wait_for_each_other(
    database, connection, five, qty, wanted, lock
):
    end = "\n            $ready$;"
    replace_in(
        connection,
        "pgmq._outdated_readers(text[])",
        f"for update skip locked{end}",
        f"{lock}{end}",
    )
    connection.execute("select pgmq._create_reader('orders')")

    with pytest.raises(psycopg.errors.LockNotAvailable):
        check_two_readers(database, qty, wanted)


def test_a_claim_that_is_rolled_back_leaves_the_message_visible(connection, five):
    with connection.transaction(force_rollback=True):
        assert ids(connection, "pgmq.read('orders', 30, 1)") == [1]

    assert rows(connection, "select msg_id, read_ct from pgmq.read('orders', 30, 1)") == [(1, 1)]


def test_read_ct_stays_at_the_end_of_its_range_instead_of_failing_every_read(connection, five):
    connection.execute("update pgmq.q_orders set read_ct = 2147483647 where msg_id = 1")

    assert rows(connection, "select msg_id, read_ct from pgmq.read('orders', 30, 2)") == [
        (1, 2147483647),
        (2, 1),
    ]


def test_an_update_of_vt_by_hand_is_honoured(connection, five):
    connection.execute(
        "update pgmq.q_orders set vt = clock_timestamp() + interval '1 h' where msg_id < 4"
    )

    assert ids(connection, "pgmq.read('orders', 30, 10)") == [4, 5]
