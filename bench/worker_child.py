"""Program of `working.Child`: `python -m bench.worker_child TASK SYSTEM URL NUMBERS`.

It prints `ready`, waits for a line, runs its task, and prints the measurement as JSON:
- `drain`: run a worker until N messages are handled; seconds until it has acknowledged them and stopped.
- `cost`: the same; these seconds, and those of CPU time of the process.
- `serve`: the same for messages that contain their send time; seconds from send to handling of each.
- `send`: send such messages at a fixed rate; messages sent per second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from bench.systems.variants import VARIANTS
from bench.systems.workers import SYSTEMS
from bench.working import Working, steps


async def ready() -> None:
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


async def drain(system: Working, url: str, messages: int, concurrency: int) -> float:
    seconds, _ = await cost(system, url, messages, concurrency)
    return seconds


async def cost(system: Working, url: str, messages: int, concurrency: int) -> tuple[float, float]:
    done = asyncio.Event()
    left = messages

    def handled(_payload: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.set()

    async with system.worker(url, concurrency, handled) as work:
        await ready()
        begin, cpu_begin = time.perf_counter(), time.process_time()
        await work(done)
        return time.perf_counter() - begin, time.process_time() - cpu_begin


async def serve(system: Working, url: str, messages: int, concurrency: int) -> list[float]:
    done = asyncio.Event()
    latencies: list[float] = []

    def handled(payload: str) -> None:
        latencies.append(time.time() - float(payload))
        if len(latencies) == messages:
            done.set()

    async with system.worker(url, concurrency, handled) as work:
        working = asyncio.create_task(work(done))
        await ready()
        await working
    return latencies


async def send(system: Working, url: str, messages: int, per_s: float) -> float:
    async with system.sender(url) as send_one:
        await ready()
        begin = time.perf_counter()
        async for _ in steps(messages, per_s):
            await send_one(repr(time.time()))
        return messages / (time.perf_counter() - begin)


def main() -> None:
    task, name, url, numbers = sys.argv[1:]
    system = {**SYSTEMS, **VARIANTS}[name]()
    measure: Any = {"drain": drain, "cost": cost, "serve": serve, "send": send}[task]
    loop_factory = None
    if system.uvloop:
        import uvloop

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        print(json.dumps(runner.run(measure(system, url, **json.loads(numbers)))), flush=True)


if __name__ == "__main__":
    main()
