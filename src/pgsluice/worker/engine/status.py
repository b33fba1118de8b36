"""How a worker fares, for health checks and people: no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from pgsluice.worker.engine.settlement import Counts


@dataclass(frozen=True, slots=True)
class HandlerStatus:
    """How a handler fares.

    Attributes:
        name: Its name.
        running: Calls that run now.
        waiting: Messages that are claimed and not started.
        counts: What became of those that are settled, since the start.
        last_error: The type of the last failure; what it says is kept with the message.
    """

    name: str
    running: int
    waiting: int
    counts: Counts
    last_error: str | None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a place fares that messages come from.

    Attributes:
        name: For people.
        is_reachable: Whether the last call of the server succeeded.
        last_error: Why not.
    """

    name: str
    is_reachable: bool
    last_error: str | None


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """How a worker fares.

    Attributes:
        state: `starting`, `running`, `stopping` or `stopped`.
        handlers: Each handler.
        sources: Each place messages come from.
        listener: The state of the listener, or None without one.
        hung_threads: Threads whose handler ran longer than it may, and still does.
        wants_replacement: True if so many of them hang, or one for so long, that the process is to be replaced. A
            worker of `pgsluice worker run` is stopping for that; in another program that is the program's to do.
    """

    state: str
    handlers: tuple[HandlerStatus, ...]
    sources: tuple[SourceStatus, ...]
    listener: str | None
    hung_threads: int
    wants_replacement: bool
