"""Messages that kill their worker: dead-lettered after max_attempts, and others continue."""

from __future__ import annotations

import json

import pytest

from faults.app import ATTEMPTS
from pgsluice import ShareGroup
from support import rows, value

HEALTHY = 60
IN_A_PROCESS = {
    "raise": "RuntimeError",
    "exit": "process died",
    "segfault": "process died",
    "kill": "process died",
    "hang": "timeout",
}


def dead_letters(connection) -> dict[int, tuple[str, str, int]]:
    """Return reason, error type and attempts by message."""
    return {
        n: tuple(details)
        for n, *details in rows(
            connection,
            "select (message ->> 'n')::integer, reason, error_type, attempts from sluice.dead_letter",
        )
    }


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_message_that_kills_its_process_is_dead_lettered_and_others_continue(
    connection, queue, workers
):
    poison = {1000 + n: do for n, do in enumerate(IN_A_PROCESS)}
    queue.send_batch("processes", [{"n": n, "do": do} for n, do in poison.items()])
    queue.send_batch("processes", [{"n": n} for n in range(HEALTHY)])
    some = workers("processes", "--no-maintenance")
    some.start()

    some.wait_until(
        lambda: len(dead_letters(connection)) == len(poison),
        "all poison messages to be dead-lettered",
        60,
    )
    some.wait_until(lambda: len(some.lines("done")) >= HEALTHY, "the other messages to be handled")

    starts = some.count("start")
    assert {n: starts[n] for n in poison} == dict.fromkeys(poison, ATTEMPTS)
    assert {n: starts[n] for n in range(HEALTHY)} == dict.fromkeys(range(HEALTHY), 1)
    found = dead_letters(connection)
    assert {poison[n]: (kind, attempts) for n, (_, kind, attempts) in found.items()} == {
        do: (kind, ATTEMPTS) for do, kind in IN_A_PROCESS.items()
    }
    assert some.processes[0].poll() is None


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("queue_name", ["threads", "held"])
def test_message_that_kills_the_worker_is_dead_lettered_after_max_attempts(
    connection, queue, workers, queue_name
):
    queue.send_batch(queue_name, [{"n": 0, "do": "exit"}, *({"n": n} for n in range(1, 10))])
    some = workers(queue_name, "--no-maintenance", "--supervise")
    some.start()

    some.wait_until(
        lambda: len(dead_letters(connection)) == 1, "the message to be dead-lettered", 60
    )
    some.wait_until(
        lambda: value(connection, f"select count(*) from pgmq.a_{queue_name}") == 9,
        "the other messages to be handled",
    )

    assert some.count("start")[0] == ATTEMPTS
    _, _, attempts = dead_letters(connection)[0]
    assert attempts == ATTEMPTS
    assert rows(connection, "select n from effect order by n") == [(n,) for n in range(1, 10)]


def test_payload_of_the_wrong_type_is_dead_lettered_immediately_with_the_reason(
    connection, queue, workers
):
    queue.send_batch("threads", [["no", "work"], {"n": "one"}, {"n": 1}])
    some = workers("threads", "--no-maintenance", "--until-empty")

    assert some.start().wait(timeout=30) == 1  # there are dead letters

    assert some.count("done") == {1: 1}
    reasons = [reason for (reason,) in rows(connection, "select reason from sluice.dead_letter")]
    assert len(reasons) == 2
    assert all("payload" in reason for reason in reasons)


@pytest.mark.slow
def test_retried_message_is_dead_lettered_after_max_attempts(connection, queue, workers):
    queue.send("threads", {"n": 0, "do": "again"})
    some = workers("threads", "--no-maintenance")
    some.start()

    some.wait_until(lambda: len(dead_letters(connection)) == 1, "the message to be dead-lettered")

    assert some.count("start")[0] == ATTEMPTS


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_an_event_that_kills_takes_no_other_of_its_claim_with_it(connection, workers):
    """All events are claimed together: an expired claim must not count as an attempt of each."""
    connection.execute("select pgq.create_queue('events')")
    ShareGroup(connection, "events", "group").create(max_attempts=ATTEMPTS)
    works = [{"n": n, **({"do": "exit"} if n == 5 else {"seconds": 0.05})} for n in range(30)]
    for work in works:
        connection.execute("select pgq.insert_event('events', 'work', %s)", (json.dumps(work),))
    connection.execute("select * from sluice.tick()")
    some = workers("events", "--no-maintenance", "--supervise")
    some.start()

    some.wait_until(
        lambda: value(connection, "select count(*) from sluice.dead_letter") >= 1,
        "the event to be dead-lettered",
        90,
    )
    some.wait_until(
        lambda: value(connection, "select count(distinct n) from effect") == 29,
        "the other messages to be handled",
        60,
    )

    assert rows(connection, "select (ev_data::jsonb ->> 'n')::int, reason, attempts from sluice.dead_letter") == [
        (5, "its lease ended", ATTEMPTS)
    ]  # fmt: skip
    assert some.count("start")[5] == ATTEMPTS
    assert rows(connection, "select n from effect order by n") == [
        (n,) for n in range(30) if n != 5
    ]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_message_that_exhausts_memory_is_dead_lettered_and_others_continue(
    connection, queue, workers
):
    queue.send_batch("hungry", [{"n": 0, "do": "eat"}, *({"n": n} for n in range(1, 10))])
    some = workers("hungry", "--no-maintenance", "--max-memory-mb", "900")
    some.start()

    some.wait_until(
        lambda: len(dead_letters(connection)) == 1, "the message to be dead-lettered", 60
    )
    some.wait_until(lambda: len(some.lines("done")) >= 9, "the other messages to be handled")

    assert dead_letters(connection) == {0: ("too many attempts", "MemoryError", ATTEMPTS)}
    assert some.processes[0].poll() is None
