"""Attempts that failed because the handler's session was lost: released and not counted, but not without end."""

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

# A handler may be what ends its session: after as many deliveries that did not count, a lost session counts.
UNCOUNTED_MAX = 20
_DELAY_MAX_S = 60.0
_REMEMBERED_MAX = 10_000
OUT_OF_TIME = (IdleInTransactionSessionTimeout, TransactionTimeout)


def was_lost(
    connection: Connection[Any] | AsyncConnection[Any], error: BaseException | None
) -> bool:
    """Return whether a transaction failed for its session or its server, and not for what it did.

    The server's limits on the time of a transaction end the session too. These count: a handler that always takes
    longer would be repeated.
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
    """Return whether a server refused to write, in this error or one that it was raised for."""
    return any(isinstance(each, ReadOnlySqlTransaction) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and those that it was raised for."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__


class LostSessions:
    """Release what failed because its session was lost.

    The deliveries of a message that did not count are known to a work queue, `read_ct` less the attempts. A share group
    does not count releases, so this process does.
    """

    def __init__(self) -> None:
        """Prepare it; nothing was lost yet."""
        self._losses: dict[tuple[str, int], int] = {}

    def settlement(self, delivery: Delivery, settlement: Settlement) -> Settlement:
        """Return the settlement of an attempt whose session was lost: released with a delay, or as it is."""
        key = delivery.source_name, delivery.message_id
        losses = self._losses.pop(key, 0)
        uncounted = max(losses, delivery.uncounted)
        if uncounted >= UNCOUNTED_MAX:
            return settlement
        if len(self._losses) >= _REMEMBERED_MAX:
            del self._losses[next(iter(self._losses))]
        self._losses[key] = losses + 1
        delay_s = jittered(next_delay_s(uncounted + 1, 1.0, _DELAY_MAX_S))
        return replace(settlement, outcome=Release(delay_s))
