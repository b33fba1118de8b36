from datetime import UTC, datetime, timedelta

import psycopg

from support import rows

STORE = (
    "select sluice._store_samples(array[row('queue', 'q', '', {n}, 1, 0, 0, 0, {n} * 10, {n} * 5, 0, null, null, null, null)"
    "::sluice.sample_figures], 0, %s)"
)


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
