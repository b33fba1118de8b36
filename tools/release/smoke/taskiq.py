"""Send a task, and receive it as a worker of Taskiq does."""

from __future__ import annotations

import asyncio

from pgsluice import connect, schema
from pgsluice.contrib.taskiq import PgsluiceBroker

with connect() as connection:
    schema.install(connection)

broker = PgsluiceBroker()


@broker.task  # type: ignore[untyped-decorator]
async def add_one(number: int) -> int:
    """Return the next number."""
    return number + 1


async def main() -> None:
    """Send and receive."""
    broker.is_worker_process = True
    await broker.startup()
    try:
        sent = await add_one.kiq(1)
        async with asyncio.timeout(30):
            async for message in broker.listen():
                data = message.data if hasattr(message, "data") else message
                assert sent.task_id.encode() in data, data
                break
    finally:
        await broker.shutdown()


asyncio.run(main())
