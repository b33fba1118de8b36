# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncTableQueue`: its methods run the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.client import calls
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.sources import AsyncConnectable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from pgsluice.client.records import Message, QueueInfo, QueueMetrics


class AsyncTableQueue:
    """Work queues on plain tables, without the functions of schema `pgmq`.

    Methods, arguments, results, errors and tables are those of `AsyncWorkQueue`; both clients can use the same queue at
    the same time. Statements are sent as plain SQL, and each connection prepares them once. `pgsluice schema install
    --tables-only` creates the tables; a later installation without this option adds the functions. Polling, fencing,
    deduplication, topics and FIFO groups need the functions. So does fast reading while a long transaction holds back
    the xmin horizon.

    A queue name with upper-case letters outside ASCII raises QueueNameError: case folding depends on the server's
    locale.
    """

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: As for `AsyncWorkQueue`.
        """
        self._runner = AsyncRunner(source)

    async def create(self, queue_name: str) -> None:
        """Create a queue and its archive; do nothing if it exists.

        The connected role owns the tables, and needs CREATE on schema `pgmq`, which sluice_admin has. Existing sluice_…
        roles are granted their privileges. Other sessions cannot create or drop queues until the transaction ends. If
        the functions are installed, they create the queue.

        Args:
            queue_name: As for `WorkQueue.create`.

        Raises:
            QueueNameError: As for `WorkQueue.create`.
            ServerError: As for `WorkQueue.create`.
        """
        await self._runner.run_steps(calls.tables.create(queue_name))

    async def drop_queue(self, queue_name: str) -> bool:
        """Drop a queue with its messages and its archive; True if it existed.

        If the functions are installed, they drop the queue.

        Raises:
            QueueNameError: The table belongs to a queue whose name differs in case; the error names it.
        """
        return await self._runner.run_steps(calls.tables.drop_queue(queue_name))

    async def list_queues(self) -> list[QueueInfo]:
        """Return every queue, by name."""
        return await self._runner.run_steps(calls.tables.list_queues())

    async def purge_queue(self, queue_name: str) -> int:
        """Delete all messages of a queue, visible or not, and keep its archive; return the number of messages.

        Takes an ACCESS EXCLUSIVE lock on the table, which needs the TRUNCATE privilege: waits for open readers and
        blocks other sessions.
        """
        return await self._runner.run_steps(calls.tables.purge_queue(queue_name))

    async def metrics(self, queue_name: str) -> QueueMetrics:
        """Return the metrics of one queue; counts all messages."""
        return await self._runner.run(calls.tables.metrics(queue_name))

    async def metrics_all(self) -> list[QueueMetrics]:
        """Return the metrics of every queue that has its table, by name."""
        return await self._runner.run_steps(calls.tables.metrics_all())

    async def send(
        self,
        queue_name: str,
        message: Any,
        *,
        headers: Any = None,
        delay: int | datetime | None = None,
    ) -> int:
        """Send one message and return its msg_id; as `WorkQueue.send` without a key.

        Raises:
            PayloadError: As for `WorkQueue.send`. Nothing was sent.
            ArgumentError: As for `WorkQueue.send`. Nothing was sent.
        """
        return await self._runner.run(
            calls.tables.send(queue_name, message, headers=headers, delay=delay)
        )

    async def send_batch(
        self,
        queue_name: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: int | datetime | None = None,
    ) -> list[int]:
        """Send messages in one statement and return their msg_ids; as `WorkQueue.send_batch` without keys.

        Raises:
            PayloadError: As for `WorkQueue.send`. Nothing was sent.
            ArgumentError: As for `WorkQueue.send`. Nothing was sent.
        """
        return await self._runner.run(
            calls.tables.send_batch(queue_name, messages, headers=headers, delay=delay)
        )

    async def read(
        self,
        queue_name: str,
        vt: int = 30,
        qty: int = 1,
        *,
        conditional: dict[str, Any] | None = None,
    ) -> list[Message]:
        """Read up to `qty` visible messages and hide them for `vt` seconds; as `WorkQueue.read`.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was read.
        """
        return await self._runner.run(
            calls.tables.read(queue_name, vt, qty, conditional=conditional)
        )

    async def pop(self, queue_name: str, qty: int = 1) -> list[Message]:
        """Read up to `qty` visible messages and delete them immediately; as `WorkQueue.pop`.

        Raises:
            ArgumentError: `qty` is out of range. Nothing was read.
        """
        return await self._runner.run(calls.tables.pop(queue_name, qty))

    async def delete(self, queue_name: str, msg_id: int) -> bool:
        """Delete one message, even if another reader holds it; False when it is not in the queue."""
        return await self._runner.run(calls.tables.delete(queue_name, msg_id))

    async def delete_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Delete messages, even if other readers hold them; return the msg_ids found in the queue, lowest first."""
        return await self._runner.run(calls.tables.delete_batch(queue_name, msg_ids))

    async def archive(self, queue_name: str, msg_id: int) -> bool:
        """Move one message into the archive, even if another reader holds it; False when it is not in the queue."""
        return await self._runner.run(calls.tables.archive(queue_name, msg_id))

    async def archive_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Move messages into the archive, even if other readers hold them; return the msg_ids found, lowest first."""
        return await self._runner.run(calls.tables.archive_batch(queue_name, msg_ids))

    async def set_vt(self, queue_name: str, msg_id: int, vt: int | datetime) -> Message | None:
        """Change the visibility timeout of one message, even if another reader holds it; as `WorkQueue.set_vt`.

        Raises:
            ArgumentError: `vt` is negative, not whole, or a time without a zone.
        """
        return await self._runner.run(calls.tables.set_vt(queue_name, msg_id, vt))

    async def set_vt_batch(
        self, queue_name: str, msg_ids: Sequence[int], vt: int | datetime
    ) -> list[Message]:
        """Change the visibility timeout of messages, even if other readers hold them; as `WorkQueue.set_vt_batch`.

        Raises:
            ArgumentError: As for `set_vt`.
        """
        return await self._runner.run(calls.tables.set_vt_batch(queue_name, msg_ids, vt))
