"""Parts and options that all lanes of a worker share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pgsluice.backoff import Complaints
from pgsluice.worker.engine.flow.fair_share import FairShare
from pgsluice.worker.engine.run.executor import Executor
from pgsluice.worker.engine.run.process_pool import ProcessPool
from pgsluice.worker.engine.settle.failure_log import FailureLog

IDLE_S = 600.0


class AnyLane(Protocol):
    """Activity of a lane, for the workers of other databases.

    Attributes:
        active_s: Time of its last message, on `time.monotonic`.
        empty_s: Start of its last poll that found no message, or None.
    """

    active_s: float
    empty_s: float | None

    @property
    def is_holding(self) -> bool:
        """True if it has messages in any state."""
        ...


@dataclass(frozen=True, slots=True)
class Peers:
    """Parts that the workers of one process share; each works on another database.

    Attributes:
        turns: Shares the process's concurrency among handlers and databases.
        processes: Handler processes.
        lanes: Returns the lanes of all workers whose database is reachable.
    """

    turns: FairShare
    processes: ProcessPool
    lanes: Callable[[], Sequence[AnyLane]]


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts and options that all lanes of a worker share.

    Attributes:
        executor: Calls the handlers.
        turns: Shares the process's concurrency among handlers.
        complaints: Receives failures to log.
        failures: Logs handler errors.
        prefetch: Maximum messages claimed ahead per handler; None: what the handler starts in 0.1 s.
        idle_s: Poll interval of an empty source in seconds, whatever it reports.
    """

    executor: Executor
    turns: FairShare
    complaints: Complaints
    failures: FailureLog
    prefetch: int | None = None
    idle_s: float = IDLE_S
