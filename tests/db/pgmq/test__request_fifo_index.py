"""pgmq._request_fifo_index: requests of the indexes of groups; db/sluice/test__maintain_indexes.py has more."""

import pytest

from support import rows

REQUESTS = "select queue_table from sluice.group_index_request"


@pytest.mark.parametrize(("messages", "requests"), [(1_000, []), (12_000, [("q_orders",)])])
def test_only_a_queue_of_1_mb_or_more_is_requested_and_once(connection, queue, messages, requests):
    connection.execute(
        "insert into pgmq.q_orders (vt, message) select now(), to_jsonb(repeat('x', 60)) from generate_series(1, %s)",
        [messages],
    )

    for _ in range(2):
        connection.execute("select pgmq._request_fifo_index('q_orders')")

    assert rows(connection, REQUESTS) == requests


def test_another_table_of_the_schema_is_not_requested(connection):
    connection.execute("create table pgmq.q_stray as select n from generate_series(1, 100000) as n")

    connection.execute("select pgmq._request_fifo_index('q_stray')")
    connection.execute("select pgmq._request_fifo_index('q_nope')")

    assert rows(connection, REQUESTS) == []
