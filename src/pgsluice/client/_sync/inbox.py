# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`Inbox`: its methods run the calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg import Connection

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import inbox


class Inbox:
    """Know again what was done before, where a message can come twice.

    Delivery is at least once, and a sender can send twice. A handler that asks here first, in the transaction of its
    own writes, has the effect of one.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        """Use a connection.

        Args:
            connection: With the transaction that does the work: the answer holds only there, and is forgotten when it
                is rolled back. The caller opens and closes it.
        """
        self._runner = Runner(connection)

    def once(self, handler: str, key: str, *, keep: timedelta = timedelta(days=7)) -> bool:
        """Tell whether this is the first time that a handler does something, and note that it does.

        Another transaction that asks the same at the same time waits for the end of this one.

        Args:
            handler: Who does it: two handlers do the same thing each for itself. 1 to 1,024 bytes.
            key: What it does: an order's number, a sender's id; 1 to 1,024 bytes.
            keep: How long it is known, longer than a message may be on its way.

        Returns:
            True the first time; then do it, in this transaction. False when it is done already.

        Raises:
            ArgumentError: The handler or the key is empty or too long, or `keep` is not positive.
            RetryableError: Above READ COMMITTED another transaction did it meanwhile; run again, this returns False.

        Source: `sluice.once`.
        """
        return self._runner.run(inbox.once(handler, key, keep=keep))
