"""Readers of FIFO groups: the same calls on PGMQ and on pgsluice, as in test_behaviour."""

from __future__ import annotations

import pytest

from compat.test_behaviour import CLEAR, RelativeLoader, outcome
from support import rows

DIFFERENCES: dict[str, str] = {}
IN_FLIGHT = "a group ends before its first message in flight or delayed: nothing overtakes it"
LATE = "a message that commits late waits for the later one of its group that is in flight"
NEGATIVE = "a negative qty is an error also when no group can be read, as everywhere else"
BROKEN = "create_fifo_indexes_all leaves out a queue without a table, with a warning"


def differs(statement: str, reason: str) -> str:
    DIFFERENCES[statement] = reason
    return statement


READERS = ("read_grouped", "read_grouped_rr", "read_grouped_head")


def sent(queue: str, groups: str) -> list[str]:
    """Return calls that create a queue with a message for each group; - has no group."""
    return [
        f"select * from pgmq.create('{queue}')",
        *[
            f"select pgmq.send('{queue}', '{{}}'::jsonb, "
            + ("null::jsonb)" if g == "-" else f"'{{\"x-pgmq-group\": {g}}}'::jsonb)")
            for g in groups.split()
        ],
    ]


def of_a_reader(f: str) -> list[str]:
    q = f.rpartition("_")[2]
    return [
        *sent(q, '"a" "b" "a" - "c" "" "b" 5 "5" "_default_fifo_group" null'),
        f"select * from pgmq.{f}('{q}', 60, 0)",
        f"select * from pgmq.{f}('{q}', 60, -1)",
        f"select * from pgmq.{f}('{q}', null, 1)",
        f"select * from pgmq.{f}('{q}', 60, 1)",
        f"select * from pgmq.{f}('{q.upper()}', vt => 60, qty => 1)",
        f"select * from pgmq.{f}(queue_name => '{q}', vt => 60, qty => 3)",
        f"select * from pgmq.set_vt('{q}', 1, 0)",
        f"select * from pgmq.{f}('{q}', 0, 4)",
        f"select * from pgmq.{f}('{q}', -5, 100)",
        f"select * from pgmq.{f}('{q}', 60, null)",
        f"select * from pgmq.{f}('{q}', 60, 100)",
        f"select * from pgmq.{f}('{q}', 60, 100)",
        f"select pgmq.delete('{q}', array[1, 2])",
        f"select * from pgmq.{f}('{q}', 60, 100)",
        f"select * from pgmq.{f}('nope', 60, 1)",
        f"select * from pgmq.{f}('nope', 60, null)",
        f"select * from pgmq.{f}('a$b', 60, 1)",
        f"select * from pgmq.{f}(null, 60, 1)",
        f"select * from pgmq.create('{q}_empty')",
        f"select * from pgmq.{f}('{q}_empty', 60, 1)",
        (
            differs(f"select * from pgmq.{f}('{q}_empty', 60, -1)", NEGATIVE)
            if f == "read_grouped"
            else f"select * from pgmq.{f}('{q}_empty', 60, -1)"
        ),
        f"select * from pgmq.{f}('{q}_empty', null, 1)",
        f"select * from pgmq.q_{q} order by msg_id",
        # A delayed head blocks its group; in pgsluice a delayed follower does, too.
        *sent(f"{q}_later", '"a" "a" "a" "b"'),
        f"select * from pgmq.set_vt('{q}_later', 2, 60)",
        (
            f"select * from pgmq.{f}('{q}_later', 0, 1)"
            if f.endswith("head")
            else differs(f"select * from pgmq.{f}('{q}_later', 0, 9)", IN_FLIGHT)
        ),
        f"select * from pgmq.set_vt('{q}_later', 1, 60)",
        f"select msg_id from pgmq.{f}('{q}_later', 0, 9)",
        # Simulates a late commit: message 1 appears while 2 is in flight.
        *sent(f"{q}_late", '"a" "a"'),
        f"update pgmq.q_{q}_late set msg_id = default, headers = null where msg_id = 1",
        f"select msg_id from pgmq.{f}('{q}_late', 60, 9)",
        f"insert into pgmq.q_{q}_late (msg_id, vt, headers) overriding system value "
        'values (1, now(), \'{"x-pgmq-group": "a"}\')',
        differs(f"select msg_id from pgmq.{f}('{q}_late', 60, 9)  -- late", LATE),
    ]


def of_a_poll(f: str) -> list[str]:
    q = f.rpartition("_")[2]
    return [
        *sent(q, '"a" "b"'),
        f"select * from pgmq.{f}_with_poll('{q}', 60, 1, 0)",
        f"select * from pgmq.{f}_with_poll('{q}', 60, 1, -1, 10)",
        f"select * from pgmq.{f}_with_poll('nope', 60, 1, 0)",
        f"select * from pgmq.{f}_with_poll('nope', 60, 1)",
        f"select * from pgmq.{f}_with_poll(queue_name => '{q}', vt => 60, qty => 1, max_poll_seconds => 1, "
        "poll_interval_ms => 10)",
        f"select * from pgmq.{f}_with_poll('{q}', 60, 5, null, null)",
        f"select * from pgmq.{f}_with_poll('{q}', 60, 5, 1, 10)",
        f"select * from pgmq.{f}_with_poll('{q}', 60, -1, 0)",
    ]


SCENARIOS: dict[str, list[str]] = {
    **{f: of_a_reader(f) for f in READERS},
    **{f"{f}_with_poll": of_a_poll(f) for f in READERS},
    "indexes": [
        "select * from pgmq.create('I2')",
        "select * from pgmq.create('i')",
        "select * from pgmq.create_fifo_index('i')",
        "select * from pgmq.create_fifo_index(queue_name => 'i')",
        "select * from pgmq.create_fifo_index('I2')",
        "select * from pgmq.create_fifo_index('nope')",
        "select * from pgmq.create_fifo_index(null)",
        "select * from pgmq.create_fifo_indexes_all()",
        "drop table pgmq.q_i2",
        differs("select * from pgmq.create_fifo_indexes_all() -- with one broken", BROKEN),
    ],
}


@pytest.fixture(scope="module")
def both(ours, upstream):
    for connection in (ours, upstream):
        connection.adapters.register_loader("timestamptz", RelativeLoader)
        connection.execute("set client_min_messages = notice")
    return ours, upstream


@pytest.mark.parametrize("name", SCENARIOS)
def test_ours_answers_as_pgmq_does(both, name):
    unlike = []
    for connection in both:
        connection.execute(CLEAR)

    for statement in SCENARIOS[name]:
        mine, theirs = (outcome(connection, statement) for connection in both)
        if (mine != theirs) != (statement in DIFFERENCES):
            unlike.append(f"{statement}\n    ours: {mine}\n    PGMQ: {theirs}")

    assert not unlike, "\n".join(unlike)


@pytest.mark.parametrize("qty", [1, 3, 6, 100])
def test_round_robin_comes_in_pgmqs_order(both, qty):
    for connection in both:
        connection.execute(CLEAR)
        for statement in sent("turns", '"a" "b" "a" "c" "b" "a" "a" "d"'):
            connection.execute(statement)

    mine, theirs = (
        rows(connection, f"select msg_id from pgmq.read_grouped_rr('turns', 60, {qty})")
        for connection in both
    )

    assert mine == theirs
    assert len(mine) == min(qty, 8)


def test_every_difference_is_tried():
    assert DIFFERENCES.keys() <= {s for statements in SCENARIOS.values() for s in statements}


@pytest.mark.parametrize(
    "name", [*READERS, *[f"{f}_with_poll" for f in READERS], "create_fifo_index"]
)
def test_planner_and_callers_are_promised_what_pgmq_promises(ours, upstream, name):
    query = (
        "select provolatile::text, proisstrict from pg_proc "
        "where pronamespace = 'pgmq'::regnamespace and proname = %s"
    )

    mine = rows(ours, query, name)

    assert len(mine) == 1
    assert mine == rows(upstream, query, name)
