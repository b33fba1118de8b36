"""sluice.claim_messages, with _claim_limited, _capacity, _in_flight and _lock_limits.

test__pick_by_key.py covers keys, test__pick_by_priority.py priorities.
"""

import psycopg
import pytest

from support import rows, value, wait_until
from support.queue_options import set_queue_options

CLAIM = "select msg_id from sluice.claim_messages('q', 30, %s)"


@pytest.fixture
def queue(connection):
    """The queue `q` with the messages 1 to 20."""
    connection.execute("select pgmq.create('q')")
    connection.execute(
        "select pgmq.send_batch('q', array_agg(to_jsonb(n))) from generate_series(1, 20) as n"
    )
    return connection


def claim(connection, qty=1):
    return [msg_id for (msg_id,) in rows(connection, CLAIM, qty)]


def test_without_limits_it_is_read(queue):
    columns = "msg_id, read_ct, enqueued_at, vt > now() + interval '25 s', last_read_at is not null, message, headers"

    claimed = rows(queue, f"select {columns} from sluice.claim_messages('Q', 30, 2, 'worker 1')")
    read = rows(queue, f"select {columns} from pgmq.read('q', 30, 2)")

    assert [row[0] for row in claimed + read] == [1, 2, 3, 4]
    assert {row[1:5] for row in claimed} == {row[1:5] for row in read}
    with pytest.raises(psycopg.errors.UndefinedTable):
        queue.execute("select sluice.claim_messages('missing', 30, 1)")


@pytest.mark.slow
def test_without_limits_it_touches_three_pages_more_than_read(large, buffers):
    """The pages belong to a small table and its index, which have a row of another queue."""
    large.execute("select pgmq.create('other')")
    set_queue_options(large, "other", fleet_concurrency=1)

    read = buffers("select * from pgmq.read('large', 0, 1)")
    claimed = buffers("select * from sluice.claim_messages('large', 0, 1)")

    assert claimed <= read + 3


def test_no_more_are_in_flight_than_fleet_concurrency(queue):
    set_queue_options(queue, "q", fleet_concurrency=3)

    assert claim(queue, 2) == [1, 2]
    assert claim(queue, 9) == [3]
    assert claim(queue) == []


@pytest.mark.parametrize(
    "settle",
    [
        "select sluice.delete('q', 1, 1)",
        "select sluice.archive('q', 1, 1)",
        "select sluice.reject('q', 1, 1, 'bad')",
        "select sluice.release('q', 1, 1, 600)",
        "select sluice.release('q', array[1], array[1], 600)",
    ],
)
def test_settled_or_released_messages_free_the_limit(queue, settle):
    set_queue_options(queue, "q", fleet_concurrency=2)
    assert claim(queue, 9) == [1, 2]

    queue.execute(settle)

    assert claim(queue, 9) == [3]


def test_expired_message_frees_its_own_slot(queue):
    set_queue_options(queue, "q", fleet_concurrency=2)
    assert claim(queue, 9) == [1, 2]

    queue.execute("select pgmq.set_vt('q', 2, 0)")

    assert claim(queue, 9) == [2]
    assert claim(queue, 9) == []


def test_delayed_message_is_not_in_flight_and_a_read_one_is(queue):
    set_queue_options(queue, "q", fleet_concurrency=3)
    queue.execute("select pgmq.send('q', '0'::jsonb, 600) from generate_series(1, 9)")
    assert rows(queue, "select msg_id from pgmq.read('q', 30, 2)") == [(1,), (2,)]

    assert claim(queue, 9) == [3]

    # pgmq.read ignores the limits.
    assert rows(queue, "select msg_id from pgmq.read('q', 30, 1)") == [(4,)]
    assert claim(queue, 9) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statistics", "limits"),
    [
        ("none", {"fleet_concurrency": 50}),
        ("from when all were in flight", {"fleet_concurrency": 50}),
        ("of a time when nothing was", {"fleet_concurrency": 50}),
        ("of a time when nothing was", {"key_concurrency": 50}),
        ("of a time when nothing was", {"when_waiting": "skip"}),
        ("of a time when nothing was", {"when_waiting": "block"}),
    ],
)
def test_delayed_or_retrying_message_uses_no_limit(connection, buffers, statistics, limits):
    """50,000 messages of one key: half are delayed, half wait for a retry.

    With block all are delayed, as a retry would block its key.
    """
    connection.execute("select pgmq.create('q')")
    connection.execute("alter table pgmq.q_q set (autovacuum_enabled = off)")
    set_queue_options(connection, "q", **limits)
    if statistics != "none":
        connection.execute("select pgmq.send('q', '1'::jsonb) from generate_series(1, 1000)")
        if "nothing" not in statistics:
            connection.execute("select pgmq.read('q', 600, 1000)")
        connection.execute("analyze pgmq.q_q")
        connection.execute("delete from pgmq.q_q")
        connection.execute("vacuum pgmq.q_q")
    connection.execute(
        "insert into pgmq.q_q (vt, read_ct, message, headers) "
        "select now() + interval '1 hour', case when %s then 0 else n % 2 end, '1', '{\"x-pgmq-group\": \"k\"}' "
        "from generate_series(1, 50000) as n".replace("% 2", "%% 2"),
        ("block" in limits.values(),),
    )
    connection.execute(
        "select pgmq.send('q', '1'::jsonb, '{\"x-pgmq-group\": \"k\"}'::jsonb) from generate_series(1, 60)"
    )
    assert len(claim(connection, 40)) in (1, 40)

    assert buffers("select * from sluice.claim_messages('q', 30, 1)") < 500


def test_no_more_begin_in_any_interval_than_the_rate(queue):
    set_queue_options(queue, "q", rate=5, rate_interval="1 hour")
    assert claim(queue, 2) == [1, 2]
    assert claim(queue, 2) == [3, 4]
    assert claim(queue, 2) == [5]
    assert claim(queue, 2) == []

    # Simulate that the first claim was an hour ago, so that two more may start.
    queue.execute(
        "update sluice.queue_start set started_at = started_at - interval '1 hour' where before = 0"
    )
    assert claim(queue, 9) == [6, 7]
    assert claim(queue, 9) == []

    queue.execute("update sluice.queue_start set started_at = started_at - interval '1 hour'")
    assert claim(queue, 9) == [8, 9, 10, 11, 12]


def test_a_claim_that_is_rolled_back_is_no_start(queue):
    set_queue_options(queue, "q", rate=5, rate_interval="1 hour")
    with queue.transaction(force_rollback=True):
        assert claim(queue, 9) == [1, 2, 3, 4, 5]

    assert claim(queue, 3) == [1, 2, 3]
    assert claim(queue, 9) == [4, 5]


def test_a_clock_that_is_set_back_stops_nothing(queue):
    """Starts recorded in the future are removed if they are more than an interval ahead."""
    set_queue_options(queue, "q", rate=5, rate_interval="1 minute")
    assert claim(queue, 5) == [1, 2, 3, 4, 5]
    queue.execute("update sluice.queue_start set started_at = started_at + interval '30 s'")
    assert claim(queue, 5) == []

    queue.execute("update sluice.queue_start set started_at = started_at + interval '1 hour'")

    assert claim(queue, 9) == [6, 7, 8, 9, 10]
    assert claim(queue, 9) == []


def test_all_limits_hold_at_once(queue):
    queue.execute("update pgmq.q_q set headers = jsonb_build_object('x-pgmq-group', msg_id % 3)")
    set_queue_options(
        queue, "q", fleet_concurrency=4, key_concurrency=2, rate=5, rate_interval="1 hour"
    )
    assert len(claim(queue, 9)) == 4
    queue.execute("delete from pgmq.q_q where read_ct > 0")
    assert len(claim(queue, 9)) == 1
    assert claim(queue, 9) == []


def test_a_snapshot_from_before_the_lock_is_refused(queue):
    set_queue_options(queue, "q", fleet_concurrency=3)
    with queue.transaction():
        queue.execute("set transaction isolation level repeatable read")
        with pytest.raises(psycopg.errors.ActiveSqlTransaction, match="repeatable read"):
            claim(queue)


@pytest.mark.slow
def test_a_claim_in_a_transaction_that_stays_open_is_named(database):
    with database.connect() as connection, database.connect(autocommit=False) as open_one:
        connection.execute("select pgmq.create('q')")
        set_queue_options(connection, "q", fleet_concurrency=3)
        open_one.execute("select sluice.claim_messages('q', 30, 1)")

        with pytest.raises(psycopg.errors.LockNotAvailable) as caught:
            claim(connection)

        assert str(open_one.info.backend_pid) in caught.value.diag.message_detail
        assert "'q'" in caught.value.diag.message_primary


def test_limit_is_counted_after_the_lock_is_acquired(database):
    """So it includes the messages that the previous holder of the lock has claimed."""
    with database.connect() as connection, database.connect(autocommit=False) as first:
        connection.execute("select pgmq.create('q')")
        set_queue_options(connection, "q", fleet_concurrency=3)
        connection.execute("select pgmq.send_batch('q', '{1,2,3,4}')")
        assert claim(first, 2) == [1, 2]
        with database.connect() as second:
            second.pgconn.send_query(b"select msg_id from sluice.claim_messages('q', 30, 9)")
            wait_until(
                lambda: (
                    value(
                        connection,
                        "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'",
                        second.info.backend_pid,
                    )
                    == 1
                ),
                "the second claim to wait",
            )
            first.commit()
            result = second.pgconn.get_result()
            assert [result.get_value(n, 0) for n in range(result.ntuples)] == [b"3"]
            assert second.pgconn.get_result() is None


def test_a_negative_quantity_is_refused_and_none_claims_nothing(queue):
    set_queue_options(queue, "q", fleet_concurrency=3)

    with pytest.raises(psycopg.errors.InvalidRowCountInLimitClause):
        claim(queue, -1)
    assert claim(queue, 0) == []


def test_a_reader_claims_and_others_do_not(queue, as_member):
    set_queue_options(queue, "q", fleet_concurrency=3, rate=9)
    query = "select msg_id from sluice.claim_messages('q', 30, 1)"

    assert as_member("sluice_reader", query) == [(1,)]
    assert as_member("sluice_admin", query) == [(1,)]
    for member_of in ("sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)


def test_a_partitioned_queue_has_limits_too(connection):
    connection.execute("select pgmq.create_partitioned('q', '10', '1000')")
    set_queue_options(connection, "q", fleet_concurrency=5, key_concurrency=2)
    connection.execute(
        "select pgmq.send_batch('q', array_agg(to_jsonb(n)), array_agg(jsonb_build_object('x-pgmq-group', n % 3))) "
        "from generate_series(1, 40) as n"
    )

    assert claim(connection, 4) == [1, 2, 3, 4]
    assert claim(connection, 9) == [5]
    assert claim(connection, 9) == []
