"""sluice.send_staged, with _stages, _refuse_stage and _keyed_headers."""

import psycopg
import pytest

from support import rows, value, wait_until
from support.queue_options import set_queue_options

CONTENTS = "select message, headers from pgmq.q_orders order by msg_id"
READY = "select array_agg(vt <= enqueued_at order by msg_id) from pgmq.q_orders"


@pytest.fixture
def db(connection):
    connection.execute("select pgmq.create('orders')")
    return connection


def stage(connection, columns, *lines):
    """Create a stage with rows given as SQL; return its number."""
    names = [name.strip() for name in columns.split(",")]
    number = value(connection, "select sluice.create_stage('s', 0, %s)", names)
    for line in lines:
        connection.execute(f"insert into sluice.stage_{number} ({columns}) values ({line})")
    return number


def send(connection, *stages, to="orders", counts=None):
    """Send stages with the given or their actual row counts."""
    counts = counts or [value(connection, f"select count(*) from sluice.stage_{n}") for n in stages]
    return value(connection, "select sluice.send_staged(%s, %s, %s)", to, list(stages), counts)


def test_messages_come_in_the_order_of_stages_and_rows_and_are_ready(db):
    first, second = (
        stage(db, "message", "'1'", "'2'"),
        stage(db, "message, headers", """'3', '{"a": 1}'""", "null, null"),
    )

    assert send(db, second, first) == 4
    assert rows(db, CONTENTS) == [(3, {"a": 1}), (None, None), (1, None), (2, None)]
    assert value(db, READY) == [True] * 4
    assert value(db, "select array_agg(msg_id) from pgmq.read('orders', 30, 10)") == [1, 2, 3, 4]


def test_a_delay_counts_from_the_call_and_a_time_is_taken_as_it_is(db):
    # now() is the start of the transaction; the delay counts from the call.
    delayed = stage(db, "message, delay", "'1', 60", "'2', 0", "'3', null", "'4', -5")
    timed = stage(db, "message, vt", "'5', '2100-01-01 00:00+00'", "'6', null")
    with db.transaction():
        begun = "select clock_timestamp() - now() > interval '1.5 s'"
        wait_until(lambda: value(db, begun), "the transaction to be older than a second")
        send(db, delayed, timed)
        seconds = """select round(extract(epoch from vt - clock_timestamp())) from pgmq.q_orders
            where message <> '5' order by msg_id"""
        first, *others = [int(s) for (s,) in rows(db, seconds)]
        assert first in (59, 60)
        assert all(second < -1 for second in others)  # visible from the start of the transaction
    assert value(db, READY) == [False, True, True, True, False, True]
    assert (
        value(db, "select vt = '2100-01-01 00:00+00' from pgmq.q_orders where message = '5'")
        is True
    )


def test_a_key_is_the_header_that_keeps_messages_in_order(db):
    send(
        db,
        stage(
            db,
            "message, headers, key",
            """'1', '{"a": 1}', 'k'""",
            "'2', null, 'k'",
            "'3', 'null', 'k'",
            "'4', '[1]', null",
        ),
    )

    assert rows(db, CONTENTS) == [
        (1, {"a": 1, "x-pgmq-group": "k"}),
        (2, {"x-pgmq-group": "k"}),
        (3, {"x-pgmq-group": "k"}),
        (4, [1]),
    ]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="headers must be a JSON object"):
        send(db, stage(db, "message, headers, key", "'4', '[1]', 'k'"))


def test_a_deduplication_key_sends_once_and_its_order_and_time_stay(db):
    set_queue_options(db, "orders", deduplication_window="1 hour")
    db.execute("select sluice.send('orders', '0', 'known')")
    staged = stage(
        db,
        "message, deduplication_key, vt",
        "'1', 'a', null", "'2', 'known', null", "'3', null, '2100-01-01'", "'4', 'a', null", "'5', null, null",
    )  # fmt: skip

    assert send(db, staged) == 5
    assert [message for message, _ in rows(db, CONTENTS)] == [0, 1, 5, 3]
    assert value(db, "select message from pgmq.q_orders where vt > now() + '1 year'") == 3


def test_deduplication_keys_of_a_queue_without_deduplication_are_refused(db):
    with pytest.raises(psycopg.Error) as caught:
        send(db, stage(db, "message, deduplication_key", "'1', 'a'"))

    assert caught.value.sqlstate == "QU004"


def test_each_row_may_name_its_queue_in_partitions_or_not(db):
    db.execute("select pgmq.create_partitioned('parts', '10', '100')")
    staged = stage(
        db, "message, queue", *(f"'{n}', '{'orders' if n % 2 else 'parts'}'" for n in range(40))
    )

    assert send(db, staged, to=None) == 40
    for queue, rest in (("orders", 1), ("parts", 0)):
        assert value(
            db, f"select array_agg(message::integer order by msg_id) from pgmq.q_{queue}"
        ) == list(range(rest, 40, 2))
    # The argument overrides the names in the rows.
    assert send(db, staged) == 40
    assert value(db, "select count(*) from pgmq.q_orders") == 60


@pytest.mark.parametrize(("columns", "line"), [("message", "'1'"), ("message, queue", "'1', null")])
def test_a_row_that_names_no_queue_is_refused(db, columns, line):
    with pytest.raises(psycopg.Error, match="name no queue") as caught:
        send(db, stage(db, columns, line), to=None)

    assert caught.value.sqlstate == "22004"


def test_a_stage_that_lost_rows_is_refused_and_nothing_is_sent(db):
    # As after a crash, which truncates unlogged tables.
    kept, emptied = stage(db, "message", "'1'"), stage(db, "message", "'2'")
    db.execute(f"truncate sluice.stage_{emptied}")

    with pytest.raises(
        psycopg.errors.ObjectNotInPrerequisiteState, match="has lost rows"
    ) as caught:
        send(db, kept, emptied, counts=[1, 1])
    assert caught.value.diag.message_detail == "It has 0 rows and not 1."
    assert rows(db, CONTENTS) == []

    db.execute("select sluice.drop_stages('s', 0)")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        send(db, kept, counts=[1])
    assert caught.value.diag.message_detail == "It was dropped."


def test_listeners_are_notified_once_per_stage(db):
    db.execute("select pgmq.enable_notify_insert('orders', 0)")
    db.execute('listen "pgmq.q_orders.INSERT"')
    with db.transaction():
        send(db, stage(db, "message", *(f"'{n}'" for n in range(5))))

    assert len(list(db.notifies(timeout=5, stop_after=1))) == 1
    assert list(db.notifies(timeout=0.1)) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("'orders', null, '{}'", "22004"),
        ("'orders', '{}', null", "22004"),
        ("'orders', '{1}', '{}'", "22023"),
    ],
)
def test_stages_and_counts_belong_together(db, arguments, code):
    with pytest.raises(psycopg.Error) as caught:
        db.execute(f"select sluice.send_staged({arguments})")

    assert caught.value.sqlstate == code
    assert caught.value.diag.message_hint


def test_events_are_no_messages(db):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="no column 'message'"):
        send(db, stage(db, "ev_data", "'1'"))


def test_a_writer_may_from_the_stage_to_the_end(db, role):
    db.execute(f"grant sluice_writer to {role}")
    with db.transaction():
        db.execute(f"set local role {role}")
        assert send(db, stage(db, "message, key, queue", "'1', 'a', 'orders'"), to=None) == 1
        assert value(db, "select sluice.drop_stages('s', 0)") == 1

    assert value(db, "select count(*) from pgmq.q_orders") == 1
