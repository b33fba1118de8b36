"""Docstrings and constructors of the client classes; their methods are the calls marked with `method`.

ORDER has the methods that one learns first; the others follow by module. BASE is the base class of the async class.

tools/clients_from_calls.py generates the classes. Docstrings name the async classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from pgsluice.client.sources import AsyncConnectable
    from pgsluice.shards.pool import ShardPool

Function = TypeVar("Function", bound=Callable[..., Any])


def method(
    client: type,  # noqa: ARG001 (both are read from the source)
    *,
    name: str | None = None,  # noqa: ARG001
) -> Callable[[Function], Function]:
    """Mark a function as a method of a client; `make generate` writes it with this signature and docstring.

    Arguments of the constructor after the source, such as `queue_name` and `group_name` of `ShareGroup`, are the first
    arguments of each function and not arguments of its method.

    Args:
        client: A class of this module.
        name: Name of the method (default: the function's name).
    """
    return lambda function: function


class WorkQueue:
    """Send, read and acknowledge messages of work queues.

    Methods on one queue, except `create` and `create_unlogged`, raise QueueNotFoundError if the queue does not exist.
    All methods can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    BASE = "pgsluice.client._async.shard_runner.AsyncSharded"
    ORDER = (
        "create",
        "send",
        "send_batch",
        "read",
        "read_with_poll",
        "pop",
        "delete",
        "delete_batch",
        "archive",
        "archive_batch",
        "set_vt",
        "set_vt_batch",
        "delete_claimed",
        "archive_claimed",
        "extend_claimed",
        "release_claimed",
        "release",
        "reject",
        "fail",
        "lock_messages",
        "browse",
        "get_messages",
        "count_messages",
        "metrics",
        "metrics_all",
        "list_queues",
        "purge_queue",
        "drop_queue",
        "set_queue_options",
        "queue_options",
        "list_queue_options",
        "create_unlogged",
        "create_partitioned",
    )

    def __init__(self, source: AsyncConnectable | ShardPool) -> None:
        """Use a pool or a connection.

        Args:
            source: With a pool, each call is a transaction of its own, and reads commit asynchronously (a crash that
                loses one only leaves its message visible). With a connection, each call runs in the caller's
                transaction, and commits only in autocommit mode. A session or connection of SQLAlchemy or Django stands
                for the psycopg connection of its transaction. The caller opens and closes it. With a `ShardPool`,
                choose a database with `at`.
        """


class TableQueue:
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


class EventLog:
    """Append events and consume them in batches between ticks.

    All methods can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    ORDER = (
        "create",
        "insert_event",
        "insert_events",
        "insert_many",
        "insert_delayed_event",
        "register_consumer",
        "next_batch",
        "get_batch_events",
        "finish_batch",
        "event_retry",
        "batch_retry",
        "unregister_consumer",
        "get_queue_info",
        "get_consumer_info",
        "drop",
        "set_log_options",
        "log_options",
        "list_log_options",
    )

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: With a pool, each call is a transaction of its own. With a connection, each call runs in the
                caller's transaction, and commits only in autocommit mode. The caller opens and closes it.
        """


class ShareGroup:
    """Share the events of a log among competing consumers, each event claimed by one and settled on its own.

    A claim holds a lease. Events that are not settled when the lease expires are redelivered with a later claim, so
    delivery is at least once. A stale consumer, whose events were claimed again after its lease expired, gets
    LeaseLostError and changes nothing.

    Methods raise LogNotFoundError if the log does not exist, and all except `create` and `drop` raise
    GroupNotFoundError if the group does not exist. All methods can raise ConnectionFailedError, NotInstalledError,
    PrivilegeError and RetryableError.
    """

    ORDER = (
        "create",
        "claim",
        "accept",
        "retry",
        "release",
        "reject",
        "renew",
        "acknowledge",
        "info",
        "set_options",
        "drop",
    )

    def __init__(
        self,
        source: AsyncConnectable,
        log_name: str,
        group_name: str,
    ) -> None:
        """Use a pool or a connection, for one group of one log. Neither is checked or created here.

        Args:
            source: With a pool, each call is a transaction of its own, and claims commit asynchronously (a crash that
                loses one only leaves its events unclaimed). With a connection, each call runs in the caller's
                transaction, and commits only in autocommit mode. The caller opens and closes it.
            log_name: An existing log.
            group_name: The share group; create it with `create`.
        """


class DeadLetters:
    """List, redrive and purge the dead letters of a queue, or of a share group or consumer of a log.

    A dead letter is a message or event after its last attempt, or that its handler rejected, with the reason and the
    last error. Dead letters outlive their queue, log, share group and consumer.

    All methods can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(
        self,
        source: AsyncConnectable,
        queue_name: str,
        consumer_name: str | None = None,
    ) -> None:
        """Use a pool or a connection. Neither queue nor log is checked here.

        Args:
            source: With a pool, each call is a transaction of its own. With a connection, each call runs in the
                caller's transaction, and commits only in autocommit mode. The caller opens and closes it.
            queue_name: A queue, or a log.
            consumer_name: A share group or consumer of the log; None: `queue_name` is a queue.
        """


class Archive:
    """Keep, export and replay the archived messages of queues.

    Methods on one queue raise QueueNotFoundError if the queue does not exist. All methods can raise
    ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: With a pool, each call is a transaction of its own. With a connection, each call runs in the
                caller's transaction, and commits only in autocommit mode. The caller opens and closes it.
        """


class Operations:
    """Observe workers, samples, failures and actions of operators; explain queues; maintain and purge.

    Methods on one queue raise QueueNotFoundError if the queue does not exist. All methods can raise
    ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: As for `Archive`.
        """


class Schedules:
    """Store schedules in the database and fire those that are due.

    A slot is a time at which a schedule fires. Each slot fires once, with any number of schedulers: the message, the
    record of the slot and the position of the schedule are committed in one transaction. `fire_schedules` must be
    called regularly: by `pgsluice maintain`, by a `Scheduler`, or by pg_cron with the output of `pgsluice maintain
    --print-cron`.

    All methods can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError. All except
    `list_schedules` and `next_schedule_at` need the role `sluice_admin`.
    """

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: With a pool, each call is a transaction of its own. With a connection, each call runs in the
                caller's transaction, and commits only in autocommit mode. The caller opens and closes it.
        """


class Inbox:
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
