"""Upgrade the objects of queues and logs to this release, and drop them, in transactions of bounded size.

A transaction keeps a lock on each table that it changes, and the server's lock table holds some thousands.
So thousands of queues and logs take several transactions, which needs a connection in autocommit mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from pgsluice.errors import SchemaError
from pgsluice.schema.texts import execute, fetch, pinned, read, run, translated

# A plan names at most this many differing queues and logs, and counts the others.
_OUTDATED_MAX = 20


@dataclass(frozen=True, slots=True)
class Left:
    """Work left to the next transactions.

    Attributes:
        bring_from: The queue or log at which `bring` continues; empty when done.
        is_owned: True if tables of queues may still belong to other roles.
    """

    bring_from: str
    is_owned: bool


def bring(connection: psycopg.Connection[Any], bring_from: str = "") -> Left:
    """Upgrade queues and logs to this release until a quarter of the lock table is used."""
    execute(connection, read("bring_from.sql"), bring_from)
    run(connection, read("readers.sql"))
    return Left(*fetch(connection, read("left.sql"))[0])


def finish(connection: psycopg.Connection[Any], left: Left) -> None:
    """Upgrade the queues and logs that an installation left, a part in each transaction.

    In the caller's transaction, raise a notice instead.
    """
    if (left.bring_from or left.is_owned) and not is_idle(connection):
        run(connection, read("unfinished.sql"))
        return
    while left.bring_from or left.is_owned:
        with translated(), pinned(connection):
            run(connection, read("lock.sql"))
            run(connection, read("begin.sql"))
            if left.is_owned:
                run(connection, read("hand_over.sql"))
            if left.bring_from:
                bring(connection, left.bring_from)
            left = Left(*fetch(connection, read("left.sql"))[0])
            run(connection, read("end.sql"))


def outdated(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """List the queues and logs that an installation of this release would change, one per line."""
    found = fetch(connection, read("outdated.sql"))
    lines = [f"-{name}: {what} of another release" for name, what in found[:_OUTDATED_MAX]]
    if len(found) > _OUTDATED_MAX:
        more = len(found) - _OUTDATED_MAX
        lines.append(f"-and {more} more queues, tables of queues or event logs")
    return tuple(lines)


def droppable(connection: psycopg.Connection[Any], *, is_idle: bool) -> list[list[tuple[str, str]]]:
    """Return the statements that drop queues and logs before the schemas, each with a name, grouped by transaction.

    Returns:
        Empty if one transaction can hold all locks.

    Raises:
        SchemaError: It cannot, and the caller's transaction is open.
    """
    [(locks, size)] = fetch(connection, read("uninstall_locks.sql"))
    if not size:
        return []
    if not is_idle:
        raise SchemaError(
            f"dropping the schemas would lock {locks} objects in one transaction, too many for the server's lock "
            "table; run `pgsluice schema uninstall`, which uses several transactions, or raise "
            "max_locks_per_transaction"
        )
    drops = fetch(connection, read("uninstall_parts.sql"))
    return [drops[first : first + size] for first in range(0, len(drops), size)]


def is_idle(connection: psycopg.Connection[Any]) -> bool:
    """True if the next statement is a transaction of its own."""
    return connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE
