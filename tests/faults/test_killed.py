"""Workers that are killed, stopped, or suspended for longer than their lease."""

from __future__ import annotations

import random
import signal
import time

import pytest

from faults.app import LEASE_S
from support import rows, value

MESSAGES = 300


def effects(connection) -> list[int]:
    return [n for (n,) in rows(connection, "select n from effect order by n")]


@pytest.mark.slow
@pytest.mark.parametrize("queue_name", ["threads", "loop", "held"])
def test_workers_that_are_killed_lose_nothing_and_write_each_effect_once(
    connection, queue, workers, queue_name, seed
):
    chance = random.Random(seed)
    queue.send_batch(queue_name, [{"n": n, "seconds": 0.02} for n in range(MESSAGES)])
    some = workers(queue_name, "--no-maintenance")
    running = [some.start() for _ in range(3)]
    some.wait_until(lambda: len(some.lines("done")) > 10, "the first messages to be handled")

    for _ in range(6):
        time.sleep(
            chance.uniform(0.05, 0.3)
        )  # the schedule of the faults, not a wait for a condition
        place = chance.randrange(len(running))
        running[place].kill()
        running[place].wait()
        running[place] = some.start()
    some.wait_until(lambda: len(effects(connection)) >= MESSAGES, "all effects")
    some.wait_until(
        lambda: value(connection, f"select count(*) from pgmq.q_{queue_name}") == 0,
        "the queue to be empty",
    )

    assert effects(connection) == list(range(MESSAGES))
    assert value(connection, "select count(*) from sluice.dead_letter") == 0
    assert value(connection, f"select count(*) from pgmq.a_{queue_name}") == MESSAGES
    # Only messages claimed by killed workers were redelivered.
    assert len(some.lines("start")) <= MESSAGES + 6 * 4


def test_messages_of_a_killed_worker_are_redelivered_after_the_lease_as_next_attempt(
    connection, queue, workers
):
    queue.send_batch("threads", [{"n": n, "seconds": 60} for n in range(4)])
    some = workers("threads", "--no-maintenance")
    first = some.start()
    some.wait_until(lambda: len(some.lines("start")) == 4, "all handlers to start")
    connection.execute("update pgmq.q_threads set message = message || '{\"seconds\": 0}'")

    first.kill()
    some.start()
    some.wait_until(lambda: len(some.lines("done")) == 4, "all messages to be handled")

    assert sorted((line["n"], line["attempt"]) for line in some.lines("done")) == [
        (n, 2) for n in range(4)
    ]


@pytest.mark.slow
def test_a_worker_that_slept_longer_than_its_lease_settles_nothing_and_starts_nothing(
    connection, queue, workers
):
    some = workers("threads", "--no-maintenance", "--concurrency", "1")
    sleeper = some.start()
    queue.send_batch("threads", [{"n": 0, "seconds": 0.3}, {"n": 1}, {"n": 2}])
    some.wait_for("start", 0)
    sleeper.send_signal(signal.SIGSTOP)
    other = some.start()
    some.wait_until(
        lambda: {line["n"] for line in some.lines("done") if line["pid"] == other.pid} == {0, 1, 2},
        "the other worker to handle all messages",
    )

    sleeper.send_signal(signal.SIGCONT)
    queue.send("threads", {"n": 3})
    some.wait_for("done", 3)
    sleeper.send_signal(signal.SIGTERM)
    sleeper.wait()

    assert effects(connection) == [0, 1, 2, 3]
    started = [line["n"] for line in some.lines("start") if line["pid"] == sleeper.pid]
    assert set(started) <= {0, 3}
    assert value(connection, "select count(*) from pgmq.a_threads") == 4


@pytest.mark.slow
def test_a_handler_of_several_leases_is_not_started_twice(queue, workers):
    queue.send("threads", {"n": 0, "seconds": 2.5 * LEASE_S})
    some = workers("threads", "--no-maintenance")
    for _ in range(2):
        some.start()

    some.wait_for("done", 0)

    assert some.count("start")[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("queue_name", ["threads", "loop"])
def test_the_first_signal_finishes_what_runs_and_gives_the_rest_back_uncounted(
    connection, queue, workers, queue_name
):
    queue.send_batch(queue_name, [{"n": n, "seconds": 0.5} for n in range(20)])
    some = workers(queue_name, "--no-maintenance", "--concurrency", "2")
    process = some.start()
    some.wait_until(lambda: len(some.lines("start")) >= 2, "two handlers to start")

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=20) == 0
    assert some.count("start") == some.count("done")
    left = 20 - len(some.lines("done"))
    assert left > 10
    assert value(connection, f"select count(*) from pgmq.q_{queue_name} where vt <= now()") == left
    another = workers(queue_name, "--no-maintenance", "--until-empty")
    assert another.start().wait(timeout=30) == 0
    assert {line["attempt"] for line in another.lines("start")} == {1}
