"""Lost replies of the server: the client reports that the outcome of the commit is unknown."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from pgsluice import Message, WorkQueue
from pgsluice.errors import CommitUnknownError, ConnectionFailedError
from support import value


@pytest.fixture(autouse=True)
def create_queue(queue):
    queue.create("mail")


def length(connection) -> int:
    return value(connection, "select queue_length from pgmq.metrics('mail')")


def test_a_send_whose_reply_is_lost_is_unknown_and_was_done(connection, proxy, far_url):
    with ConnectionPool(far_url, min_size=1, max_size=1) as pool:
        pool.wait()
        proxy.lose_the_next_reply()

        with pytest.raises(CommitUnknownError, match="may have been committed"):
            WorkQueue(pool).send("mail", {"n": 1})

    assert length(connection) == 1


def test_with_a_key_it_is_sent_again_and_is_there_once(connection, proxy, far_url):
    WorkQueue(connection).set_queue_options("mail", deduplication_window=timedelta(hours=1))
    with ConnectionPool(far_url, min_size=1, max_size=1) as pool:
        pool.wait()
        queue = WorkQueue(pool)
        proxy.lose_the_next_reply()
        with pytest.raises(CommitUnknownError):
            queue.send("mail", {"n": 1}, deduplication_key="one")

        queue.send("mail", {"n": 1}, deduplication_key="one")

    assert length(connection) == 1


def test_in_a_transaction_that_was_not_to_end_it_is_known_that_nothing_was_done(
    connection, proxy, far_url
):
    with psycopg.connect(far_url) as far:
        WorkQueue(far).send("mail", {"n": 1})
        proxy.lose_the_next_reply()

        with pytest.raises(ConnectionFailedError) as caught:
            WorkQueue(far).send("mail", {"n": 2})

    assert not isinstance(caught.value, CommitUnknownError)
    assert length(connection) == 0


@pytest.mark.slow
def test_a_connection_that_cannot_be_made_is_no_unknown_commit(far_url, proxy):
    proxy.__exit__()
    with (
        ConnectionPool(far_url, min_size=0, max_size=1, timeout=1, open=True) as pool,
        pytest.raises(ConnectionFailedError) as caught,
    ):
        WorkQueue(pool).send("mail", {})

    assert not isinstance(caught.value, CommitUnknownError)


def test_claim_whose_reply_is_lost_is_redelivered(connection, proxy, far_url):
    WorkQueue(connection).send("mail", {"n": 1})
    with ConnectionPool(far_url, min_size=1, max_size=1) as pool:
        pool.wait()
        proxy.lose_the_next_reply()
        with pytest.raises(CommitUnknownError):
            WorkQueue(pool).read("mail", vt=1)
    connection.execute("update pgmq.q_mail set vt = now()")

    (again,) = WorkQueue(connection).read("mail", vt=30)

    assert again.read_ct == 2


def test_an_acknowledgement_whose_reply_is_lost_was_given(connection, proxy, far_url):
    WorkQueue(connection).send("mail", {"n": 1})
    (message,) = WorkQueue(connection).read("mail", vt=30)
    assert isinstance(message, Message)
    with ConnectionPool(far_url, min_size=1, max_size=1) as pool:
        pool.wait()
        queue = WorkQueue(pool)
        proxy.lose_the_next_reply()
        with pytest.raises(CommitUnknownError):
            queue.archive_claimed("mail", [message])

        (outcome,) = queue.archive_claimed("mail", [message])

    assert outcome.outcome == "gone"
    assert value(connection, "select count(*) from pgmq.a_mail") == 1
