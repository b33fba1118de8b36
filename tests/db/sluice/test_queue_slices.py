"""sluice.queue_slices: a queue, its archive or its dead letters in ranges of ids."""

from __future__ import annotations

import psycopg
import pytest


@pytest.fixture
def queue(connection: psycopg.Connection) -> psycopg.Connection:
    """A queue with 100 messages, every third of them archived."""
    connection.execute("select pgmq.create('Orders')")
    connection.execute(
        "select pgmq.send_batch('Orders', array_agg(jsonb_build_object('n', n))) "
        "from generate_series(1, 100) as n"
    )
    connection.execute(
        "select pgmq.archive('Orders', array_agg(n::bigint)) from generate_series(1, 100, 3) as n"
    )
    return connection


def slices(connection: psycopg.Connection, relation: str, count: int) -> list[str]:
    return [
        query
        for (query,) in connection.execute(
            "select query from sluice.queue_slices('Orders', %s, %s, '{msg_id}') order by slice",
            (relation, count),
        )
    ]


def read(connection: psycopg.Connection, queries: list[str]) -> list[int]:
    return [msg_id for query in queries for (msg_id,) in connection.execute(query.encode())]


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_slices_hold_each_row_once(queue: psycopg.Connection, count: int):
    archived = set(range(1, 101, 3))

    assert sorted(read(queue, slices(queue, "archive", count))) == sorted(archived)
    assert sorted(read(queue, slices(queue, "queue", count))) == sorted(
        set(range(1, 101)) - archived
    )


@pytest.fixture(params=["plain", "partitioned"])
def sparse(request: pytest.FixtureRequest, connection: psycopg.Connection) -> psycopg.Connection:
    """A queue with 1,000 old messages at sparse ids and 20,000 new ones at consecutive ids."""
    if request.param == "partitioned":
        connection.execute("select pgmq.create_partitioned('sparse', '100000000', '1000000000')")
    else:
        connection.execute("select pgmq.create('sparse')")
    connection.execute(
        "insert into pgmq.q_sparse (msg_id, vt, message) overriding system value "
        "select case when n <= 1000 then n * 1000000 else 1000000000 + n end, now(), "
        "jsonb_build_object('n', n, 'text', repeat('x', 200)) from generate_series(1, 21000) as n"
    )
    return connection


def test_slices_have_similar_row_counts_with_sparse_ids(sparse: psycopg.Connection):
    queries = [
        query
        for (query,) in sparse.execute(
            "select query from sluice.queue_slices('sparse', 'queue', 4, '{msg_id}') order by slice"
        )
    ]

    counts = [len(sparse.execute(query.encode()).fetchall()) for query in queries]
    assert sum(counts) == 21_000
    assert len(counts) == 4
    # With equal ranges of ids, the last slice would have 20,000 rows.
    assert max(counts) < 1.4 * 21_000 / 4


def test_dead_letters_are_those_of_one_queue(connection: psycopg.Connection):
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason) "
        "select q, n, 1, now(), '{}', 'rejected' from generate_series(1, 50) as n, unnest('{Orders,other}'::text[]) as q"
    )
    connection.execute("select pgmq.create('Orders')")

    for dropped in (False, True):
        queries = slices(connection, "dead_letters", 3)
        assert len(queries) == 3
        assert sorted(read(connection, queries)) == list(range(1, 51))
        if not dropped:
            connection.execute("select pgmq.drop_queue('Orders')")


def test_messages_sent_after_slicing_are_excluded(queue: psycopg.Connection):
    queries = slices(queue, "queue", 3)
    queue.execute("select pgmq.send('Orders', '{}')")

    assert max(read(queue, queries)) == 99


def test_an_empty_table_has_no_slices(queue: psycopg.Connection):
    queue.execute("select pgmq.purge_queue('Orders')")

    assert slices(queue, "queue", 3) == []


def test_json_comes_as_text(queue: psycopg.Connection):
    (query,) = queue.execute(
        "select query from sluice.queue_slices('Orders', 'archive', 1, '{message,msg_id,headers}')"
    ).fetchone() or ("",)

    assert queue.execute(query.encode()).fetchone() == ('{"n": 1}', 1, None)


def test_an_unknown_queue_has_no_table(connection: psycopg.Connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select * from sluice.queue_slices('none', 'queue', 1, '{msg_id}')")
