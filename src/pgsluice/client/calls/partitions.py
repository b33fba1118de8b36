"""Partitioned queues and maintenance, as calls."""

from __future__ import annotations

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record
from pgsluice.client.calls.clients import Archive, Operations, WorkQueue, method
from pgsluice.client.records import MaintenanceFailure, MaintenanceStep, Partition


@method(WorkQueue)
def create_partitioned(
    queue_name: str,
    partition_interval: str = "10000",
    retention_interval: str | None = "100000",
    premake: int = 4,
) -> Call[None]:
    """Create a partitioned queue and archive; on an existing one, change these settings.

    `maintain` creates new partitions and drops expired ones. Without maintenance, all further messages go to the
    default partition.

    Args:
        queue_name: As for `create`.
        partition_interval: Range of a partition: a number of messages, or a time such as `1 day`.
        retention_interval: Distance behind the last message (or behind now) at which a partition is dropped, even
            with unread messages; None: never. Of the same kind as `partition_interval`.
        premake: Number of partitions to create in advance, 1 or more.

    Raises:
        ArgumentError: An interval is invalid, or the two are of different kinds.
        QueueNameError: As for `create`; or another queue owns the table name of the default partition.
        ServerError: The queue exists and is not partitioned in this way.

    Source: PGMQ 1.13.0 `pgmq.create_partitioned`; differences in sql/pgmq/README.md.
    """
    return Call(
        "select pgmq.create_partitioned(%s::text, %s::text, %s::text, %s::integer)",
        (queue_name, partition_interval, retention_interval, whole(premake, "premake", 1)),
        nothing,
    )


@method(Archive)
def convert_archive_partitioned(
    table_name: str,
    partition_interval: str = "10000",
    retention_interval: str | None = "100000",
    leading_partition: int = 10,
) -> Call[None]:
    """Partition the archive of a queue; its rows become the first partition.

    Scans the archive once and blocks archiving meanwhile. Does nothing if the archive is already partitioned or
    does not exist.

    Args:
        table_name: Name of the queue.
        partition_interval: As for `create_partitioned`.
        retention_interval: As for `create_partitioned`.
        leading_partition: Number of partitions to create in advance, 1 or more.

    Raises:
        ArgumentError: As for `create_partitioned`.
        QueueNameError: Another queue owns the table name of the default partition.
        ServerError: Policies, triggers or indexes were added to the archive.

    Source: PGMQ 1.13.0 `pgmq.convert_archive_partitioned`; differences in sql/pgmq/README.md.
    """
    return Call(
        "select pgmq.convert_archive_partitioned(%s::text, %s::text, %s::text, %s::integer)",
        (
            table_name,
            partition_interval,
            retention_interval,
            whole(leading_partition, "leading_partition", 1),
        ),
        nothing,
    )


@method(Operations)
def list_partitions(queue_name: str) -> Call[list[Partition]]:
    """Return the partitions of a queue, then those of its archive, in order, each with its default partition last.

    Empty if the queue is not partitioned or does not exist.
    """
    return Call("select * from sluice.list_partitions(%s::text)", (queue_name,), record(Partition))


@method(Operations)
def maintain() -> Call[list[MaintenanceStep]]:
    """Run the next part of the maintenance of queues. Call it every few seconds.

    A call takes a fraction of a second, and concurrent calls share the work. It waits no longer for locks; a table
    in use is left to a later call. Locks are held until the end of the transaction, so give each call its own.

    Returns:
        One record for each task done or postponed. Empty: nothing to do.

    Raises:
        ServerError: The transaction is not READ COMMITTED.
    """
    return Call("select * from sluice.maintain()", (), record(MaintenanceStep))


@method(Operations)
def list_failures() -> Call[list[MaintenanceFailure]]:
    """Return maintenance tasks whose last attempt failed, of queues, logs and share groups.

    A failure is removed when the task succeeds, and a day after the last attempt.

    Raises:
        PrivilegeError: The role is not a member of `sluice_admin` or `pgq_admin`.

    Source: `sluice.list_failures`.
    """
    return Call("select * from sluice.list_failures()", (), record(MaintenanceFailure))
