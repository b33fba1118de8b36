"""Empty names: creating a share group or a schedule with one is an error."""

from __future__ import annotations

import psycopg
import pytest

EMPTY = ["", " ", "\t\n"]


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("sluice.create_group('orders', %s)", "group"),
        ("sluice.schedule(%s, 'orders', '{}', every => interval '1 h')", "schedule"),
    ],
)
def test_empty_name_is_refused(connection, call, what, name):
    connection.execute("select pgq.create_queue('orders'), pgmq.create('orders')")

    with pytest.raises(psycopg.DataError, match=f"{what} name is empty"):
        connection.execute(f"select {call}", [name])
