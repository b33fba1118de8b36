"""sluice._maintain_indexes: indexes of queues that are read by groups."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value

READ = "select msg_id from pgmq.read_grouped('orders', 600, 2)"
REQUESTS = "select queue_table from sluice.group_index_request"
MAINTAIN = "select queue_name, done, detail from sluice.maintain() where task = 'indexes'"
CREATED = ("orders", True, "the indexes of its groups are created")
IN_USE = ("orders", False, "it is in use; the next call tries again")


@pytest.fixture
def queue(connection: psycopg.Connection) -> None:
    connection.execute("select pgmq.create('orders')")


def fill(connection: psycopg.Connection, count: int = 12_000) -> None:
    """Send messages of 100 groups; 12,000 have more than 1 MB."""
    connection.execute(
        """insert into pgmq.q_orders (vt, message, headers)
           select now(), to_jsonb(n), jsonb_build_object('x-pgmq-group', mod(n, 100))
           from generate_series(1, %s) as n""",
        [count],
    )


def indexed(connection: psycopg.Connection) -> bool:
    return value(connection, "select pgmq._has_fifo_index('q_orders')")


@pytest.mark.parametrize("reader", ["read_grouped", "read_grouped_rr", "read_grouped_head"])
def test_the_first_read_by_groups_requests_indexes_and_maintenance_creates_them(
    connection, queue, reader
):
    fill(connection)
    connection.execute("select pgmq.read('orders', 600, 1)")
    assert rows(connection, REQUESTS) == []

    for _ in range(2):
        connection.execute(f"select pgmq.{reader}('orders', 600, 1)")
    assert rows(connection, REQUESTS) == [("q_orders",)]
    assert not indexed(connection)

    assert rows(connection, MAINTAIN) == [CREATED]
    assert indexed(connection)
    assert rows(connection, MAINTAIN) == []
    connection.execute(f"select pgmq.{reader}('orders', 600, 1)")
    assert rows(connection, REQUESTS) == []


def test_an_unlogged_queue_has_them_too(connection):
    connection.execute("select pgmq.create_unlogged('orders')")
    fill(connection)
    connection.execute(READ)

    assert rows(connection, MAINTAIN) == [CREATED]
    assert indexed(connection)


def test_a_partitioned_queue_has_them_too(connection):
    connection.execute("select pgmq.create_partitioned('orders', '10000', '100000')")
    fill(connection)
    connection.execute(READ)

    assert CREATED in rows(connection, MAINTAIN)
    assert value(connection, "select to_regclass('pgmq.q_orders_fifo_idx') is not null")


def test_a_queue_in_use_is_skipped_and_has_its_indexes_later(database, connection, queue):
    fill(connection)
    connection.execute(READ)
    with database.connect(autocommit=False) as sender:
        sender.execute("select pgmq.send('orders', '1'::jsonb)")
        assert rows(connection, MAINTAIN) == [IN_USE]
        assert rows(connection, REQUESTS) == [("q_orders",)]
        sender.commit()

    assert rows(connection, MAINTAIN) == [CREATED]


def test_a_reader_neither_locks_out_senders_nor_waits_for_them(database, connection, queue):
    """The lock of a build would last until the end of the reader's transaction."""
    fill(connection)
    with database.connect(autocommit=False) as reader, database.connect() as sender:
        sender.execute("set lock_timeout = '100ms'")
        assert len(rows(reader, READ)) == 2

        assert value(sender, "select pgmq.send('orders', '1'::jsonb)") == 12_001
        assert len(rows(connection, READ)) == 2
        reader.commit()

    # Both first reads requested.
    assert rows(connection, REQUESTS) == [("q_orders",)] * 2
    assert rows(connection, MAINTAIN) == [CREATED]
    assert rows(connection, REQUESTS) == []


def test_a_large_queue_is_left_to_its_operator(connection, queue):
    fill(connection)
    connection.execute(READ)

    [(name, done, detail)] = rows(
        connection, "select queue_name, done, detail from sluice._maintain_indexes(100000)"
    )
    assert (name, done) == ("orders", False)
    assert detail.endswith("select pgmq.create_fifo_index('orders')")
    connection.execute(detail.split("run: ")[1])
    assert rows(connection, "select done from sluice._maintain_indexes(100000)") == [(True,)]
    assert rows(connection, REQUESTS) == []


@pytest.mark.parametrize(
    "change", ["select pgmq.drop_queue('orders')", "alter table pgmq.q_orders owner to postgres"]
)
def test_a_request_that_cannot_be_fulfilled_is_forgotten(connection, queue, change):
    fill(connection)
    connection.execute(READ)
    connection.execute(change)

    assert rows(connection, MAINTAIN) == []
    assert rows(connection, REQUESTS) == []


def test_role_that_may_read_requests_indexes_and_cannot_create_or_remove_them(connection, queue):
    fill(connection)
    connection.execute("set role sluice_reader")

    assert len(rows(connection, READ)) == 2

    for denied in (
        "select sluice._maintain_indexes(1 << 30)",
        "delete from sluice.group_index_request",
        "insert into sluice.group_index_request (queue_table) values ('q_orders')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(denied)
    assert rows(connection, REQUESTS) == [("q_orders",)]
