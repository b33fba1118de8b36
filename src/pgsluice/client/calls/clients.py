"""The client classes: their docstrings and constructors. Their methods are the calls that `method` marks.

tools/clients_from_calls.py writes the classes. Docstrings name their async forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg_pool import AsyncConnectionPool

Function = TypeVar("Function", bound=Callable[..., Any])


def method(
    client: type,  # noqa: ARG001 (both are read from the source)
    *,
    name: str | None = None,  # noqa: ARG001
) -> Callable[[Function], Function]:
    """Mark a function as a method of a client; `make generate` writes it with this signature and docstring.

    The arguments of the constructor beside the connection are the first arguments of each function, and are not those
    of its method: `queue_name` and `group_name` for `ShareGroup`.

    Args:
        client: A class of this module.
        name: The name of the method (default: that of the function).
    """
    return lambda function: function


class WorkQueue:
    """Send, claim and acknowledge messages of work queues.

    Every method that works on one queue, but `create` and `create_unlogged`, raises QueueNotFoundError for a queue that
    does not exist, and every one can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectionPool[Any] | AsyncConnection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own, and claims commit asynchronously (one that a crash
                loses only leaves its message visible). A connection: each call is part of its transaction, and
                nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """


class TableQueue:
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


class EventLog:
    """Append events and consume them in batches between ticks.

    Every method can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectionPool[Any] | AsyncConnection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own. A connection: each call is part of its transaction,
                and nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """


class ShareGroup:
    """Share the events of a log among any number of consumers: each event is claimed by one, and settled by itself.

    A claim holds a lease. What is not settled when the lease ends goes to the next claim, so delivery is at least once;
    a consumer whose claim has lapsed and been claimed again is told so by LeaseLostError, and has changed nothing.

    Every method raises LogNotFoundError where there is no such log, all but `create` and `drop` raise
    GroupNotFoundError where it has no such group; only looking at dead events and purging them needs neither. Every one
    can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(
        self,
        source: AsyncConnectionPool[Any] | AsyncConnection[Any],
        queue_name: str,
        group_name: str,
    ) -> None:
        """Use a pool or a connection, for one group of one log. Nothing is looked up or made yet.

        Args:
            source: A pool: each call is a transaction of its own, and claims commit asynchronously (one that a crash
                loses only leaves its events to be claimed). A connection: each call is part of its transaction, and
                nothing is committed unless it is in autocommit mode. The caller opens and closes it.
            queue_name: An existing log.
            group_name: The group; `create` makes it.
        """


class Schedules:
    """Keep schedules in the database, and fire what is due.

    Each moment at which a schedule is to fire is a slot. A slot is fired once, however many processes fire: the
    message, the record of the slot and the place of the schedule are one transaction. Something must call
    `fire_schedules`: `pgsluice maintain`, a `Scheduler`, or pg_cron with what `pgsluice maintain --print-cron` prints.

    Every method can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError. All but
    `list_schedules` and `next_schedule_at` need the role `sluice_admin`.
    """

    def __init__(self, source: AsyncConnectionPool[Any] | AsyncConnection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own. A connection: each call is part of its transaction,
                and nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """


class Inbox:
    """Know again what was done before, where a message can come twice.

    Delivery is at least once, and a sender can send twice. A handler that asks here first, in the transaction of its
    own writes, has the effect of one.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        """Use a connection.

        Args:
            connection: With the transaction that does the work: the answer holds only there, and is forgotten when it
                is rolled back. The caller opens and closes it.
        """
