"""What handlers have done once, as calls; argument names are those of schema `sluice`."""

from __future__ import annotations

from datetime import timedelta
from typing import LiteralString

from pgsluice.client.calls.call import Call, scalar
from pgsluice.client.calls.clients import Inbox, method


@method(Inbox)
def once(handler: str, key: str, *, keep: timedelta = timedelta(days=7)) -> Call[bool]:
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
    sql: LiteralString = "select sluice.once(%s::text, %s::text, %s::interval)"
    return Call(sql, (handler, key, keep), scalar)
