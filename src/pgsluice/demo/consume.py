"""The handler of orders, with planned failures."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pgsluice.demo.statements import statement
from pgsluice.worker import SyncContext

QUEUE = "orders"
POISON = {"poison": True}
_FAILS_PERCENT = 2
# Knuth's multiplicative hash, so that the failing messages are spread and the same in each run.
_HASH_FACTOR = 2_654_435_761
_HASH_MODULUS = 2**32


class PlannedFailureError(Exception):
    """A planned failure of the handler; the worker must retry."""


def fails_first(msg_id: int) -> bool:
    """True if the first attempt at this message fails: a fixed 2 % of messages."""
    return msg_id * _HASH_FACTOR % _HASH_MODULUS < _HASH_MODULUS * _FAILS_PERCENT // 100


@contextmanager
def failures_without_traceback() -> Iterator[None]:
    """Log handler failures as one line each: they are planned, and a traceback would look like a bug of the demo."""

    def drop_traceback(record: logging.LogRecord) -> bool:
        record.exc_text = None
        return True

    logger = logging.getLogger("pgsluice.worker.failures")
    logger.addFilter(drop_traceback)
    try:
        yield
    finally:
        logger.removeFilter(drop_traceback)


def handle(order: dict[str, Any], context: SyncContext) -> None:
    """Book one order, in the transaction that archives its message.

    Raises:
        PlannedFailureError: Planned, at the first attempt at some messages.
        KeyError: The message is the poison message, which always fails.
    """
    row = {
        "msg_id": context.message_id,
        "aid": order["aid"],
        "tid": order["tid"],
        "bid": order["bid"],
        "delta": order["delta"],
        "attempt": context.attempt,
        "fails_first": fails_first(context.message_id),
        "enqueued_at": context.sent_at,
    }
    with context.transaction() as connection:
        connection.execute(statement("processed_insert"), row)
    # After the insert, to show that the writes of a failing handler are rolled back.
    if row["fails_first"] and context.attempt == 1:
        raise PlannedFailureError(f"message {context.message_id} fails on its first attempt")
