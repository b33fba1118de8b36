"""A producer that records the events it sends.

Usage: `python -m chaos.producer URL HISTORY PROCESS SEED COUNT RATE_PER_S QTY_MAX`. It sends COUNT
events at about this rate, including those with an unknown outcome, and ends.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import psycopg

from chaos.consumer import LOG
from chaos.sessions import connect, is_gone
from support.history import Log


def insert(session: psycopg.Connection, values: list[str], how: str) -> None:
    """Insert events in the open transaction."""
    if how == "singly":
        for value in values:
            session.execute("select pgq.insert_event(%s, 't', %s)", [LOG, value])
    elif how == "at once":
        types = ["t"] * len(values)
        session.execute("select sluice.insert_events(%s, %s, %s)", [LOG, types, values])
    else:
        (table,) = session.execute("select pgq.current_event_table(%s)", [LOG]).fetchall()[0]
        with session.cursor().copy(f"copy {table} (ev_type, ev_data) from stdin") as copy:
            for value in values:
                copy.write_row(("t", value))


def produce(
    url: str,
    log: Log,
    process: str,
    chance: random.Random,
    count: int,
    rate_per_s: float,
    qty_max: int,
) -> None:
    sizes = [size for size in (1, 3, 10, 30, 100) if size <= qty_max]
    session = connect(url)
    begun, named, sent = time.monotonic(), 0, 0
    while sent < count:
        time.sleep(max(0.0, begun + sent / rate_per_s - time.monotonic()))
        size = min(count - sent, chance.choice(sizes))
        values = [f"{process}-{named + n}" for n in range(size)]
        named += size
        how = "singly" if size < 10 else chance.choice(["at once", "at once", "by copy"])
        undone, late = chance.random() < 0.05, chance.random() < 0.05
        if session.closed:
            session = connect(url)
        log.write("invoke", "send", {"values": values})
        try:
            session.execute("begin")
            insert(session, values, how)
            if late:
                # Commits after later claims and ticks.
                time.sleep(chance.random() * 1.5)
            if undone:
                session.execute("rollback")
                log.write("fail", "send")
                continue
        except psycopg.Error as error:
            if not is_gone(session, error):
                raise
            log.write("fail", "send")
            continue
        try:
            session.execute("commit")
            log.write("ok", "send")
        except psycopg.Error as error:
            if not is_gone(session, error):
                raise
            log.write("info", "send")
        sent += size


if __name__ == "__main__":
    url, history, process, seed, count, rate_per_s, qty_max = sys.argv[1:]
    log = Log(Path(history), process)
    chance = random.Random(int(seed))
    produce(url, log, process, chance, int(count), float(rate_per_s), int(qty_max))
