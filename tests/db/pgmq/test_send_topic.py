import psycopg
import pytest

from support import rows, value


@pytest.fixture
def bound(connection):
    """`all` is bound to every key, `logs` by two patterns to keys that begin with `logs`."""
    for name, patterns in (("logs", ["logs.*", "logs.#"]), ("all", ["#"])):
        connection.execute("select pgmq.create(%s)", (name,))
        for pattern in patterns:
            connection.execute("select pgmq.bind_topic(%s, %s)", (pattern, name))


def sent(connection):
    return {
        name: [
            row[0] for row in rows(connection, f"select message from pgmq.q_{name} order by msg_id")
        ]
        for name in ("logs", "all")
    }


def test_each_queue_that_is_bound_gets_the_message_once(connection, bound):
    assert value(connection, "select pgmq.send_topic('logs.a', '1'::jsonb)") == 2
    assert value(connection, "select pgmq.send_topic('logs', '2'::jsonb)") == 1

    assert sent(connection) == {"logs": [1], "all": [1, 2]}
    assert rows(connection, "select message from pgmq.read('logs', 30, 9)") == [(1,)]


def test_headers_and_delay_go_with_it(connection, bound):
    connection.execute("select pgmq.send_topic('x', '1'::jsonb, 60)")
    connection.execute("select pgmq.send_topic('x', '2'::jsonb, '{\"h\": 1}'::jsonb, 0)")

    assert rows(connection, "select message, headers from pgmq.read('all', 30, 9)") == [
        (2, {"h": 1})
    ]
    delay = "select extract(epoch from vt - clock_timestamp()) between 30 and 60 from pgmq.q_all where msg_id = 1"
    assert value(connection, delay) is True


def test_unmatched_routing_key_sends_no_message(connection):
    assert value(connection, "select pgmq.send_topic('nobody', '1'::jsonb)") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'a.', null, -1", "routing_key cannot end with a dot. Got: a."),
        ("'a', null, -1", "msg cannot be NULL"),
        ("'a', '1'::jsonb, -1", "delay cannot be negative, got: -1"),
    ],
)
def test_first_problem_is_reported_and_nothing_is_sent(connection, bound, arguments, message):
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        connection.execute(f"select pgmq.send_topic({arguments})")

    assert caught.value.diag.message_primary == message
    assert caught.value.diag.message_hint
    assert sent(connection) == {"logs": [], "all": []}


def test_it_goes_to_all_queues_or_to_none(connection, bound):
    connection.execute("drop table pgmq.q_logs")

    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select pgmq.send_topic('logs.a', '1'::jsonb)")

    assert value(connection, "select count(*) from pgmq.q_all") == 0


def test_a_writer_may_send(connection, bound):
    connection.execute("set role sluice_writer")

    assert value(connection, "select pgmq.send_topic('logs.a', '1'::jsonb)") == 2
