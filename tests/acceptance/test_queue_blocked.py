"""Blocked keys in `pgsluice queue show`, and `queue retry --key`, on a real server."""

from __future__ import annotations

import json

import pytest

from pgsluice import WorkQueue
from pgsluice.cli.main import main


@pytest.fixture
def queue(database_18, capsys):
    """Run a command; return its standard output, and on request its standard error."""

    def run(*arguments, code=0, errors=False):
        with pytest.raises(SystemExit) as ended:
            main(["queue", *arguments, "--dsn", database_18.url])
        printed = capsys.readouterr()
        assert ended.value.code == code, f"{arguments}: {ended.value.code}\n{printed}"
        return printed.err if errors else printed.out

    run("create", "orders")
    return run


CLAIM = "select * from sluice.claim_messages('orders', 60, 1)"


def test_a_parked_key_is_shown_and_unparked(queue, database_18):
    queue("set", "orders", "when_waiting=park")
    with database_18.connect() as connection:
        work = WorkQueue(connection)
        work.send_batch("orders", [1, 2], headers=[{"x-pgmq-group": "k"}] * 2)
        connection.execute(CLAIM)
        work.release("orders", 1, 1, delay=600)
        connection.execute(CLAIM)

    (shown,) = json.loads(queue("show", "orders", "--json"))["blocked_keys"]
    assert (shown["key"], shown["reason"], shown["waiting"]) == ("k", "parked", 1)
    queue("retry", "orders", "--key", "k")

    assert "no blocked keys\n" in queue("show", "orders")
    assert "is not parked" in queue("retry", "orders", "--key", "k", code=1, errors=True)
