"""Histories of transactions, and the snapshots taken in between."""

from __future__ import annotations

import random

import psycopg


def play(seed: int) -> tuple[list[str], list[int]]:
    """Begin and end transactions in random order, with ticks in between.

    Returns:
        The ticks' snapshots in order, and the ids of all transactions.
    """
    dice = random.Random(seed)
    following = 1000
    running: list[int] = []
    snapshots = []
    for _ in range(120):
        action = dice.choices(("begin", "end", "tick"), (5, 4, 1))[0]
        if action == "begin":
            running.append(following)
            following += dice.choice((1, 1, 1, 2, 7))
        elif action == "end" and running:
            running.remove(dice.choice(running))
        elif action == "tick":
            snapshots.append(
                f"{min(running, default=following)}:{following}:{','.join(map(str, sorted(running)))}"
            )
    return snapshots, list(range(1000, following))


def play_into(connection: psycopg.Connection, snapshots: list[str], xids: list[int]) -> None:
    """Create a log `log` with these ticks, from 1 on, and an event per transaction, with its id."""
    connection.execute("select pgq.create_queue(%s)", ("log",))
    connection.execute("delete from pgq.tick")
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into pgq.event_1_0 (ev_id, ev_time, ev_txid) values (%s, now(), %s::text::xid8)",
            [(xid, xid) for xid in xids],
        )
        cursor.executemany(
            "insert into pgq.tick_1_0 (tick_queue, tick_id, tick_snapshot, tick_event_seq) "
            "values (1, %s, %s, %s)",
            [(tick, snapshot, 1000 * tick) for tick, snapshot in enumerate(snapshots, 1)],
        )
    # Ticks beyond the sequence are not searched.
    connection.execute("select setval('pgq.event_1_tick_seq', %s)", (len(snapshots),))
