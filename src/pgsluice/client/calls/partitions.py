"""The functions that make and keep partitions, as calls; argument names are theirs."""

from __future__ import annotations

from pgsluice.client.calls.arguments import whole
from pgsluice.client.calls.call import Call, nothing, record
from pgsluice.client.calls.clients import WorkQueue, method
from pgsluice.client.records import MaintenanceFailure, MaintenanceStep, Partition


@method(WorkQueue)
def create_partitioned(
    queue_name: str,
    partition_interval: str = "10000",
    retention_interval: str | None = "100000",
    premake: int = 4,
) -> Call[None]:
    """Create a queue and its archive in partitions; on one that exists, change these settings.

    `maintain` makes the next partitions and drops the old ones. Without it messages go to a default partition, in
    any number.

    Args:
        queue_name: As for `create`.
        partition_interval: What one partition takes: a number of messages, or a time such as `1 day`.
        retention_interval: How far behind the last message, or now, a partition is dropped, read or not; None:
            never. A number or a time, as the other.
        premake: How many stand ready beyond the one in use, 1 or more.

    Raises:
        ArgumentError: An interval is none, or the two are not of one kind.
        QueueNameError: As for `create`; or another queue has the table of its default partition.
        ServerError: A queue of this name exists, and is not partitioned so.

    Source: PGMQ 1.13.0 `pgmq.create_partitioned`; differences in sql/pgmq/README.md.
    """
    return Call(
        "select pgmq.create_partitioned(%s::text, %s::text, %s::text, %s::integer)",
        (queue_name, partition_interval, retention_interval, whole(premake, "premake", 1)),
        nothing,
    )


@method(WorkQueue)
def convert_archive_partitioned(
    table_name: str,
    partition_interval: str = "10000",
    retention_interval: str | None = "100000",
    leading_partition: int = 10,
) -> Call[None]:
    """Put the archive of a queue into partitions; what it holds stays in it, as the first one.

    Nothing is archived meanwhile: the archive is read once. Does nothing when it is partitioned already, or not
    there.

    Args:
        table_name: The queue's name.
        partition_interval: As for `create_partitioned`.
        retention_interval: As for `create_partitioned`.
        leading_partition: How many stand ready beyond the one in use, 1 or more.

    Raises:
        ArgumentError: As for `create_partitioned`.
        QueueNameError: Another queue has the table of its default partition.
        ServerError: The archive has policies, triggers or indexes that were added to it.

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


@method(WorkQueue)
def list_partitions(queue_name: str) -> Call[list[Partition]]:
    """Return the partitions of a queue and then of its archive, in order, the default one of each last.

    Empty for what is not partitioned, and for a queue that does not exist.
    """
    return Call("select * from sluice.list_partitions(%s::text)", (queue_name,), record(Partition))


@method(WorkQueue)
def maintain() -> Call[list[MaintenanceStep]]:
    """Do the next part of the work that keeps queues in order. Call it again and again, every few seconds.

    A call takes a fraction of a second, and several at once share the work. It waits for nobody longer than that:
    what is in use is left to a later call. Its locks are held to the end of the transaction, so give it its own.

    Returns:
        One record for each thing done, or given up for now. Empty: there was nothing to do.

    Raises:
        ServerError: The transaction is not READ COMMITTED.
    """
    return Call("select * from sluice.maintain()", (), record(MaintenanceStep))


@method(WorkQueue)
def list_failures() -> Call[list[MaintenanceFailure]]:
    """Return the maintenance that failed at its last attempt: of queues, logs and share groups, and whole tasks.

    A failure is gone when the task succeeds, and a day after its last attempt.

    Raises:
        PrivilegeError: The role is no member of `sluice_admin` or `pgq_admin`.

    Source: `sluice.list_failures`.
    """
    return Call("select * from sluice.list_failures()", (), record(MaintenanceFailure))
