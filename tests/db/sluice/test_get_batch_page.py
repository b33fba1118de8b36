import psycopg
import pytest

from support import rows, value
from support.log import open_batch

OWNER = "select sub_id from pgq.subscription join pgq.consumer on co_id = sub_consumer and co_name = 'lake'"


@pytest.fixture(params=[False, True], ids=["without", "with_index"])
def consumer(request, connection):
    """A consumer of a log without share groups, or with one, which gives its events an index by number."""
    connection.execute("select pgq.create_queue('changes')")
    if request.param:
        connection.execute("select sluice.create_group('changes', 'group')")
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
    owner = value(connection, OWNER)
    connection.execute(
        "select pgq.insert_event_raw('changes', 2, null, %s, 1, 't', 'again', null, null, null, null)",
        (owner,),
    )
    connection.execute("select setval('pgq.event_1_id_seq', 1, false)")
    batch = open_batch(connection, 4)

    found = pages(connection, batch, 2)

    assert [[row[0] for row in page] for page in found] == [[1, 2, 2], [3, 4]]


def test_late_retried_and_other_events_of_a_batch_are_on_its_pages(database, connection, consumer):
    owner = value(connection, OWNER)
    other = (
        "select pgq.insert_event_raw('changes', %s, null, %s, 1, 't', %s, null, null, null, null)"
    )
    with (
        database.connect(autocommit=False) as late,
        database.connect(autocommit=False) as open_yet,
    ):
        for session in (late, open_yet):
            session.execute("select pgq.insert_event('changes', 't', 'late')")
        open_batch(connection, 5)
        connection.execute("select pgq.finish_batch(%s)", (1,))
        late.commit()
        for ev_id, owner_id, data in (
            (2, owner, "mine"),
            (3, owner + 100, "another's"),
            (999, None, "far"),
        ):
            connection.execute(other, (ev_id, owner_id, data))
        batch = open_batch(connection, 5)
        connection.execute("select pgq.insert_event('changes', 't', 'after the batch')")

        for qty in (1, 2, 100):
            assert [event for page in pages(connection, batch, qty) for event in page] == rows(
                connection, "select * from pgq.get_batch_events(%s)", batch
            )
        found = [row[5] for page in pages(connection, batch, 100) for row in page]
        assert {"late", "mine", "far"} <= set(found)
        assert not {"another's", "after the batch"} & set(found)


@pytest.mark.parametrize("consumer", [True], indirect=True)
def test_page_of_a_log_with_an_index_does_not_read_the_batch(connection, consumer):
    batch = open_batch(connection, 3_000)

    def read(after):
        """Return the rows that a page reads from the events and their indexes."""
        reads = """select coalesce(sum(pg_stat_get_xact_tuples_fetched(c.oid) + pg_stat_get_xact_tuples_returned(c.oid)), 0)
                   from pg_class as c where c.relname like 'event_1_%%'"""
        with connection.transaction():
            before = value(connection, reads)
            assert (
                len(
                    rows(
                        connection, "select * from sluice.get_batch_page(%s, %s, 10)", batch, after
                    )
                )
                == 10
            )
            return value(connection, reads) - before

    assert read(1_000) < 100


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
