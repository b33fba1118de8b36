"""`pgsluice queue retry-policy` and `dead-letters` on a real server."""

from __future__ import annotations

import json
import sys
import time

import pytest

from pgsluice.cli.main import main
from support import rows, value


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        yield connection


@pytest.fixture
def queue(database_18, connection, capsys, monkeypatch):
    """Six dead letters of the queue `orders`; runs a command and returns its output."""
    connection.execute("select pgmq.create('orders'), pgmq.create('again')")
    connection.execute(
        "select pgmq.send_batch('orders', array_agg(jsonb_build_object('n', n, 'odd', n % 2 = 1)))"
        " from generate_series(1, 6) as n"
    )
    connection.execute("select pgmq.read('orders', 30, 6)")
    connection.execute(
        "select sluice.fail('orders', jsonb_agg(jsonb_build_object('msg_id', n, 'read_ct', 1, 'reject', true, 'reason', 'bad', "
        "'error_type', 'KeyError', 'error', 'k', 'trace', 'at 1')), 'w1') from generate_series(1, 6) as n"
    )

    def run(*arguments, code=0, errors=False):
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(SystemExit) as ended:
            main(["queue", *arguments, "--dsn", database_18.url])
        printed = capsys.readouterr()
        assert ended.value.code == code, f"{arguments}: {ended.value.code}\n{printed}"
        return printed.err if errors else printed.out

    return run


def records(printed):
    return [json.loads(line) for line in printed.splitlines()]


def test_a_policy_is_set_listed_and_dropped(queue):
    shown = ["--json", "orders"]
    default = {
        "queue_name": "orders", "max_attempts": 5, "backoff": "exponential", "backoff_base_s": 1.0,
        "backoff_max_s": 300.0, "backoff_jitter": True, "backoff_factor": 2.0, "is_default": True,
    }  # fmt: skip
    assert json.loads(queue("retry-policy", "list", *shown)) == [default]

    options = [
        "--max-attempts",
        "3",
        "--backoff",
        "linear",
        "--backoff-base",
        "2s",
        "--backoff-max",
        "1h",
        "--backoff-factor",
        "1.5",
    ]
    queue("retry-policy", "set", "orders", *options, "--no-jitter")
    (policy,) = json.loads(queue("retry-policy", "list", *shown))
    assert list(policy.values()) == ["orders", 3, "linear", 2.0, 3600.0, False, 1.5, False]
    assert "0:00:02" in queue("retry-policy", "list")

    queue("retry-policy", "drop", "orders")
    assert "has no retry policy" in queue("retry-policy", "drop", "orders", code=1, errors=True)
    assert json.loads(queue("retry-policy", "list", *shown)) == [default]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["set", "orders", "--backoff-base", "soon"], 2, "is not a valid duration"),
        (["set", "orders", "--backoff-max", "forever"], 2, "is not a valid duration"),
        (["set", "orders", "--max-attempts", "0"], 2, "max-attempts"),
        (["set", "nope"], 3, "queue 'nope' does not exist"),
        (["list", "nope"], 3, "queue 'nope' does not exist"),
    ],
)
def test_invalid_retry_option_is_named(queue, arguments, code, words):
    assert words in queue("retry-policy", *arguments, code=code, errors=True)


def test_dead_letters_are_listed_with_all_that_is_known_and_counted(queue):
    letters = records(queue("dead-letters", "list", "orders", "--qty", "4"))

    assert [letter["dead_letter_id"] for letter in letters] == [1, 2, 3, 4]
    columns = ("message", "attempts", "reason", "error_type", "error", "trace", "worker")
    assert [letters[0][name] for name in columns] == [
        {"n": 1, "odd": True}, 1, "bad", "KeyError", "k", "at 1", "w1",
    ]  # fmt: skip
    assert letters[0]["first_failed_at"] is not None
    after = records(queue("dead-letters", "list", "orders", "--after", "4"))
    assert [letter["msg_id"] for letter in after] == [5, 6]
    count = ["--count", "--conditional", '{"odd": true}']
    assert queue("dead-letters", "list", "orders", *count) == "3\n"
    for options, wanted in (
        (["--error-type", "KeyError", "--reason", "bad"], "6\n"),
        (["--error-type", "ValueError"], "0\n"),
        (["--reason", "too many attempts"], "0\n"),
        (["--until", "2020-01-01"], "0\n"),
    ):
        assert queue("dead-letters", "list", "orders", "--count", *options) == wanted


def test_they_are_redriven_by_id_by_a_filter_and_at_a_rate(queue, connection):
    redrive = ("dead-letters", "redrive", "orders")
    assert records(queue(*redrive, "1", "--into", "again")) == [{"dead_letter_id": 1, "msg_id": 1}]
    missing = queue(*redrive, "1", code=1, errors=True)
    assert "not found in the dead letters of the queue: 1" in missing
    odd = ["--conditional", '{"odd": true}', "--error-type", "KeyError"]
    assert queue(*redrive, *odd) == "2 dead letters redriven\n"
    assert queue(*redrive, "--reason", "parked") == "0 dead letters redriven\n"

    began_s = time.monotonic()
    assert json.loads(queue(*redrive, "--all", "--rate", "10", "--json")) == {"redriven": 3}

    assert time.monotonic() - began_s < 5
    marked = (
        "select headers -> 'x-pgmq-replayed-from' ->> 'msg_id' from pgmq.q_orders order by msg_id"
    )
    assert rows(connection, marked) == [("3",), ("5",), ("2",), ("4",), ("6",)]


def test_a_rate_is_kept(queue, monkeypatch):
    paused = []
    monkeypatch.setattr("pgsluice.cli.dead_letters.time.sleep", paused.append)

    queue("dead-letters", "redrive", "orders", "--all", "--rate", "2")

    assert len(paused) == 2  # after the first and second pair, not after the last
    assert 0 < paused[0] <= 1
    assert 1 < paused[1] <= 2


def test_they_are_purged_by_id_or_by_age(queue, connection):
    connection.execute(
        "update sluice.dead_letter set dead_at = now() - interval '2 h' where msg_id = 2"
    )
    purge = ("dead-letters", "purge", "orders", "--yes")

    assert queue(*purge, "1", "77") == "1 dead letters deleted\n"
    assert json.loads(queue(*purge, "--older-than", "1h", "--json")) == {"purged": 1}
    queue(*purge, "--older-than", "0s")

    assert value(connection, "select count(*) from sluice.dead_letter") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["redrive", "orders"],
        ["redrive", "orders", "1", "--all"],
        ["redrive", "orders", "1", "--rate", "5"],
        ["purge", "orders", "--yes"],
        ["purge", "orders", "1", "--older-than", "1h", "--yes"],
        ["purge", "orders", "--older-than", "forever", "--yes"],
        ["list", "orders", "--count", "--qty", "1"],
    ],
)
def test_ambiguous_retry_options_are_refused(queue, arguments):
    assert "Error" in queue("dead-letters", *arguments, code=2, errors=True)
