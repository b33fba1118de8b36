"""Processes of a long run: `python -m bench.endurance.child TASK NUMBERS`, with the URL in PGSLUICE_DSN.

- `produce`: send numbered messages while fewer than the backlog are not done, up to the target.
- `consume`: read whole batches of a log, and finish each in the transaction of its receipt.
- `update`: update rows of a captured table at a fixed rate.
- `probe`: time claims and ticks, and print each as a line of JSON.

SIGTERM ends each after its current transaction. A lost connection is opened again.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import psycopg

from bench.endurance import parts
from bench.endurance.numbers import Counter
from bench.endurance.parts import PARTS
from pgsluice import EventLog
from pgsluice.connection import connect
from pgsluice.errors import TRANSIENT, SluiceError, translate

RECONNECT_S = 0.2
EMPTY_S = 0.01
FULL_S = 0.002
PROBE_S = 0.1
PROBE_SHARE = 4  # waits this many times the duration of its statements, which are long while a snapshot is held
PROBED = 100  # messages of a claim

Connection = psycopg.Connection[Any]
_stop = Event()


def until_stopped(once: Callable[[Connection], Iterator[None]]) -> None:
    """Run a generator on a connection until stopped; after a transient error, run it anew on another."""
    while not _stop.is_set():
        try:
            with connect(autocommit=True) as connection:
                connection.prepare_threshold = 1
                for _ in once(connection):
                    if _stop.is_set():
                        return
                return
        except (psycopg.Error, SluiceError) as error:
            failure = translate(error) if isinstance(error, psycopg.Error) else error
            if not isinstance(failure, TRANSIENT):
                raise
            print(
                f"{sys.argv[1]}: {type(failure).__name__}: {failure}".splitlines()[0],
                file=sys.stderr,
            )
            _stop.wait(RECONNECT_S)


def produce(folder: Path, part: str, target: int, backlog: int, batch: int) -> None:
    counters = [Counter(folder / name) for name in PARTS[part].counters]
    progress = Counter(folder / "producer")

    def send(connection: Connection) -> Iterator[None]:
        # After a lost connection, the receipts say if the last batch was committed.
        sent = _accounted(connection, parts.SENT)
        while sent < target:
            if sent - min(counter.read()[0] for counter in counters) > backlog - batch:
                time.sleep(FULL_S)
                yield
                continue
            last = min(sent + batch, target)
            connection.execute(PARTS[part].send, {"first": sent + 1, "last": last})
            sent = last
            progress.write(sent)
            yield

    until_stopped(send)


def consume(folder: Path, log: str, consumer: str) -> None:
    counter = Counter(folder / consumer)

    def read(connection: Connection) -> Iterator[None]:
        events = EventLog(connection)
        done = _accounted(connection, consumer)
        counter.write(done)
        while True:
            batch = events.next_batch(log, consumer)
            if batch is None:
                time.sleep(EMPTY_S)
                yield
                continue
            with connection.transaction():
                count, total = _read(connection, batch, is_numbered=log == parts.NAME)
                events.finish_batch(batch)
                if count:
                    connection.execute(parts.RECEIPT, [consumer, count, total])
            done += count
            counter.write(done)
            yield

    until_stopped(read)


def _read(connection: Connection, batch: int, *, is_numbered: bool) -> tuple[int, int]:
    """Read a batch; return how many events it has, and the sum of their numbers.

    All columns are transferred, and one is decoded, which is the least that a client in Python can do.
    """
    rows: Any = connection.execute(parts.READ, [batch]).pgresult
    if not is_numbered:
        return rows.ntuples, 0
    return rows.ntuples, sum(
        map(parts.number_of, (rows.get_value(row, 0) for row in range(rows.ntuples)))
    )


def _accounted(connection: Connection, who: str) -> int:
    """Return the messages in the receipts of a process."""
    ((events,),) = connection.execute(parts.RECEIVED, [who]).fetchall()
    return int(events)


def update(per_s: int) -> None:
    step_s = parts.UPDATED / per_s

    def change(connection: Connection) -> Iterator[None]:
        first, due = 1, time.monotonic()
        while True:
            connection.execute(parts.UPDATE, {"first": first})
            first = first + parts.UPDATED if first + parts.UPDATED < parts.ROWS else 1
            due = max(due + step_s, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))
            yield

    until_stopped(change)


def probe(part: str) -> None:
    """Time claims, each rolled back: so the probe leaves the accounts of the run alone."""
    statements = {"claim": f"select from sluice.claim_messages('{parts.NAME}', 30, {PROBED})"}
    if PARTS[part].is_log:
        statements = {
            "claim": f"select from sluice.claim('{parts.NAME}', '{parts.GROUP}', {PROBED})",
            "tick": f"select sluice.log_tick('{parts.NAME}')",
        }

    def ask(connection: Connection) -> Iterator[None]:
        while True:
            began_s = time.perf_counter()
            for kind, statement in statements.items():
                with connection.transaction(force_rollback=kind == "claim"):
                    begin = time.perf_counter()
                    connection.execute(statement)
                    took = time.perf_counter() - begin
                print(json.dumps([kind, round(took * 1_000, 3)]), flush=True)
            _stop.wait(max(PROBE_S, PROBE_SHARE * (time.perf_counter() - began_s)))
            yield

    until_stopped(ask)


def main() -> None:
    task, text = sys.argv[1:]
    numbers = json.loads(text)
    if "folder" in numbers:
        numbers["folder"] = Path(numbers["folder"])
    tasks: dict[str, Callable[..., None]] = {
        "produce": produce,
        "consume": consume,
        "update": update,
        "probe": probe,
    }
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _stop.set())
    tasks[task](**numbers)


if __name__ == "__main__":
    main()
