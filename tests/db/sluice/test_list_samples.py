from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from support import rows

LIST = "select ready from sluice.list_samples('queue', 'q', %s, null, %s, %s)"


@pytest.fixture
def sampled(connection: psycopg.Connection) -> datetime:
    """Samples every 10 seconds of five minutes until now; returns the time of the first."""
    first = datetime.now(UTC) - timedelta(minutes=5)
    connection.execute(
        "select sluice._store_samples(array[row('queue', 'q', '', n, n, 0, 0, 0, n, 0, 0, null, null, null, null)"
        "::sluice.sample_figures], 0, %s + n * interval '10 s') from generate_series(0, 29) as n",
        (first,),
    )
    return first


def test_samples_are_returned_in_order_from_since_to_until(
    connection: psycopg.Connection, sampled: datetime
):
    found = rows(
        connection, LIST, sampled + timedelta(seconds=10), sampled + timedelta(seconds=40), None
    )

    assert found == [(1,), (2,), (3,)]


def test_the_resolution_depends_on_since_or_is_chosen(
    connection: psycopg.Connection, sampled: datetime
):
    assert len(rows(connection, LIST, None, None, None)) == 30
    assert 5 <= len(rows(connection, LIST, None, None, timedelta(minutes=1))) <= 6
    assert 5 <= len(rows(connection, LIST, sampled - timedelta(hours=2), None, None)) <= 6
    assert 1 <= len(rows(connection, LIST, sampled - timedelta(days=2), None, None)) <= 2


def test_an_unknown_kind_is_refused_with_the_known_ones(connection: psycopg.Connection):
    with pytest.raises(psycopg.Error, match="not a kind of samples") as refused:
        connection.execute("select * from sluice.list_samples('log', 'q')")
    assert refused.value.diag.message_hint == "use queue, queues, consumer or group"
