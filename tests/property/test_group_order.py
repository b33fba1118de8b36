"""Order of FIFO groups with consumers that roll back, abandon claims, are slow or are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import value, wait_until
from support.groups import VT_S, ids, violations
from support.history import Log, Operation, operations

READERS = ("read_grouped", "read_grouped_rr", "read_grouped_head")
MESSAGES = 250
TESTS = Path(__file__).parents[1]
DISTURBED_S = 4.0
DEADLINE_S = 60.0


class Consumers:
    """Six processes; a killed one is replaced."""

    def __init__(self, url, reader, source, history):
        self._arguments = (url, reader, source, history)
        self._source = source
        self._processes = []
        self._started = 0

    def start(self):
        url, reader, source, history = self._arguments
        self._started += 1
        self._processes.append(
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "support.groups", url, reader),
                    *(str(source.randrange(2**31)), str(history), f"c{self._started}"),
                ],
                cwd=TESTS,
                stderr=subprocess.PIPE,
            )
        )

    def kill_one(self, source):
        process = self._processes.pop(source.randrange(len(self._processes)))
        process.kill()
        assert process.communicate()[1] == b""

    def __enter__(self):
        for _ in range(6):
            self.start()
        return self

    def __exit__(self, *failure):
        while self._processes:
            self.kill_one(self._source)


def run(database, reader, seed, history):
    """Consume a queue with faults; return the operations, and the group of every message."""
    source = random.Random(seed)
    with database.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.create_fifo_index('orders')")
        with Consumers(database.url, reader, source, history) as consumers:
            wait_until(lambda: history.exists() and len(processes(history)) == 6, "six consumers")
            connection.execute(
                "select pgmq.send_batch('orders', array_agg('{}'::jsonb), "
                "array_agg(jsonb_build_object('x-pgmq-group', n * n %% 11))) from generate_series(1, %s) as n",
                [MESSAGES],
            )
            begun = time.monotonic()
            while value(connection, "select count(*) from pgmq.q_orders") > 0:
                assert time.monotonic() < begun + DEADLINE_S, "messages are left"
                time.sleep(0.1)
                if time.monotonic() > begun + DISTURBED_S or source.random() < 0.5:
                    continue
                if source.random() < 0.4:
                    consumers.kill_one(source)
                    consumers.start()
                else:
                    connection.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity "
                        "where application_name = 'group consumer' and datname = current_database() "
                        "order by md5(pid::text || %s) limit 1",
                        [source.random()],
                    )
    # In the order of sending, from 1 on.
    return operations(history), {n: str(n * n % 11) for n in range(1, MESSAGES + 1)}


def processes(history):
    return {op.process for op in operations(history)}


@pytest.fixture
def history(tmp_path):
    return tmp_path / "history"


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_six_consumers_keep_the_order_of_every_group(database_18, history, seed, reader):
    done, group_of = run(database_18, reader, seed, history)

    assert list(violations(done, group_of)) == []
    # The run must cover all cases: everything was delivered, and claims ended in each way.
    delivered = {msg_id for op in done if op.name.startswith("claim") for msg_id in ids(op)}
    assert delivered == set(group_of)
    assert {op.name for op in done if op.outcome == "ok"} >= {"finish", "claim to roll back"}
    assert len({op.process for op in done}) >= 6


@pytest.mark.slow
def test_a_reader_that_knows_no_groups_is_found_out(database_18, history, seed):
    done, group_of = run(database_18, "read", seed, history)

    assert len(list(violations(done, group_of))) > 10


# The two conditions of _next_groups; each suffices to skip groups in flight.
GUARDS = {
    "where %2$s between named.key and named.key\n                order by": (
        "where %2$s between named.key and named.key and q.vt <= $1\n                order by"
    ),
    "head.read_ct > 0 or not exists": "true or not exists",
}


@pytest.mark.slow
def test_a_reader_that_passes_over_the_head_in_flight_is_found_out(database_18, history, seed):
    with database_18.connect() as connection:
        source = value(
            connection, "select pg_get_functiondef(oid) from pg_proc where proname = '_next_groups'"
        )
        for guard, planted in GUARDS.items():
            assert source.count(guard) == 1
            source = source.replace(guard, planted)
        connection.execute(source)

    done, group_of = run(database_18, "read_grouped_head", seed, history)

    assert list(violations(done, group_of)) != []


GROUPS = {1: "a", 2: "a", 3: "b"}


def claim(ids, invoked, ended, name="claim"):
    return Operation("c", name, ids, invoked, ended, "ok")


def finish(msg_id, invoked, ended, outcome="ok", name="finish"):
    return Operation("c", name, [msg_id], invoked, ended, outcome)


BROKEN = {
    "the second while the first is unclaimed": [claim([2], 0, 1)],
    "the second while the first is in flight": [claim([1], 0, 0.1), claim([2], 0.2, 0.3)],
    "the second before the first was asked to go": [
        claim([1], 0, 0.1), claim([2], 5, 5.1), finish(1, 5.2, 5.3),
    ],
    "the second after the first failed to go": [
        claim([1], 0, 0.1), finish(1, 0.2, 0.3, "fail"), claim([2], 5, 5.1),
    ],
    "the first twice at a time": [claim([1], 0, 0.1), claim([1], 0.2, 0.3)],
    "the first beside the second": [
        claim([1, 2], 0, 0.1), finish(1, 0.2, 0.3), claim([2], 0.4, 0.5),
    ],
    "a claim in the wrong order": [claim([2, 1], 0, 0.1)],
    "a claim that overtakes and is undone": [claim([2], 0, 1, "claim to roll back")],
}  # fmt: skip
SOUND = {
    "both at once": [claim([1, 2], 0, 0.1)],
    "another group": [claim([1], 0, 0.1), claim([3], 0.2, 0.3)],
    "the second when the first is asked to go and not yet answered": [
        claim([1], 0, 0.1), finish(1, 0.2, 0.9), claim([2], 0.3, 0.4),
    ],
    "the second when nobody knows of the first": [
        claim([1], 0, 0.1), finish(1, 0.2, float("inf"), "info"), claim([2], 5, 5.1),
    ],
    "two claims at once; one may have been undone first": [
        claim([1], 0, 0.5, "claim to roll back"), claim([1], 0.4, 0.6),
    ],
    "the first again when its claim has lapsed": [claim([1], 0, 0.1), claim([1], VT_S, VT_S + 0.2)],
    "the second after an old claim's finish of the first": [
        finish(1, 0, 9), claim([1], 0.1, 0.2), claim([2], 0.3, 0.4),
    ],
    "the first again when it was given back": [
        claim([1], 0, 0.1), finish(1, 0.2, 0.3, name="give back"), claim([1], 0.25, 0.4),
    ],
    "in turns": [claim([1, 3, 2], 0, 0.1)],
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_the_checker_finds(broken):
    assert list(violations(broken, GROUPS)) != []


@pytest.mark.parametrize("sound", SOUND.values(), ids=SOUND)
def test_the_checker_lets_pass(sound):
    assert list(violations(sound, GROUPS)) == []


def test_history_of_a_killed_consumer_ends_with_an_unknown_outcome(history):
    log, other = Log(history, "killed"), Log(history, "other")
    log.write("invoke", "claim")
    log.write("ok", "claim", [1, 2])
    log.write("invoke", "finish", [1])
    other.write("invoke", "finish", [2])
    other.write("fail", "finish")

    found = operations(history)

    assert [(op.name, ids(op), op.outcome) for op in found] == [
        ("claim", [1, 2], "ok"),
        ("finish", [1], "info"),
        ("finish", [2], "fail"),
    ]
    assert found[1].ended > 10**9
