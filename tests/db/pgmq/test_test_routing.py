import psycopg
import pytest

from support import rows, value


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        ("logs.error", ["logs.error"], ["logs", "logs.error.x", "logsxerror", "Logs.error"]),
        ("logs.*", ["logs.a", "logs.-"], ["logs", "logs.a.b"]),
        ("logs.#", ["logs.a", "logs.a.b"], ["logs", "logsa"]),
        ("#.error", ["a.error", "a.b.error"], ["error", "a.error.b"]),
        ("a.*.c", ["a.b.c"], ["a.c", "a.b.b.c"]),
        ("a.#.c", ["a.b.c", "a.b.b.c"], ["a.c"]),
        ("a*c", ["abc", "abbc"], ["ac", "a.c"]),
        ("#", ["a", "a.b.c"], []),
        ("*", ["a"], ["a.b"]),
    ],
)
def test_a_star_is_one_word_a_hash_is_anything_and_a_dot_is_a_dot(
    connection, queue, pattern, matched, not_matched
):
    connection.execute("select pgmq.bind_topic(%s, 'orders')", (pattern,))

    for key in matched + not_matched:
        found = rows(connection, "select pattern, queue_name from pgmq.test_routing(%s)", key)
        assert found == ([(pattern, "orders")] if key in matched else []), key


def test_matches_come_by_pattern_and_queue_and_nothing_is_sent(connection):
    for name in ("b", "a"):
        connection.execute("select pgmq.create(%s)", (name,))
        for pattern in ("x.*", "#"):
            connection.execute("select pgmq.bind_topic(%s, %s)", (pattern, name))

    assert rows(connection, "select * from pgmq.test_routing(routing_key => 'x.y')") == [
        ("#", "a", "^.*$"),
        ("#", "b", "^.*$"),
        ("x.*", "a", r"^x\.[^.]+$"),
        ("x.*", "b", r"^x\.[^.]+$"),
    ]
    assert value(connection, "select count(*) from pgmq.q_a") == 0


def test_a_key_that_cannot_be_one_is_refused(connection):
    with pytest.raises(psycopg.Error, match="routing_key contains invalid characters"):
        connection.execute("select * from pgmq.test_routing('a.*')")
