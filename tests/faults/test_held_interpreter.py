"""Handlers whose C code holds the interpreter's lock longer than the lease, without heartbeats."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from support import rows, value


@pytest.mark.slow
def test_messages_of_a_process_that_was_held_up_are_done_once_by_another(
    connection, queue, workers
):
    """Messages of threads, loop and plain are redelivered; that of held keeps its row lock."""
    queues = ("threads", "loop", "plain", "held")
    some = workers(",".join(queues), "--no-maintenance", "--log-format", "json")
    held_up = some.start()
    for n, name in enumerate(queues):
        queue.send(name, {"n": n, "do": "wait", "seconds": 0.3 * (name == "loop")})
    some.wait_until(lambda: len(some.lines("start")) == 4, "all handlers to start")
    queue.send("plain", {"n": 4, "do": "grip"})
    some.wait_for("start", 4)
    other = some.start()

    some.wait_until(
        lambda: (
            {line["n"] for line in some.lines("start") if line["pid"] == other.pid} == {0, 1, 2, 4}
        ),
        "the other messages to be redelivered",
    )
    some.wait_until(
        lambda: (
            value(
                connection,
                f"select {' + '.join(f'(select count(*) from pgmq.a_{q})' for q in queues)}",
            )
            == 5
        ),
        "all messages to be archived",
    )
    held_up.terminate()
    other.terminate()
    assert (held_up.wait(), other.wait()) == (0, 0)

    assert rows(connection, "select n, attempt from effect order by n") == [(0, 2), (1, 2), (3, 1)]
    ended = [json.loads(line) for line in some.log().splitlines() if "handler stopped" in line]
    assert sum(line["done"] for line in ended) == 5
    assert Counter(n for n, times in some.count("start").items() if times > 2) == Counter()


@pytest.mark.slow
def test_a_process_handler_that_holds_its_interpreter_keeps_its_lease(queue, workers):
    some = workers("hungry", "--no-maintenance", "--lease", "2s")
    queue.send("hungry", {"n": 0, "do": "grip"})
    some.start()
    some.wait_for("start", 0)
    some.start()

    some.wait_for("done", 0)

    assert some.count("start")[0] == 1
