import psycopg
import pytest

from support import rows, value
from support.log import open_batch


@pytest.fixture
def consumer(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'lake')")


def pages(connection, batch, qty):
    found, after = [], None
    while page := rows(
        connection, "select * from sluice.get_batch_page(%s, %s, %s)", batch, after, qty
    ):
        found.append(page)
        after = page[-1][0]
    return found


@pytest.mark.parametrize("qty", [1, 3, 10, 100])
def test_the_pages_together_are_the_batch(connection, consumer, qty):
    batch = open_batch(connection, 10)

    found = pages(connection, batch, qty)

    assert all(len(page) == qty for page in found[:-1])
    assert [event for page in found for event in page] == rows(
        connection, "select * from pgq.get_batch_events(%s)", batch
    )


def test_events_with_the_same_id_come_on_one_page(connection, consumer):
    """An event and its retry have the same id if the consumer has moved back."""
    owner = value(connection, "select sub_id from pgq.subscription")
    connection.execute(
        "select pgq.insert_event_raw('changes', 2, null, %s, 1, 't', 'again', null, null, null, null)",
        (owner,),
    )
    connection.execute("select setval('pgq.event_1_id_seq', 1, false)")
    batch = open_batch(connection, 4)

    found = pages(connection, batch, 2)

    assert [[row[0] for row in page] for page in found] == [[1, 2, 2], [3, 4]]


def test_a_batch_without_events_has_no_page(connection, consumer):
    assert pages(connection, open_batch(connection, 0), 5) == []


@pytest.mark.parametrize("qty", ["0", "-1", "null"])
def test_a_page_has_a_size(connection, consumer, qty):
    batch = open_batch(connection)

    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select * from sluice.get_batch_page(%s, null, {qty})", (batch,))

    assert caught.value.sqlstate == "22023"


def test_a_batch_that_is_not_open_is_an_error(connection, consumer):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from sluice.get_batch_page(4711, null, 5)")

    assert caught.value.sqlstate == "PQ003"
