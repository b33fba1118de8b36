import psycopg
import pytest

from support import rows, value

OVERLOADS = [
    ("'{\"n\": 1}'::jsonb", None, 0),
    ("'{\"n\": 1}'::jsonb, '{\"h\": 2}'::jsonb", {"h": 2}, 0),
    ("'{\"n\": 1}'::jsonb, 60", None, 60),
    ("'{\"n\": 1}'::jsonb, clock_timestamp() + interval '60 s'", None, 60),
    ("'{\"n\": 1}'::jsonb, '{\"h\": 2}'::jsonb, 60", {"h": 2}, 60),
    ("'{\"n\": 1}'::jsonb, '{\"h\": 2}'::jsonb, clock_timestamp() + interval '60 s'", {"h": 2}, 60),
]


@pytest.mark.parametrize(("arguments", "headers", "delay_s"), OVERLOADS)
def test_each_overload_stores_the_message_its_headers_and_its_time(
    connection, queue, arguments, headers, delay_s
):
    cursor = connection.execute(f"select * from pgmq.send('orders', {arguments})")

    assert [column.name for column in cursor.description] == ["send"]
    assert cursor.fetchall() == [(1,)]
    stored = rows(
        connection,
        "select message, headers, read_ct, last_read_at, round(extract(epoch from vt - clock_timestamp())) from pgmq.q_orders",
    )
    assert stored == [({"n": 1}, headers, 0, None, delay_s)]


def test_named_arguments_are_those_of_pgmq(connection, queue):
    call = "select pgmq.send(queue_name => 'orders', msg => '1'::jsonb, headers => '{}'::jsonb, delay => 5)"

    assert value(connection, call) == 1


@pytest.mark.slow
def test_a_delay_counts_from_the_call_and_not_from_the_start_of_the_transaction(connection, queue):
    with connection.transaction():
        connection.execute("select pg_sleep(1.1)")
        connection.execute("select pgmq.send('orders', '{}'::jsonb, 1)")

    assert rows(connection, "select * from pgmq.read('orders', 30, 1)") == []


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        ("null::jsonb", None),
        ("'null'::jsonb", "null"),
        ("'{}'::jsonb, -5", "{}"),
        ("'{}'::jsonb, 'infinity'::timestamptz", "{}"),
        ("'{}'::jsonb, null::jsonb", "{}"),
    ],
)
def test_the_edges_that_pgmq_accepts_are_accepted(connection, queue, arguments, stored):
    connection.execute(f"select pgmq.send('orders', {arguments})")

    assert value(connection, "select message::text from pgmq.q_orders") == stored


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("pgmq.send('missing', '{}'::jsonb)", "42P01"),
        ("pgmq.send('orders', '{}'::jsonb, null::integer)", "23502"),
        ("pgmq.send(null, '{}'::jsonb)", "22004"),
        (
            "pgmq.send('orders', '{}', '{\"h\":1}')",
            "42725",
        ),  # ambiguous between two overloads, as in PGMQ
    ],
)
def test_bad_calls_fail_as_they_do_in_pgmq_and_store_nothing(connection, queue, call, sqlstate):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select {call}")

    assert caught.value.sqlstate == sqlstate
    assert value(connection, "select count(*) from pgmq.q_orders") == 0


def test_a_message_is_sent_with_the_callers_transaction_or_not_at_all(connection, queue):
    connection.execute("create table business (id int)")
    with connection.transaction(force_rollback=True):
        connection.execute("insert into business values (1)")
        connection.execute("select pgmq.send('orders', '{}'::jsonb)")

    assert value(connection, "select count(*) from business") == 0
    assert value(connection, "select count(*) from pgmq.q_orders") == 0
