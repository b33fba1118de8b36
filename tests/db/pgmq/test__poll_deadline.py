import pytest

from support import value

WAIT = "select extract(epoch from pgmq._poll_deadline(%s) - statement_timestamp())::float8"


@pytest.mark.parametrize(
    ("timeout", "seconds", "expected"),
    [("0", 60, 60), ("0", None, 5), ("10s", 60, 9), ("10s", 3, 3), ("1min", 600, 54)],
)
def test_a_poll_ends_before_statement_timeout(connection, timeout, seconds, expected):
    connection.execute(f"set statement_timeout = '{timeout}'")

    assert value(connection, WAIT, seconds) == pytest.approx(expected, abs=1)
