"""Make the sources of a worker's handlers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg_pool import AsyncConnectionPool

from pgsluice.worker.engine.claim.group_source import GroupSource
from pgsluice.worker.engine.claim.group_types import GroupTypes
from pgsluice.worker.engine.claim.queue_source import QueueSource
from pgsluice.worker.engine.claim.row_locks import LockWaits
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.delivery import Delivery
from pgsluice.worker.handlers.handler import GroupRoute, HandlerSpec, QueueRoute
from pgsluice.worker.wakeups.listener import AsyncListener


@dataclass(frozen=True, slots=True)
class Feed:
    """A source and its handlers.

    Attributes:
        source: The source.
        specs: Its handlers, one or more.
        spec_of: Returns the handler of a delivery.
    """

    source: Source
    specs: tuple[HandlerSpec, ...]
    spec_of: Callable[[Delivery], HandlerSpec]


def make_feeds(
    specs: Sequence[HandlerSpec],
    pool: AsyncConnectionPool[Any],
    listener: AsyncListener | None,
    worker_id: str,
    *,
    app: tuple[str, Iterable[HandlerSpec]] | None = None,
) -> list[Feed]:
    """Make the sources of these handlers, in order; handlers of one share group share a source.

    Args:
        specs: The handlers; those of log consumers, which have no source, are ignored.
        pool: Provides a connection per call.
        listener: Notifies of new messages; None: sources poll.
        worker_id: Display name of the worker.
        app: Name and all handlers of the app, also those that run elsewhere; None: these handlers.

    Raises:
        ConfigurationError: Two handlers of a group match the same events.
    """
    lock_waits = LockWaits(pool.max_size)
    feeds: list[Feed] = []
    groups: dict[GroupRoute, list[HandlerSpec]] = {}
    for spec in specs:
        if isinstance(spec.route, QueueRoute):
            queue = QueueSource(pool, spec.route, spec, listener, worker_id, lock_waits)
            feeds.append(Feed(queue, (spec,), lambda _delivery, spec=spec: spec))  # type: ignore[misc]
        elif isinstance(spec.route, GroupRoute):
            groups.setdefault(replace(spec.route, event_types=()), []).append(spec)
    name, every = ("", specs) if app is None else (app[0], list(app[1]))
    for route, of_group in groups.items():
        declared = [
            spec
            for spec in every
            if isinstance(spec.route, GroupRoute) and replace(spec.route, event_types=()) == route
        ]
        types = GroupTypes(pool, route, name, declared, of_group)
        group = GroupSource(pool, route, of_group, listener, lock_waits, types, worker_id)
        feeds.append(Feed(group, tuple(of_group), group.spec_of))
    return feeds
