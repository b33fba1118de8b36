"""Program of `workers`: `python -m bench.wide.worker_child URL WORKERS QUEUES`.

It runs workers, each registered, in one event loop. It prints `ready` when all run, and for each line that it reads the
number of messages handled, the CPU time of the process, and the number of warnings and errors logged, as JSON. It stops
at the end of its input.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time

from pgsluice.worker import App, Worker, WorkerOptions


class Problems(logging.Handler):
    """Counts warnings and errors, and prints the first ones."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count a record."""
        self.count += 1
        if self.count <= 3:
            print(record.getMessage(), file=sys.stderr)


async def main() -> None:
    url, number, queues = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    problems = Problems(logging.WARNING)
    logging.getLogger("pgsluice").addHandler(problems)
    handled = 0
    workers = []
    for position in range(number):
        app = App(url, name="wide")

        @app.handler(f"queue_{position % queues}", concurrency=1)
        async def handle(_payload: object) -> None:
            nonlocal handled
            handled += 1

        workers.append(Worker(app, options=WorkerOptions(max_connections=4)))
    running = []
    for worker in workers:
        running.append(asyncio.create_task(worker.run()))
        await asyncio.sleep(0.005)  # not all connect in one instant
    while any(worker.status().state != "running" for worker in workers):
        await asyncio.sleep(0.05)
        for task in running:
            if task.done():
                task.result()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps([handled, time.process_time(), problems.count]), flush=True)
    for worker in workers:
        worker.stop()
    await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(main())
