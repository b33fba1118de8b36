from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from support import rows

STORE = (
    "select sluice._store_samples(array[row('queue', 'q', '', {n}, 1, 0, 0, 0, {n} * 10, {n} * 5, 0, null, null, null, null)"
    "::sluice.sample_figures], 0, %s)"
)


@pytest.fixture(autouse=True)
def queue(connection: psycopg.Connection) -> None:
    connection.execute("select pgmq.create('q')")


def store(connection: psycopg.Connection, number: int, at: datetime) -> None:
    connection.execute(STORE.replace("{n}", str(number)).encode(), (at,))


def test_the_newest_sample_of_each_queue_is_returned_with_its_rates(connection: psycopg.Connection):
    now = datetime.now(UTC)
    for number in range(13):
        store(connection, number, now - timedelta(seconds=10 * (12 - number)))

    found = rows(
        connection,
        "select name, reader, taken_at, length, sent_per_s, finished_per_s from sluice.list_newest_samples('queue')",
    )

    assert found == [("q", "", now, 12, 1.0, 0.5)]


def test_without_an_earlier_sample_rates_are_null(connection: psycopg.Connection):
    store(connection, 1, datetime.now(UTC))

    found = rows(
        connection, "select sent_per_s, finished_per_s from sluice.list_newest_samples('queue')"
    )

    assert found == [(None, None)]


def test_a_queue_that_was_created_again_has_no_negative_rates(connection: psycopg.Connection):
    now = datetime.now(UTC)
    store(connection, 9, now - timedelta(minutes=1))
    store(connection, 1, now)

    found = rows(
        connection, "select sent_per_s, finished_per_s from sluice.list_newest_samples('queue')"
    )

    assert found == [(0.0, 0.0)]


def test_a_sample_older_than_five_minutes_is_not_returned(connection: psycopg.Connection):
    store(connection, 1, datetime.now(UTC) - timedelta(minutes=6))

    assert rows(connection, "select name from sluice.list_newest_samples('queue')") == []


def test_dropped_queue_is_not_listed_and_keeps_its_samples(connection: psycopg.Connection):
    store(connection, 1, datetime.now(UTC))
    connection.execute("select pgmq.drop_queue('q')")

    assert rows(connection, "select name from sluice.list_newest_samples('queue')") == []
    assert rows(connection, "select length from sluice.list_samples('queue', 'Q')") == [(1,)]


def test_reader_of_logs_sees_samples_of_queues_and_of_the_readers_of_a_log(
    connection: psycopg.Connection, as_member
):
    connection.execute("select pgq.create_queue('log')")
    connection.execute("select pgq.register_consumer('log', 'etl')")
    connection.execute("select sluice.create_group('log', 'mailer', '{}')")
    connection.execute("select sluice.take_samples('10 s')")
    newest = "select name, reader from sluice.list_newest_samples('{}')"
    listed = "select reader from sluice.list_samples('{}', 'log')"

    assert as_member("pgq_reader", newest.format("queue")) == [("q", "")]
    for kind, reader in (("consumer", "etl"), ("group", "mailer")):
        assert as_member("pgq_reader", newest.format(kind)) == [("log", reader)]
        assert as_member("pgq_reader", listed.format(kind)) == [(reader,)]
