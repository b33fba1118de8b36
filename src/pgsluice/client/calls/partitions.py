"""The functions that make and keep partitions, as calls; argument names are theirs."""

from __future__ import annotations

from pgsluice.client.calls.call import Call, nothing, record
from pgsluice.client.records import MaintenanceFailure, MaintenanceStep, Partition
from pgsluice.errors import ArgumentError

INTEGER_MAX = 2**31 - 1


def create_partitioned(
    queue_name: str,
    partition_interval: str = "10000",
    retention_interval: str | None = "100000",
    premake: int = 4,
) -> Call[None]:
    return Call(
        "select pgmq.create_partitioned(%s::text, %s::text, %s::text, %s::integer)",
        (queue_name, partition_interval, retention_interval, _count("premake", premake)),
        nothing,
    )


def convert_archive_partitioned(
    table_name: str,
    partition_interval: str = "10000",
    retention_interval: str | None = "100000",
    leading_partition: int = 10,
) -> Call[None]:
    return Call(
        "select pgmq.convert_archive_partitioned(%s::text, %s::text, %s::text, %s::integer)",
        (
            table_name,
            partition_interval,
            retention_interval,
            _count("leading_partition", leading_partition),
        ),
        nothing,
    )


def list_partitions(queue_name: str) -> Call[list[Partition]]:
    return Call("select * from sluice.list_partitions(%s::text)", (queue_name,), record(Partition))


def maintain() -> Call[list[MaintenanceStep]]:
    return Call("select * from sluice.maintain()", (), record(MaintenanceStep))


def _count(name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(f"{name} is {value!r}; use a whole number")
    if not 1 <= value <= INTEGER_MAX:
        raise ArgumentError(f"{name} is {value}; use 1 to {INTEGER_MAX}")
    return value


def list_failures() -> Call[list[MaintenanceFailure]]:
    return Call("select * from sluice.list_failures()", (), record(MaintenanceFailure))
