# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncInbox`: its methods run the calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from pgsluice.client import calls
from pgsluice.client._async.runner import AsyncRunner


class AsyncInbox:
    """Deduplicate side effects by idempotency key.

    Delivery is at least once, and a producer can send a message twice. A handler that calls `once` first, in the
    transaction of its own writes, has an exactly-once effect.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        """Use a connection.

        Args:
            connection: The connection of the transaction that does the work. The key is stored with that transaction,
                and a rollback removes it. The caller opens and closes the connection.
        """
        self._runner = AsyncRunner(connection)

    async def once(self, handler: str, key: str, *, keep: timedelta = timedelta(days=7)) -> bool:
        """Record an idempotency key; True if the key is new.

        A concurrent call with the same key waits for the end of this transaction.

        Args:
            handler: Scope of the key, such as the handler's name, 1 to 1,024 bytes.
            key: Idempotency key, such as an order number, 1 to 1,024 bytes.
            keep: Time to keep the key, more than 0; longer than a message can take to be redelivered.

        Returns:
            True for a new key: do the work in this transaction. False: the work is already done.

        Raises:
            ArgumentError: `handler` or `key` is empty or too long, or `keep` is not positive.
            RetryableError: Above READ COMMITTED, a concurrent transaction has recorded the key; a retry returns False.

        Source: `sluice.once`.
        """
        return await self._runner.run(calls.inbox.once(handler, key, keep=keep))
