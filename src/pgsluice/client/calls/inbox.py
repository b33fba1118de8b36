"""Deduplication of side effects by idempotency key, as calls."""

from __future__ import annotations

from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.call import Call, scalar
from pgsluice.client.calls.clients import Inbox, method


@method(Inbox)
def once(handler: str, key: str, *, keep: timedelta = timedelta(days=7)) -> Call[bool]:
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
    sql: LiteralString = "select sluice.once(%s::text, %s::text, %s::interval)"
    return Call(sql, (handler, key, keep), scalar)
