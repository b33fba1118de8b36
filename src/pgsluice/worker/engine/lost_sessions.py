"""Release attempts that failed with a lost session without counting them, up to a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.errors import (
    DiskFull,
    IdleInTransactionSessionTimeout,
    ReadOnlySqlTransaction,
    TransactionTimeout,
)

from pgsluice.backoff import jittered, next_delay_s
from pgsluice.errors import ConnectionFailedError
from pgsluice.outcome import Release
from pgsluice.worker.engine.delivery import Delivery
from pgsluice.worker.engine.settlement import Settlement

# The handler may itself end its session: after this many uncounted deliveries, a lost session counts as an attempt.
UNCOUNTED_MAX = 20
_DELAY_MAX_S = 60.0
_REMEMBERED_MAX = 10_000
OUT_OF_TIME = (IdleInTransactionSessionTimeout, TransactionTimeout)


def was_lost(
    connection: Connection[Any] | AsyncConnection[Any], error: BaseException | None
) -> bool:
    """True if a transaction failed because of its session or server, not because of its statements.

    Transaction timeouts end the session too, but count as attempts: a handler that always exceeds them would otherwise
    be retried without end.
    """
    causes = list(_causes(error))
    if getattr(connection, "is_out_of_time", False) or any(
        isinstance(each, OUT_OF_TIME) for each in causes
    ):
        return False
    if any(isinstance(each, DiskFull) for each in causes):
        return True
    if is_read_only(error):
        return connection.info.parameter_status("in_hot_standby") == "on"
    return connection.broken and any(
        isinstance(each, OperationalError | ConnectionFailedError) for each in causes
    )


def is_read_only(error: BaseException | None) -> bool:
    """True if the error, or one in its cause chain, is a read-only transaction error."""
    return any(isinstance(each, ReadOnlySqlTransaction) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


class LostSessions:
    """Release deliveries that failed because their session was lost.

    A work queue knows a message's uncounted deliveries: `read_ct` minus attempts. A share group does not count
    releases, so this process does.
    """

    def __init__(self) -> None:
        """Start with no losses."""
        self._losses: dict[tuple[str, int], int] = {}

    def settlement(
        self, delivery: Delivery, settlement: Settlement, *, is_unlimited: bool = False
    ) -> Settlement:
        """Return the settlement of an attempt with a lost session: a delayed release, or unchanged at the limit.

        Args:
            delivery: The message.
            settlement: The settlement if the attempt counts.
            is_unlimited: True if its handler cannot be the cause.
        """
        key = delivery.source_name, delivery.message_id
        losses = self._losses.pop(key, 0)
        uncounted = max(losses, delivery.uncounted)
        if uncounted >= UNCOUNTED_MAX and not is_unlimited:
            return settlement
        if len(self._losses) >= _REMEMBERED_MAX:
            del self._losses[next(iter(self._losses))]
        self._losses[key] = losses + 1
        delay_s = jittered(next_delay_s(uncounted + 1, 1.0, _DELAY_MAX_S))
        return replace(settlement, outcome=Release(delay_s))
