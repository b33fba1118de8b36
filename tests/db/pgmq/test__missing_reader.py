"""pgmq._missing_reader: the error of a queue without a reader."""

import psycopg
import pytest


@pytest.mark.parametrize(
    ("name", "sqlstate"),
    [("nope", "42P01"), ("a;b", "P0001"), ("orders", "QU003"), (None, "22004")],
)
def test_it_raises_the_error_of_any_call_first(connection, queue, name, sqlstate):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgmq._missing_reader(%s)", [name])

    assert caught.value.sqlstate == sqlstate
