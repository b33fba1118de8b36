"""Parts and options that all lanes of a worker share."""

from __future__ import annotations

from dataclasses import dataclass

from pgsluice.backoff import Complaints
from pgsluice.worker.engine.flow.fair_share import FairShare
from pgsluice.worker.engine.run.executor import Executor
from pgsluice.worker.engine.settle.failure_log import FailureLog

IDLE_S = 600.0


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
