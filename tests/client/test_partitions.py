"""Methods for partitions and maintenance, sync and async, on a pool and on a connection."""

from __future__ import annotations

import pytest

from pgsluice import MaintenanceStep
from pgsluice.errors import ArgumentError, QueueNameError, ServerError


@pytest.fixture
def parts(clients, queue_name, observer):
    """Name of a queue in partitions of ten messages."""
    name = f"{queue_name}_parts"
    clients.queue.create_partitioned(name, "10", "1000", 1)
    yield name
    clients.queue.drop_queue(name)


def test_partitions_are_made_shown_and_maintained(clients, parts):
    clients.queue.send_batch(parts, list(range(15)))

    steps = clients.operations.maintain()

    assert MaintenanceStep("create partitions", parts, True, f"q_{parts}_P20: 20 to 30") in steps
    shown = clients.operations.list_partitions(parts)
    assert [(p.relation, p.starts_at, p.ends_at) for p in shown] == [
        (relation, *bounds)
        for relation in ("queue", "archive")
        for bounds in (("0", "10"), ("10", "20"), ("20", "30"), (None, None))
    ]
    assert shown[0].total_bytes > 0
    assert clients.operations.maintain() == []
    assert clients.queue.metrics(parts).default_partition_length == 0


def test_an_archive_gets_partitions_and_keeps_what_it_holds(clients, queue_name, observer):
    clients.queue.send_batch(queue_name, [1, 2, 3])
    clients.queue.archive(queue_name, 2)

    clients.archive.convert_archive_partitioned(queue_name, "10", None, 2)

    assert [p.partition_name for p in clients.operations.list_partitions(queue_name)] == [
        f"a_{queue_name}_{suffix}" for suffix in ("PMINVALUE", "P10", "P20", "default")
    ]
    count = f"select count(*) from pgmq.a_{queue_name}"
    assert observer.execute(count).fetchone() == (1,)


def test_settings_that_make_no_partitions_are_refused(clients, queue_name):
    for call in (
        lambda: clients.queue.create_partitioned("new", "10", "100", 0),
        lambda: clients.queue.create_partitioned("new", "10", "100", True),
        lambda: clients.queue.create_partitioned("new", "0", "100"),
        lambda: clients.archive.convert_archive_partitioned(queue_name, "0", "100"),
        lambda: clients.archive.convert_archive_partitioned(queue_name, "10", "100", 2**31),
    ):
        with pytest.raises(ArgumentError):
            call()
    with pytest.raises(QueueNameError):
        clients.queue.create_partitioned("")
    with pytest.raises(ServerError, match="exists and cannot be partitioned"):
        clients.queue.create_partitioned(queue_name)
    assert clients.operations.list_partitions("new") == []
