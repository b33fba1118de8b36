"""`pgsluice queue limits`, `blocked` and `unpark`, on a real server."""

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


def test_limits_are_set_shown_and_dropped(queue):
    assert queue("limits", "list") == "no limits\n"

    queue("limits", "set", "orders", "--fleet-concurrency", "5", "--rate", "100/2m")
    (shown,) = json.loads(queue("limits", "list", "--json"))
    assert shown == {
        "queue_name": "orders",
        "fleet_concurrency": 5,
        "key_concurrency": None,
        "rate": 100,
        "rate_s": 120.0,
        "when_waiting": None,
        "priority_weights": None,
        "in_flight": 0,
        "started": 0,
        "declared_by": None,
    }
    queue("limits", "set", "orders", "--priorities", "16,4,1")
    assert "[16, 4, 1]" in queue("limits", "list")

    queue("limits", "drop", "orders")
    assert "has no limits" in queue("limits", "drop", "orders", code=1, errors=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give at least one limit"),
        (("--rate", "100"), "'100' is not a valid rate; write 100/s"),
        (("--rate", "100/0s"), "'0s' is too short"),
        (("--rate", "100/x"), "'1x' is not a valid duration"),
        (("--priorities", "16;4"), "'16;4' is not a valid list of weights; write 16,4,1"),
        (("--fleet-concurrency", "0"), "0 is not in the range x>=1"),
    ],
)
def test_invalid_limit_is_named(queue, options, message):
    assert message in queue("limits", "set", "orders", *options, code=2, errors=True)


def test_limits_that_contradict_each_other_are_an_error(queue):
    printed = queue(
        *("limits", "set", "orders", "--when-waiting", "skip", "--priorities", "2,1"),
        code=2,
        errors=True,
    )

    assert "priorities or limits of its keys, not both" in printed


def test_a_parked_key_is_shown_and_unparked(queue, database_18):
    queue("limits", "set", "orders", "--when-waiting", "park")
    with database_18.connect() as connection:
        work = WorkQueue(connection)
        work.send_batch("orders", [1, 2], headers=[{"x-pgmq-group": "k"}] * 2)
        work.claim_messages("orders", 60)
        work.release("orders", 1, 1, delay=600)
        work.claim_messages("orders", 60)

    (shown,) = json.loads(queue("blocked", "orders", "--json"))
    assert (shown["key"], shown["reason"], shown["waiting"]) == ("k", "parked", 1)
    queue("unpark", "orders", "k")

    assert queue("blocked", "orders") == "no blocked keys\n"
    assert "is not parked" in queue("unpark", "orders", "k", code=1, errors=True)
