"""Divide a process's connection limit among the parts of its worker. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pgsluice.errors import ArgumentError
from pgsluice.worker.handlers.handler import (
    ConsumerRoute,
    Execution,
    GroupRoute,
    HandlerSpec,
    Mode,
    Route,
)

# Claims, heartbeats and acknowledgements take milliseconds each, so lanes share connections.
_ENGINE_PER_LANE = 4
_ENGINE_MAX = 8


@dataclass(frozen=True, slots=True)
class Shares:
    """Maximum connections of each part of a worker.

    Attributes:
        engine: For claims, heartbeats and acknowledgements, shared by all queues and share groups.
        consumers: For batches of log consumers.
        loop: For `async def` handlers.
        threads: For `def` handlers.
        listener: For the listener.
    """

    engine: int
    consumers: int
    loop: int
    threads: int
    listener: int = 1

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return self.engine + self.consumers + self.loop + self.threads + self.listener


def shares(
    specs: Iterable[HandlerSpec],
    *,
    max_connections: int,
    concurrency: int | None = None,
    has_pool: bool = False,
) -> Shares:
    """Divide the connections of a worker.

    Each part gets its minimum. The rest goes first to the engine, then to consumers, then to handlers that take a
    context, in proportion to their concurrency; no part gets more than it can use.

    Args:
        specs: The handlers.
        max_connections: Maximum connections of the process.
        concurrency: Maximum concurrent calls in the process, or None.
        has_pool: True if `async def` handlers use a caller's pool, which is not counted.

    Raises:
        ArgumentError: These handlers need more connections.
    """
    specs = list(specs)
    consumers = _places(spec.route for spec in specs if isinstance(spec.route, ConsumerRoute))
    lanes = _places(spec.route for spec in specs if not isinstance(spec.route, ConsumerRoute))
    loop = 0 if has_pool else _calls(specs, Execution.LOOP, concurrency)
    threads = _calls(specs, Execution.THREAD, concurrency)
    least = Shares(
        engine=min(2, max(1, lanes)),
        consumers=consumers,
        loop=min(1, loop),
        threads=min(1, threads),
    )
    rest = max_connections - least.total
    if rest < 0:
        raise ArgumentError(
            f"max_connections is {max_connections}, but these handlers need at least {least.total}: {least.engine} for "
            f"claims and acknowledgements, {least.listener} to listen, {least.consumers} for log consumers, "
            f"{least.loop + least.threads} for handler transactions; raise it (--max-connections), or run fewer "
            "handlers in the process (--queues, --handlers)"
        )
    more = min(rest, min(_ENGINE_PER_LANE * max(1, lanes), _ENGINE_MAX) - least.engine)
    given = replace(least, engine=least.engine + more)
    rest -= more
    more = min(rest, consumers)
    given = replace(given, consumers=given.consumers + more)
    rest -= more
    missing_loop, missing_threads = loop - given.loop, threads - given.threads
    rest = min(rest, missing_loop + missing_threads)
    if rest > 0:
        more = round(rest * missing_loop / (missing_loop + missing_threads))
        given = replace(given, loop=given.loop + more, threads=given.threads + rest - more)
    return given


def _places(routes: Iterable[Route]) -> int:
    """Count sources; handlers of one share group or consumer share one."""
    return len(
        {
            route
            if not isinstance(route, GroupRoute | ConsumerRoute)
            else replace(route, event_types=())
            for route in routes
        }
    )


def _calls(specs: Iterable[HandlerSpec], execution: Execution, concurrency: int | None) -> int:
    """Count concurrent calls that may open a transaction; handlers of consumers use the connection of their batch.

    One more for all handlers without a context, as middleware may open a transaction for them.
    """
    specs = [
        spec
        for spec in specs
        if spec.execution is execution and not isinstance(spec.route, ConsumerRoute)
    ]
    takers = [spec for spec in specs if spec.takes_context or spec.mode is Mode.TRANSACTION]
    calls = sum(spec.limits.concurrency for spec in takers) + (len(takers) < len(specs))
    return calls if concurrency is None else min(calls, concurrency)
