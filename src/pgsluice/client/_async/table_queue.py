# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncTableQueue`: its methods run the calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import tables
from pgsluice.client.records import Message, QueueInfo, QueueMetrics


class AsyncTableQueue:
    """Work queues on plain tables: no function of schema `pgmq` is called, and none need be installed.

    The methods, their arguments, what they return and raise, and the tables are those of `AsyncWorkQueue`, and both can
    work on one queue at the same time. The statements go to the server as they are, so each connection prepares them
    once. `pgsluice schema install --tables-only` makes the tables that this needs; a later installation without that
    option adds the functions. There is no polling, no fence, no deduplication, no topic and no group: those are
    functions. So is what keeps reads fast while a transaction somewhere holds a snapshot for minutes.

    A queue whose name has upper case letters outside ASCII raises QueueNameError: servers fold them differently.
    """

    def __init__(self, source: AsyncConnectionPool[Any] | AsyncConnection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: As for `AsyncWorkQueue`.
        """
        self._runner = AsyncRunner(source)

    async def create(self, queue_name: str) -> None:
        """Create a queue and its archive; do nothing when it exists.

        The tables belong to the connected role, which must have the right to create tables in schema `pgmq`, as
        sluice_admin has. The roles sluice_… that there are get their rights on them. Other sessions can neither create
        nor drop queues until the transaction ends. Where the functions are installed, they make the queue.

        Args:
            queue_name: As for `WorkQueue.create`.

        Raises:
            QueueNameError: As for `WorkQueue.create`.
            ServerError: As for `WorkQueue.create`.
        """
        await self._runner.run_steps(tables.create(queue_name))

    async def drop_queue(self, queue_name: str) -> bool:
        """Drop a queue with its messages and its archive; True when it existed.

        Where the functions are installed, they drop it.

        Raises:
            QueueNameError: The table belongs to a queue whose name differs in case; it is named.
        """
        return await self._runner.run_steps(tables.drop_queue(queue_name))

    async def list_queues(self) -> list[QueueInfo]:
        """Return every queue, by name."""
        return await self._runner.run_steps(tables.list_queues())

    async def purge_queue(self, queue_name: str) -> int:
        """Delete every message of a queue, visible or not, and leave its archive; returns how many there were.

        Takes the table's exclusive lock, which needs the right to truncate it: it waits for open readers, and others
        wait for it.
        """
        return await self._runner.run_steps(tables.purge_queue(queue_name))

    async def metrics(self, queue_name: str) -> QueueMetrics:
        """Return the state of one queue; counts every message."""
        return await self._runner.run(tables.metrics(queue_name))

    async def metrics_all(self) -> list[QueueMetrics]:
        """Return the state of every queue that has its table, by name."""
        return await self._runner.run_steps(tables.metrics_all())

    async def send(
        self,
        queue_name: str,
        message: Any,
        *,
        headers: Any = None,
        delay: int | datetime | None = None,
    ) -> int:
        """Append one message, and return its msg_id; as `WorkQueue.send` without a key.

        Raises:
            PayloadError: As there. Nothing was sent.
            ArgumentError: As there. Nothing was sent.
        """
        return await self._runner.run(
            tables.send(queue_name, message, headers=headers, delay=delay)
        )

    async def send_batch(
        self,
        queue_name: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: int | datetime | None = None,
    ) -> list[int]:
        """Append messages in one statement, and return their msg_ids; as `WorkQueue.send_batch` without keys.

        Raises:
            PayloadError: As there. Nothing was sent.
            ArgumentError: As there. Nothing was sent.
        """
        return await self._runner.run(
            tables.send_batch(queue_name, messages, headers=headers, delay=delay)
        )

    async def read(
        self, queue_name: str, vt: int, qty: int = 1, *, conditional: dict[str, Any] | None = None
    ) -> list[Message]:
        """Claim up to `qty` visible messages and hide them for `vt` seconds; as `WorkQueue.read`.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.
        """
        return await self._runner.run(tables.read(queue_name, vt, qty, conditional=conditional))

    async def pop(self, queue_name: str, qty: int = 1) -> list[Message]:
        """Take up to `qty` visible messages and delete them at once; as `WorkQueue.pop`.

        Raises:
            ArgumentError: `qty` is out of range. Nothing was taken.
        """
        return await self._runner.run(tables.pop(queue_name, qty))

    async def delete(self, queue_name: str, msg_id: int) -> bool:
        """Delete one message for good, whoever holds it; False when it is not in the queue."""
        return await self._runner.run(tables.delete(queue_name, msg_id))

    async def delete_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Delete messages for good, whoever holds them; returns those that were in the queue, lowest first."""
        return await self._runner.run(tables.delete_batch(queue_name, msg_ids))

    async def archive(self, queue_name: str, msg_id: int) -> bool:
        """Move one message into the queue's archive, whoever holds it; False when it is not in the queue."""
        return await self._runner.run(tables.archive(queue_name, msg_id))

    async def archive_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Move messages into the queue's archive, whoever holds them; returns those that were there, lowest first."""
        return await self._runner.run(tables.archive_batch(queue_name, msg_ids))

    async def set_vt(self, queue_name: str, msg_id: int, vt: int | datetime) -> Message | None:
        """Change when one message becomes visible, whoever holds it; as `WorkQueue.set_vt`.

        Raises:
            ArgumentError: `vt` is negative, not whole, or a time without a zone.
        """
        return await self._runner.run(tables.set_vt(queue_name, msg_id, vt))

    async def set_vt_batch(
        self, queue_name: str, msg_ids: Sequence[int], vt: int | datetime
    ) -> list[Message]:
        """Change when messages become visible, whoever holds them; as `WorkQueue.set_vt_batch`.

        Raises:
            ArgumentError: As for `set_vt`.
        """
        return await self._runner.run(tables.set_vt_batch(queue_name, msg_ids, vt))
