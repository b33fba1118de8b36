"""Create queues of one shard at another, with their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgsluice.client.calls import pgmq, settings
from pgsluice.ops.shards.opening import Shard

_LIMITS = (
    "fleet_concurrency", "key_concurrency", "rate", "rate_interval", "when_waiting", "priority_weights",
)  # fmt: skip
_OPTIONS = (
    "archive_retention", "max_attempts", "backoff", "backoff_base", "backoff_max", "backoff_jitter",
    "backoff_factor", "deduplication_window", "deduplication_until", "on_duplicate",
)  # fmt: skip


def create_missing(shards: Mapping[str, Shard]) -> None:
    """Create the queues of all shards at those that have no directory yet."""
    names = {name: _queues(one) for name, one in shards.items()}
    for target in shards.values():
        if target.state is None:
            for source in shards.values():
                for folded, queue_name in names[source.name].items():
                    if folded not in names[target.name]:
                        create_queue(source, target, queue_name)
                        names[target.name][folded] = queue_name


def create_queue(source: Shard, target: Shard, queue_name: str) -> None:
    """Create a queue as it is at its source, if it does not exist."""
    if queue_name.lower() in _queues(target):
        return
    infos = source.runner.run(pgmq.list_queues())
    is_unlogged = any(one.is_unlogged for one in infos if one.queue_name == queue_name)
    options = source.runner.run(settings.queue_options(queue_name))
    create = pgmq.create_unlogged if is_unlogged else pgmq.create
    target.runner.run(create(queue_name))
    plain: Any = {name: getattr(options, name) for name in _OPTIONS}
    target.runner.run(settings.set_queue_options(queue_name, **plain))
    limits: Any = {name: getattr(options, name) for name in _LIMITS}
    if any(value is not None for value in limits.values()):
        # Declared by a handler, they can be changed by its next start.
        if options.limits_by is None:
            target.runner.run(settings.set_queue_options(queue_name, **limits))
        else:
            target.runner.run(settings.declare_queue_options(queue_name, options.limits_by, limits))


def _queues(shard: Shard) -> dict[str, str]:
    return {one.queue_name.lower(): one.queue_name for one in shard.runner.run(pgmq.list_queues())}
