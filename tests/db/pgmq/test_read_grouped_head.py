import psycopg
import pytest

from support import rows, value


@pytest.fixture(params=[False, True], ids=["no index", "index"])
def groups(request, connection, queue):
    """Messages 1 to 6 of groups a, b, a, c, b, a."""
    if request.param:
        connection.execute("select pgmq.create_fifo_index('orders')")
    connection.execute(
        """select pgmq.send_batch('orders', array_agg('{}'::jsonb), array_agg(jsonb_build_object('x-pgmq-group', g)))
        from unnest('{a,b,a,c,b,a}'::text[]) as g"""
    )


def ids(connection, call):
    return [
        row[0]
        for row in rows(connection, f"select * from pgmq.read_grouped_head('orders', {call})")
    ]


def test_the_columns_are_those_of_message_record_in_its_order(connection, groups):
    cursor = connection.execute("select * from pgmq.read_grouped_head('orders', 30, 1)")

    assert [column.name for column in cursor.description] == [
        "msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers",
    ]  # fmt: skip


@pytest.mark.parametrize(("qty", "wanted"), [(1, [1]), (2, [1, 2]), (9, [1, 2, 4])])
def test_each_group_gives_one_and_rows_are_in_id_order(connection, groups, qty, wanted):
    assert ids(connection, f"30, {qty}") == wanted


def test_the_next_of_a_group_comes_when_the_one_before_is_gone(connection, groups):
    assert ids(connection, "30, 9") == [1, 2, 4]
    assert ids(connection, "30, 9") == []
    connection.execute("select pgmq.delete('orders', 1)")
    assert ids(connection, "30, 9") == [3]


def test_a_claim_counts_and_is_dated(connection, groups):
    (row,) = rows(
        connection,
        "select read_ct, vt - last_read_at, clock_timestamp() - last_read_at < '5 s' from pgmq.read_grouped_head('orders', 30, 1)",
    )

    assert (row[0], row[1].total_seconds(), row[2]) == (1, 30.0, True)


def test_a_group_whose_head_is_delayed_is_passed_over(connection, groups):
    connection.execute("select pgmq.set_vt('orders', 1, 60)")

    assert not {1, 3, 6} & set(ids(connection, "30, 10"))


def test_a_run_ends_before_a_message_in_flight_when_the_head_was_released(connection, groups):
    connection.execute("select pgmq.read('orders', 60, 3)")
    connection.execute("select pgmq.set_vt('orders', 1, 0)")

    assert [i for i in ids(connection, "30, 10") if i in (1, 3, 6)] == [1]


def test_a_message_that_commits_late_waits_for_the_later_one_in_flight(database, connection, queue):
    with database.connect(autocommit=False) as late:
        late.execute("select pgmq.send('orders', '1'::jsonb)")
        connection.execute("select pgmq.send('orders', '2'::jsonb)")
        assert ids(connection, "30, 1") == [2]
        late.commit()

        assert ids(connection, "30, 1") == []

        connection.execute("select pgmq.delete('orders', 2)")
        assert ids(connection, "30, 1") == [1]


def test_a_group_that_another_transaction_reads_is_passed_over_without_waiting(
    database, connection, groups
):
    with database.connect(autocommit=False) as first, database.connect() as second:
        second.execute("set lock_timeout = '100ms'")
        assert ids(first, "30, 1") == [1]

        assert ids(second, "30, 1") == [2]
        assert ids(second, "30, 1") == [4]
        assert ids(second, "30, 1") == []
        first.rollback()
        assert ids(second, "30, 1") == [1]


def test_reading_one_queue_locks_nothing_of_another(database, connection, groups):
    connection.execute("select pgmq.create('other')")
    connection.execute("select pgmq.send('other', '1'::jsonb, '{\"x-pgmq-group\": \"a\"}'::jsonb)")
    with database.connect(autocommit=False) as first:
        assert ids(first, "30, 1") == [1]

        assert rows(connection, "select msg_id from pgmq.read_grouped_head('other', 30, 1)") == [
            (1,)
        ]


@pytest.mark.parametrize(("qty", "wanted"), [("0", []), ("null", [1, 2, 4])])
def test_qty_zero_and_null(connection, groups, qty, wanted):
    assert ids(connection, f"30, {qty}") == wanted


@pytest.mark.parametrize(
    ("call", "sqlstate", "message"),
    [
        ("'orders', 30, -1", "2201W", "LIMIT must not be negative"),
        ("'orders', null, 1", "23502", None),
        ("'missing', 30, 1", "42P01", 'relation "pgmq.q_missing" does not exist'),
    ],
)
def test_bad_calls_fail_as_they_do_in_pgmq_and_claim_nothing(
    connection, groups, call, sqlstate, message
):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select * from pgmq.read_grouped_head({call})")

    assert caught.value.sqlstate == sqlstate
    assert message is None or caught.value.diag.message_primary == message
    assert value(connection, "select sum(read_ct) from pgmq.q_orders") == 0


def test_read_ct_stays_at_the_end_of_its_range(connection, groups):
    connection.execute("update pgmq.q_orders set read_ct = 2147483647 where msg_id = 1")

    assert rows(
        connection, "select msg_id, read_ct from pgmq.read_grouped_head('orders', 30, 1)"
    ) == [(1, 2147483647)]
