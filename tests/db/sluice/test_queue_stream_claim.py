"""sluice.queue_stream_claim in complete streams.

Also covers queue_stream_start, queue_stream_slices, queue_stream_settle and _lock_queue_stream.
"""

import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

COLUMNS = ["msg_id", "message"]


@pytest.fixture
def db(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("set timezone = 'America/New_York'")  # has days of 23 and 25 hours
    return connection


def send(connection, *numbers, queue="orders"):
    connection.execute(
        "select pgmq.send_batch(%s, %s::jsonb[])", [queue, [str(n) for n in numbers]]
    )


def start(connection, name="lake", queue="orders"):
    return rows(connection, "select * from sluice.queue_stream_start(%s, %s)", name, queue)[0]


def claim(connection, stream, from_seq, qty=100):
    found = rows(
        connection,
        "select seq, messages from sluice.queue_stream_claim(%s, %s, %s)",
        stream,
        from_seq,
        qty,
    )
    return found[0] if found else None


def read(connection, stream, from_seq, to_seq, slices=3):
    queries = rows(
        connection,
        "select query from sluice.queue_stream_slices(%s, %s, %s, %s, 1, %s) order by slice",
        stream, from_seq, to_seq, slices, COLUMNS,
    )  # fmt: skip
    return [int(message) for (query,) in queries for _, message in rows(connection, query)]


def settle(connection, stream, to_seq, archive=True):
    return value(
        connection, "select sluice.queue_stream_settle(%s, %s, %s)", stream, to_seq, archive
    )


def test_claimed_micro_batch_is_repeatable_and_exclusive_until_settled(db):
    stream, seq = start(db)
    assert (seq, claim(db, stream, 0)) == (0, None)
    send(db, *range(25))

    assert claim(db, stream, 0, 20) == (1, 20)
    assert value(
        db, "select array_agg(message::integer) from pgmq.read('orders', 30, 100)"
    ) == list(range(20, 25))
    for slices in (1, 3, 100):
        assert read(db, stream, 0, 1, slices) == list(range(20))
    # A driver that crashed before it stored its offset claims the same messages again.
    assert claim(db, stream, 0) == (1, 20)
    assert claim(db, stream, 1) is None
    send(db, 25)
    assert claim(db, stream, 1) == (2, 1)
    assert read(db, stream, 0, 2) == [*range(20), 25]
    assert read(db, stream, 1, 1) == read(db, stream, 2, 1) == []

    assert settle(db, stream, 1) == 20
    assert settle(db, stream, 1) == 0
    assert value(
        db, "select array_agg(message::integer order by msg_id) from pgmq.a_orders"
    ) == list(range(20))
    assert read(db, stream, 1, 2) == [25]
    assert start(db) == (stream, 1)
    assert settle(db, stream, 2, archive=False) == 1
    assert value(db, "select count(*) from pgmq.a_orders") == 20
    assert value(db, "select count(*) from pgmq.q_orders") == 5


def test_a_claim_counts_as_a_read_and_is_in_flight(db):
    stream, _ = start(db)
    send(db, 1)
    claim(db, stream, 0)

    assert rows(
        db,
        "select read_ct, last_read_at <= clock_timestamp(), extract(year from vt at time zone 'UTC')::integer from pgmq.q_orders",
    ) == [(1, True, 9000)]
    # Setting vt removes the message from the micro-batch.
    db.execute("select pgmq.set_vt('orders', 1, 0)")
    assert read(db, stream, 0, 1) == []
    assert value(db, "select count(*) from pgmq.read('orders', 30, 100)") == 1
    assert settle(db, stream, 1) == 0


def test_two_streams_and_a_partitioned_queue_share_nothing(db):
    db.execute("select pgmq.create_partitioned('parts', '10', '100')")
    one, other, parts = start(db)[0], start(db, "other")[0], start(db, "parts", "parts")[0]
    send(db, *range(10))
    send(db, *range(100, 150), queue="parts")

    assert [claim(db, one, 0, 6), claim(db, other, 0, 6), claim(db, parts, 0)] == [
        (1, 6),
        (1, 4),
        (1, 50),
    ]
    assert [read(db, one, 0, 1), read(db, other, 0, 1), read(db, parts, 0, 1)] == [
        [0, 1, 2, 3, 4, 5], [6, 7, 8, 9], list(range(100, 150)),
    ]  # fmt: skip
    assert [settle(db, other, 1), settle(db, parts, 1), settle(db, one, 1)] == [4, 50, 6]


def test_the_limits_of_a_queue_hold_for_a_stream(db):
    set_queue_options(db, "orders", fleet_concurrency=3)
    stream, _ = start(db)
    send(db, *range(10))

    assert claim(db, stream, 0) == (1, 3)
    assert claim(db, stream, 1) is None
    assert read(db, stream, 0, 1) == [0, 1, 2]
    settle(db, stream, 1)
    assert claim(db, stream, 1) == (2, 3)


def test_reader_positioned_before_settled_messages_gets_an_error(db):
    stream, _ = start(db)
    send(db, 1)
    claim(db, stream, 0)
    settle(db, stream, 1)

    assert settle(db, stream, 0) == 0  # repeated, it has no effect
    for call in (claim, lambda *a: read(*a, 1)):
        with pytest.raises(
            psycopg.errors.ObjectNotInPrerequisiteState, match="settled up to micro-batch 1"
        ):
            call(db, stream, 0)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="was given up"):
        claim(db, stream + 1, 0)


def test_of_two_drivers_of_one_stream_the_second_gets_what_the_first_claimed(database, db):
    stream, _ = start(db)
    send(db, *range(10))
    with database.connect(autocommit=False) as first:
        assert claim(first, stream, 0, 4) == (1, 4)
        db.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            claim(db, stream, 0, 4)
        first.commit()

    assert claim(db, stream, 0, 9) == (1, 4)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("null, 'orders'", "22004"),
        ("'s', null", "22004"),
        ("'', 'orders'", "22023"),
        ("repeat('x', 1025), 'orders'", "22023"),
        ("'s', 'absent'", "42P01"),
        ("'lake', 'another'", "22023"),
    ],
)
def test_a_name_and_a_queue_are_needed_and_a_name_belongs_to_one_queue(db, arguments, code):
    db.execute("select pgmq.create('another')")
    start(db)

    with pytest.raises(psycopg.Error) as caught:
        db.execute(f"select * from sluice.queue_stream_start({arguments})")
    assert caught.value.sqlstate == code


def test_a_reader_may_in_all_steps(db, role):
    send(db, 1)
    db.execute(f"grant sluice_reader to {role}")
    with db.transaction():
        db.execute(f"set local role {role}")
        stream, _ = start(db)
        assert claim(db, stream, 0) == (1, 1)
        assert read(db, stream, 0, 1) == [1]
        assert settle(db, stream, 1) == 1
        assert value(db, "select sluice.queue_stream_drop('lake')") == 0
