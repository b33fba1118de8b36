import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

STORED = "select msg_id, message from pgmq.q_orders order by 1"


@pytest.fixture
def orders(connection):
    """A queue with a deduplication window of five minutes."""
    connection.execute("select pgmq.create('orders')")
    set_queue_options(connection, "orders", deduplication_window="5 minutes")
    return connection


def sent(connection, messages, keys, *more):
    """Send messages with these keys; return their ids."""
    arguments = "".join(f", {argument}" for argument in more)
    call = f"select * from sluice.send_batch('orders', %s::jsonb[], %s::text[]{arguments})"
    return [row[0] for row in rows(connection, call, messages, keys)]


def test_each_message_gets_the_id_that_its_key_was_first_sent_with(orders):
    assert sent(orders, ["1", "2"], ["a", "b"]) == [1, 2]

    ids = sent(orders, ["3", "4", "5", "6", "7"], ["c", "b", None, "a", None])

    assert ids == [3, 2, 4, 1, 5]
    assert rows(orders, STORED) == [(1, 1), (2, 2), (3, 3), (4, 5), (5, 7)]


def test_of_equal_keys_in_one_batch_the_first_is_stored(orders):
    assert sent(orders, ["1", "2", "3", "4"], ["b", "a", "b", "a"]) == [1, 2, 1, 2]

    assert rows(orders, STORED) == [(1, 1), (2, 2)]


def test_a_batch_sent_again_returns_the_same_ids_and_stores_nothing(orders):
    keys = [f"key {n}" for n in range(1000)]
    messages = [str(n) for n in range(1000)]

    first = sent(orders, messages, keys)

    assert first == list(range(1, 1001))
    assert sent(orders, messages, keys) == first
    assert sent(orders, messages[::-1], keys[::-1]) == first[::-1]
    assert value(orders, "select count(*) from pgmq.q_orders") == 1000


def test_headers_and_delay_go_with_their_messages(orders):
    headers = "array['{\"h\": 1}', null, '{\"h\": 3}']::jsonb[]"
    sent(orders, ["0"], ["a"])

    assert sent(orders, ["1", "2", "3"], ["a", "b", "c"], headers, "60") == [1, 2, 3]
    assert sent(orders, ["4"], ["d"], "null", "clock_timestamp() + interval '60 s'") == [4]

    stored = "select msg_id, message, headers, vt > now() + interval '30 s' from pgmq.q_orders order by 1"
    assert rows(orders, stored) == [
        (1, 0, None, False),
        (2, 2, None, True),
        (3, 3, {"h": 3}, True),
        (4, 4, None, True),
    ]


def test_expired_and_known_and_new_keys_in_one_batch(orders):
    sent(orders, ["1", "2"], ["old", "known"])
    orders.execute("update sluice.deduplication_key set expires_at = now() where key = 'old'")

    assert sent(orders, ["3", "4", "5"], ["new", "old", "known"]) == [3, 4, 2]
    assert sent(orders, ["6", "7", "8"], ["new", "old", "known"]) == [3, 4, 2]


@pytest.mark.parametrize(
    ("messages", "keys", "words"),
    [
        ([], [], "msgs cannot be NULL or empty"),
        (
            ["1", "2"],
            ["a"],
            r"deduplication_keys array length \(1\) must match msgs array length \(2\)",
        ),
        (["1"], None, r"deduplication_keys array length \(0\) must match msgs array length \(1\)"),
        (["1", "2"], ["a", ""], "deduplication key has 0 bytes"),
    ],
)
def test_keys_that_do_not_fit_are_refused_and_nothing_is_sent(orders, messages, keys, words):
    with pytest.raises(psycopg.DatabaseError, match=words):
        sent(orders, messages, keys)

    assert value(orders, "select count(*) from pgmq.q_orders") == 0


def test_a_bad_message_takes_no_key(orders):
    with pytest.raises(psycopg.DatabaseError):
        sent(orders, ["1"], ["a"], "null", "null::integer")

    (msg_id,) = sent(orders, ["1"], ["a"])
    assert rows(orders, STORED) == [(msg_id, 1)]


@pytest.mark.slow
def test_ten_thousand_known_keys_are_found_by_their_index(orders):
    keys = [f"key {n}" for n in range(10_000)]
    for _ in range(8):  # from the sixth call on, the plan is cached from when the table was small
        sent(orders, ["1"], ["first"])
        value(orders, "select sluice.send('orders', '1', 'first')")
    sent(orders, ["1"] * len(keys), keys)
    scans = "select seq_scan from pg_stat_user_tables where relname = 'deduplication_key_logged'"
    orders.execute("select pg_stat_force_next_flush()")
    before = value(orders, scans)

    assert len(sent(orders, ["1"] * 200, [*keys[:100], *(f"new {n}" for n in range(100))])) == 200
    assert value(orders, "select sluice.send('orders', '1', 'key 7')") == 9
    assert value(orders, "select sluice.send('orders', '1', 'newest')") > 10_000

    orders.execute("select pg_stat_force_next_flush()")
    assert value(orders, scans) == before
