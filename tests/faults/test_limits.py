"""Queue limits while workers are killed: never exceeded, and expired leases free slots."""

from __future__ import annotations

import time

import pytest

from faults.limited_app import FLEET, LEASE_S, RATE, RATE_S
from faults.workers import Workers
from support import value

QUEUES = ("fleet", "keyed", "rated")
EACH = 12
KEYS = 4


def runs_of(some, killed_at):
    """Yield the message number, start and end of each run of a handler."""
    ends = {(line["pid"], line["n"], line["attempt"]): line["at"] for line in some.lines("done")}
    for line in some.lines("start"):
        run = line["pid"], line["n"], line["attempt"]
        yield line["n"], line["at"], ends.get(run, killed_at.get(line["pid"]))


def most_at_once(runs):
    events = sorted(
        (at, change) for _, start, end in runs for at, change in ((start, 1), (end, -1))
    )
    running = most = 0
    for _, change in events:
        running += change
        most = max(most, running)
    return most


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.long)])
def test_limits_hold_while_workers_are_killed_and_all_messages_are_handled(
    connection, queue, database_18, tmp_path, kills
):
    for number, name in enumerate(QUEUES):
        queue.create(name)
        for n in range(number * EACH, (number + 1) * EACH):
            headers = {"x-pgmq-group": f"key {n % KEYS}"} if name == "keyed" else None
            queue.send(name, {"n": n, "seconds": 0.1}, headers=headers)
    killed_at = {}

    with Workers(
        database_18.url,
        tmp_path,
        queues=",".join(QUEUES),
        options=("--no-maintenance",),
        app="faults.limited_app:app",
    ) as some:
        began_s = time.monotonic()
        running = [some.start() for _ in range(2)]
        for kill in range(kills):
            before = len(some.lines("start"))
            some.wait_until(lambda before=before: len(some.lines("start")) > before + 3, "starts")
            victim = running[kill % 2]
            victim.kill()
            victim.wait()
            killed_at[victim.pid] = time.monotonic()
            running[kill % 2] = some.start()
        for name in QUEUES:
            some.wait_until(
                lambda name=name: value(connection, f"select count(*) from pgmq.q_{name}") == 0,
                f"queue {name} to be empty",
                30 + kills * LEASE_S,
            )

    runs = list(runs_of(some, killed_at))
    fleet = [run for run in runs if run[0] < EACH]
    keyed = [run for run in runs if EACH <= run[0] < 2 * EACH]
    starts = sorted(start for n, start, _ in runs if n >= 2 * EACH)
    assert most_at_once(fleet) == FLEET
    for key in range(KEYS):
        of_key = [run for run in keyed if run[0] % KEYS == key]
        assert most_at_once(of_key) == 1
        assert sorted(n for n, *_ in of_key) == [
            n for n, *_ in sorted(of_key, key=lambda run: run[1])
        ]
    for number, start in enumerate(starts, 1):
        assert number <= RATE * ((start - began_s) // RATE_S + 1)
    assert {n for n, *_ in runs} == set(range(len(QUEUES) * EACH))
    assert len(killed_at) == kills
    assert value(connection, "select count(*) from sluice.dead_letter") == 0
