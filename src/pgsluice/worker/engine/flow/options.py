"""Process-wide options of a worker, and its interface to an app."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgsluice.errors import ArgumentError
from pgsluice.ranges import is_number
from pgsluice.settings import Settings
from pgsluice.shards import Shards
from pgsluice.worker.engine.connections.shares import Shares, shares
from pgsluice.worker.handlers.choosing import HasHandlers
from pgsluice.worker.handlers.handler import HandlerSpec
from pgsluice.worker.handlers.middleware import Middleware


class Application(HasHandlers, Protocol):
    """App interface that a worker needs."""

    dsn: str | None
    shards: Shards | str | Path | None
    tracing: bool
    middlewares: list[Middleware]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Process-wide options of a worker.

    Attributes:
        concurrency: Maximum concurrent handler calls in the process, 1 or more; None: only limited per handler. At the
            limit, handlers share slots by their weights.
        prefetch: Messages that each handler may claim beyond those running, 0 or more. More keeps fast handlers busy;
            for slow handlers it withholds messages from other workers. None: what the handler starts in 0.1 s.
        lease_s: Lease duration without a heartbeat, for all handlers, more than 1 second; None: per handler.
        max_memory_mb: Address space limit of a handler process in MB; None: no limit.
        max_connections: Maximum connections of the process for claims, handlers and its listener, divided among
            shards; None: `PGSLUICE_MAX_CONNECTIONS`, else 30.
        grace_s: Grace period in seconds for other handlers when a worker with hung threads stops to be replaced, 0 or
            more.
    """

    concurrency: int | None = None
    prefetch: int | None = None
    lease_s: float | None = None
    max_memory_mb: int | None = None
    max_connections: int | None = None
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        """Validate the options."""
        for name, least, is_whole, expected in (
            ("concurrency", 1, True, "a whole number, 1 or more"),
            ("prefetch", 0, True, "a whole number, 0 or more"),
            ("lease_s", 1.001, False, "more than 1 second"),
            ("max_memory_mb", 1, True, "a whole number, 1 or more"),
            ("grace_s", 0, False, "0 or more seconds"),
            ("max_connections", 1, True, "a whole number, 1 or more"),
        ):
            value = getattr(self, name)
            is_default = value is None and name != "grace_s"
            if not is_default and not is_number(value, least, is_whole=is_whole):
                raise ArgumentError(f"{name} is {value!r}; use {expected}")

    def shares(self, specs: Iterable[HandlerSpec], *, has_pool: bool = False) -> Shares:
        """Divide the connections of a process that runs these handlers.

        Args:
            specs: The handlers.
            has_pool: True if `async def` handlers use a caller's pool.

        Raises:
            ArgumentError: The handlers need more connections.
        """
        most = self.max_connections
        return shares(
            specs,
            max_connections=Settings.load().max_connections if most is None else most,
            concurrency=self.concurrency,
            has_pool=has_pool,
        )
