from datetime import timedelta

import psycopg
import pytest

from support import rows

HOURS_2 = timedelta(hours=2)
DEFAULTS = (500, timedelta(seconds=3), timedelta(minutes=1), False, HOURS_2, False)


def test_every_log_has_options_and_the_default_has_no_limits(connection):
    connection.execute("select pgq.create_queue('a'), pgq.create_queue('b')")
    connection.execute(
        """select sluice.set_log_options('b', '{"max_lag_bytes": 1000, "max_lag_events": 100, "max_lag_time": "1 day",
        "keepers": ["y", "x"]}')"""
    )

    cursor = connection.execute("select * from sluice.log_options()")

    assert [c.name for c in cursor.description] == [
        "log_name",
        "ticker_max_count",
        "ticker_max_lag",
        "ticker_idle_period",
        "ticker_paused",
        "rotation_period",
        "external_ticker",
        "max_lag_bytes",
        "max_lag_events",
        "max_lag_time",
        "keepers",
    ]
    a, b = cursor.fetchall()
    assert a == ("a", *DEFAULTS, None, None, None, [])
    assert b == ("b", *DEFAULTS, 1000, 100, timedelta(days=1), ["x", "y"])
    assert rows(connection, "select * from sluice.log_options('b')") == [b]


@pytest.mark.parametrize("others", [[], ["a"]])
def test_a_log_that_does_not_exist_is_an_error(connection, others):
    for name in others:
        connection.execute("select pgq.create_queue(%s)", [name])

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from sluice.log_options('missing')")

    assert caught.value.sqlstate == "PQ001"
