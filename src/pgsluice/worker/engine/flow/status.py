"""Status of a worker, for health checks and display: no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from pgsluice.backoff import Backoff, described
from pgsluice.worker.engine.delivery import Counts
from pgsluice.worker.handlers.handler import Route


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A message or event that a handler processes now.

    Attributes:
        handler: Name of the handler.
        route: Where the message was claimed.
        message_id: `msg_id` of a message, `ev_id` of an event.
        began_s: Start of the call, on `time.monotonic`.
    """

    handler: str
    route: Route
    message_id: int
    began_s: float


@dataclass(frozen=True, slots=True)
class HandlerStatus:
    """Status of a handler.

    Attributes:
        name: Its name.
        running: Running calls.
        waiting: Messages claimed and not started.
        counts: Settled messages by result, since start.
        last_error: The type of the last failure; its text is stored with the message.
        unstarted: Reason why its last call could not start a thread or process, which makes the worker unready; None:
            it could.
        call_counts: Calls since the start, by bucket of their duration, as in `CallTimes`; empty: none was made.
        call_sum_s: The sum of their durations in seconds.
    """

    name: str
    running: int
    waiting: int
    counts: Counts
    last_error: str | None
    unstarted: str | None = None
    call_counts: tuple[int, ...] = ()
    call_sum_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """Status of a source of messages.

    Attributes:
        name: Display name.
        is_reachable: True if the last call succeeded.
        last_error: The last error, else None.
    """

    name: str
    is_reachable: bool
    last_error: str | None

    @classmethod
    def of(cls, name: str, backoff: Backoff) -> SourceStatus:
        """Return the status of a source by its last call."""
        error = backoff.error
        return cls(name, error is None, None if error is None else described(error))


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """Status of one of several databases.

    Attributes:
        name: Name of the shard.
        is_up: True if its worker runs and reaches all its sources.
        error: Why it does not, or the last error of a source; else None.
    """

    name: str
    is_up: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """Status of a worker.

    Attributes:
        state: `starting`, `running`, `stopping` or `stopped`.
        handlers: Status of each handler.
        sources: Status of each source.
        listener: The state of the listener, or None without one.
        hung_threads: Threads still running after their handler's timeout.
        wants_replacement: True if too many threads hang, or one for too long, so that the process must be replaced. A
            worker of `pgsluice worker run` stops for that; other programs must do so themselves.
        retrying: Messages that waited for a retry when `run_until_empty` stopped.
        shards: Status of each of several databases; empty with a single one.
    """

    state: str
    handlers: tuple[HandlerStatus, ...]
    sources: tuple[SourceStatus, ...]
    listener: str | None
    hung_threads: int
    wants_replacement: bool
    retrying: int = 0
    shards: tuple[ShardStatus, ...] = ()
