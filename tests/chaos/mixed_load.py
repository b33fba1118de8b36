"""One worker with handlers of every kind, and its producers: `python -m chaos.mixed_load URL FOLDER`.

A closed loop: a producer sends as long as less than a window of its events is not handled, so the
load is the maximum of the system. Only the work queue has a constant rate: a held snapshot keeps its
dead rows, and at the maximum it would slow down. Each message has a number, and a `Tally` per handler
finds those that are lost or done twice. Every second a line is appended to the file `figures` of the
folder. While there is a file `pause`, they send nothing. A file `stop` ends them; when everything is
handled, the worker stops.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from pgsluice.worker import App, Context, Outcome, Retry, Worker

LOG, STEPS, BATCHES, CHANGES = "events", "steps", "batches", "changes"
WINDOW, BATCH, KEYS = 1_000, 50, 64
JOBS_PER_S = 20
FAILING, PURCHASING, DELAYED = 40, 20, 25  # one in this number
DELAY_S, RETRY_S, SLOT_S = 1, 0.2, 1.0
DRAIN_S = 60.0  # without a message that is done
# Truncated, so that only tables of pgsluice grow.
TRUNCATED_EVERY = 2_000
_MEMORY = re.compile(r"VmRSS:\s+(\d+)")


class Tally:
    """Numbers of one handler, from 0: those sent and those done; its size is bounded by the window."""

    def __init__(self) -> None:
        self.sent = self.done = 0
        self.doubled: list[int] = []
        self._below = 0  # all numbers below are done
        self._above: set[int] = set()

    @property
    def outstanding(self) -> int:
        return self.sent - self.done

    def add(self, number: int) -> None:
        """Count a message that is done."""
        if number < self._below or number in self._above:
            self.doubled.append(number)
            return
        self.done += 1
        self._above.add(number)
        while self._below in self._above:
            self._above.remove(self._below)
            self._below += 1

    def lost(self) -> list[int]:
        """Return the first numbers that were sent and not done."""
        missing = (n for n in range(self._below, self.sent) if n not in self._above)
        return list(itertools.islice(missing, 5))


class Load:
    """The handlers, with their tallies."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.jobs, self.steps, self.events, self.batches, self.changes = (
            Tally(), Tally(), Tally(), Tally(), Tally(),
        )  # fmt: skip
        self.slots: set[str] = set()
        self.slots_doubled: list[str] = []
        self.unordered: list[int] = []
        self.retries = 0
        self._retrying: set[int] = set()
        self._last_of_key: dict[str, int] = {}
        self._declare()

    @property
    def tallies(self) -> dict[str, Tally]:
        return {
            "jobs": self.jobs,
            "steps": self.steps,
            "events": self.events,
            "batches": self.batches,
            "changes": self.changes,
        }

    def _declare(self) -> None:
        handler = self.app.handler
        self.send_job = handler("jobs", keep="delete", concurrency=50)(self._job())
        self.send_step = handler(log=STEPS, group="keyed", event_types=["step"], concurrency=KEYS)(
            self._step()
        )
        self.send_event = handler(log=LOG, group="workers", event_types=["event"], concurrency=50)(
            self._event()
        )
        self.send_batched = handler(log=BATCHES, consumer="lake", event_types=["entry"])(
            self._batched()
        )
        handler(log=CHANGES, group="audit", event_types=["c", "t"], concurrency=20)(self._change())
        handler("beats", keep="delete")(self._beat())

    def _fails_first(self, number: int) -> bool:
        if number % FAILING != 7:
            return False
        if number in self._retrying:
            self._retrying.remove(number)
            return False
        self._retrying.add(number)
        self.retries += 1
        return True

    def _job(self) -> Callable[..., Awaitable[Outcome | None]]:
        async def job(number: int) -> Outcome | None:
            if self._fails_first(-number - 1):
                return Retry(RETRY_S)
            self.jobs.add(number)
            return None

        return job

    def _step(self) -> Callable[..., Awaitable[None]]:
        async def step(step: dict[str, Any]) -> None:
            """Check the order of keys."""
            key, number = step["key"], step["number"]
            if number < self._last_of_key.get(key, -1):
                self.unordered.append(number)
            self._last_of_key[key] = number
            self.steps.add(number)

        return step

    def _event(self) -> Callable[..., Awaitable[Outcome | None]]:
        async def event(number: int, context: Context) -> Outcome | None:
            """Fail at first, or insert into a captured table in the transaction that acknowledges."""
            if self._fails_first(number):
                return Retry(RETRY_S)
            if number % PURCHASING == 0:
                async with context.transaction() as connection:
                    await connection.execute(
                        "insert into purchase values (%s)", (number // PURCHASING,)
                    )
                self.changes.sent += 1
            self.events.add(number)
            return None

        return event

    def _batched(self) -> Callable[..., Awaitable[None]]:
        async def batched(number: int) -> None:
            self.batches.add(number)

        return batched

    def _change(self) -> Callable[..., Awaitable[None]]:
        async def change(row: dict[str, Any]) -> None:
            if row.get("after"):  # not a TRUNCATE
                self.changes.add(row["after"]["number"])

        return change

    def _beat(self) -> Callable[..., Awaitable[None]]:
        async def beat(_payload: int, context: Context) -> None:
            slot = context.headers["x-pgmq-schedule"]["slot"]
            if slot in self.slots:
                self.slots_doubled.append(slot)
            self.slots.add(slot)

        return beat


class Producers:
    """Tasks that send while less than the window is outstanding."""

    def __init__(self, load: Load, url: str, folder: Path) -> None:
        self._load, self._url = load, url
        self._stop, self._pause = folder / "stop", folder / "pause"

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for produce in (self._jobs, self._steps, self._events, self._batches, self._truncate):
                tasks.create_task(produce())

    async def _turns(self, *tallies: Tally) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            while not self._stop.exists():
                if self._pause.exists():
                    await asyncio.sleep(0.05)
                elif max(tally.outstanding for tally in tallies) < WINDOW:
                    yield connection
                else:
                    await asyncio.sleep(0.001)

    async def _jobs(self) -> None:
        """One message at a time, at a constant rate."""
        jobs, send = self._load.jobs, self._load.send_job
        async for connection in self._turns(jobs):
            begin_s = time.monotonic()
            number, jobs.sent = jobs.sent, jobs.sent + 1
            delay_s = DELAY_S if number % DELAYED == 3 else 0
            await send.send_async(number, delay_s=delay_s, connection=connection)
            await asyncio.sleep(max(0.0, begin_s + 1 / JOBS_PER_S - time.monotonic()))

    async def _steps(self) -> None:
        steps = self._load.steps
        async for connection in self._turns(steps):
            numbers = range(steps.sent, steps.sent + BATCH)
            steps.sent += BATCH
            await self._load.send_step.send_many_async(
                [{"number": number, "key": f"key {number % KEYS}"} for number in numbers],
                connection=connection,
            )

    async def _events(self) -> None:
        events, send = self._load.events, self._load.send_event
        async for connection in self._turns(events, self._load.changes):
            numbers = list(range(events.sent, events.sent + BATCH))
            events.sent += BATCH
            await send.send_many_async(numbers[1:], connection=connection)
            if numbers[0] % (BATCH * DELAYED) == 0:
                await send.send_async(numbers[0], delay_s=DELAY_S, connection=connection)
            else:
                await send.send_async(numbers[0], connection=connection)

    async def _batches(self) -> None:
        batches = self._load.batches
        async for connection in self._turns(batches):
            numbers = list(range(batches.sent, batches.sent + BATCH))
            batches.sent += BATCH
            await self._load.send_batched.send_many_async(numbers, connection=connection)

    async def _truncate(self) -> None:
        changes, at = self._load.changes, TRUNCATED_EVERY
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            while not self._stop.exists():
                if changes.done >= at:
                    await connection.execute("truncate purchase")
                    at = changes.done + TRUNCATED_EVERY
                await asyncio.sleep(0.05)


def memory_mb() -> int:
    found = _MEMORY.search(Path("/proc/self/status").read_text())
    return int(found[1]) // 1024 if found else 0


@asynccontextmanager
async def figures(load: Load, file: Path) -> AsyncIterator[None]:
    """Append the counts each second."""

    async def append() -> None:
        while True:
            counts = {name: tally.done for name, tally in load.tallies.items()}
            line = {
                "at_s": time.monotonic(),
                "memory_mb": memory_mb(),
                "retries": load.retries,
                "slots": len(load.slots),
                "done": counts,
            }
            with file.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
            await asyncio.sleep(1)

    task = asyncio.create_task(append())
    try:
        yield
    finally:
        task.cancel()


async def main(url: str, folder: Path) -> None:
    load = Load(url)
    worker = Worker(load.app)
    working = asyncio.create_task(worker.run())
    async with figures(load, folder / "figures"):
        await Producers(load, url, folder).run()
        tallies = load.tallies.values()
        done, since = 0, time.monotonic()
        while any(tally.outstanding for tally in tallies) and time.monotonic() - since < DRAIN_S:
            if working.done():
                break
            if sum(tally.done for tally in tallies) > done:
                done, since = sum(tally.done for tally in tallies), time.monotonic()
            await asyncio.sleep(0.05)
    worker.stop()
    await working
    slots = sorted(load.slots)
    report = {
        "lost": {name: tally.lost() for name, tally in load.tallies.items() if tally.lost()},
        "doubled": {
            name: tally.doubled[:5] for name, tally in load.tallies.items() if tally.doubled
        },
        "unordered": load.unordered[:5],
        "slots": slots,
        "slots_doubled": load.slots_doubled[:5],
        "done": {name: tally.done for name, tally in load.tallies.items()},
        "retries": load.retries,
    }
    (folder / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
