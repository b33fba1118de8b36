"""When to try again, and when to give up: pure functions, but for chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from pgsluice.backoff import jittered
from pgsluice.errors import ArgumentError
from pgsluice.outcome import require_delay

# An integer of PostgreSQL.
ATTEMPTS_MAX = 2_147_483_647
Backoff = Literal["constant", "linear", "exponential"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to try, and how long to wait in between.

    Attributes:
        max_attempts: Attempts after which a message goes to the dead letters, 1 to 2^31 - 1.
        first_delay_s: Seconds between the first failure and the second attempt, 0 or more.
        factor: By how much each delay is longer than the one before, 1 or more; with exponential backoff only.
        max_delay_s: The longest delay, seconds, 0 or more.
        backoff: How delays grow: `constant`, the first again and again; `linear`, by the first each time;
            `exponential`, by the factor.
        jitter: Whether each delay is anything between half of it and all of it, so that what failed together does not
            come back together.
    """

    max_attempts: int = 5
    first_delay_s: float = 1
    factor: float = 2.0
    max_delay_s: float = 300
    backoff: Backoff = "exponential"
    jitter: bool = False

    def __post_init__(self) -> None:
        """Refuse a policy that could not be followed."""
        if not 1 <= self.max_attempts <= ATTEMPTS_MAX:
            raise ArgumentError(f"max_attempts is {self.max_attempts}; use 1 to {ATTEMPTS_MAX}")
        require_delay(self.first_delay_s, "first_delay_s")
        require_delay(self.max_delay_s, "max_delay_s")
        if not 1 <= self.factor < math.inf:
            raise ArgumentError(f"factor is {self.factor}; use 1 or more")
        if self.backoff not in get_args(Backoff):
            raise ArgumentError(f"backoff is {self.backoff!r}; use {', '.join(get_args(Backoff))}")

    def next_delay_s(self, attempt: int, asked_s: float | None = None) -> float | None:
        """Decide whether another attempt follows one that failed, and when.

        Work queues have this decided by `sluice.fail`, with the same fields.

        Args:
            attempt: Its number; the first is 1.
            asked_s: The delay that the handler asked for, seconds; None: as this policy says.

        Returns:
            Seconds until the next attempt; None: there is none, the message is dead-lettered.
        """
        if attempt >= self.max_attempts:
            return None
        return self.delay_s(attempt) if asked_s is None else asked_s

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait after this attempt (the first is 1) failed."""
        delay_s = min(self._growth(attempt) * self.first_delay_s, self.max_delay_s)
        return jittered(delay_s) if self.jitter else delay_s

    def _growth(self, attempt: int) -> float:
        if self.backoff == "constant":
            return 1.0
        if self.backoff == "linear":
            return float(attempt)
        try:
            return self.factor ** (attempt - 1)
        except OverflowError:  # far beyond any cap, and so it must stay where the first delay is 0
            return math.inf if self.first_delay_s else 0.0
