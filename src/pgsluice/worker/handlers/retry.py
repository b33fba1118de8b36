"""Retry policies: pure functions, except for jitter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pgsluice.backoff import jittered
from pgsluice.errors import ArgumentError
from pgsluice.outcome import require_delay

# Maximum of PostgreSQL's integer.
ATTEMPTS_MAX = 2_147_483_647
Backoff = Literal["constant", "linear", "exponential"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Maximum attempts and back-off.

    Attributes:
        max_attempts: Attempts before a message is dead-lettered, 1 to 2^31 - 1.
        first_delay_s: Back-off after the first failure in seconds, 0 or more.
        factor: Growth factor of exponential back-off, 1 or more.
        max_delay_s: Maximum back-off in seconds, 0 or more.
        backoff: Growth of the back-off: `constant`; `linear`, by `first_delay_s` per attempt; `exponential`, by
            `factor`.
        jitter: Randomise each back-off (50-100 %), so that messages that failed together are not retried together.
    """

    max_attempts: int = 5
    first_delay_s: float = 1
    factor: float = 2.0
    max_delay_s: float = 300
    backoff: Backoff = "exponential"
    jitter: bool = False

    def __post_init__(self) -> None:
        """Validate the policy."""
        if not 1 <= self.max_attempts <= ATTEMPTS_MAX:
            raise ArgumentError(f"max_attempts is {self.max_attempts}; use 1 to {ATTEMPTS_MAX}")
        require_delay(self.first_delay_s, "first_delay_s")
        require_delay(self.max_delay_s, "max_delay_s")
        if not 1 <= self.factor < math.inf:
            raise ArgumentError(f"factor is {self.factor}; use 1 or more")
        if self.backoff not in get_args(Backoff):
            raise ArgumentError(f"backoff is {self.backoff!r}; use {', '.join(get_args(Backoff))}")

    @property
    def options(self) -> dict[str, Any]:
        """The policy as the functions take it that decide about a failed attempt."""
        return {
            "max_attempts": self.max_attempts,
            "backoff": self.backoff,
            "backoff_base": self.first_delay_s,
            "backoff_max": self.max_delay_s,
            "backoff_jitter": self.jitter,
            "backoff_factor": self.factor,
        }

    def next_delay_s(self, attempt: int, asked_s: float | None = None) -> float | None:
        """Return the back-off after a failed attempt, or None after the last one.

        For work queues `sluice.fail` decides this, with the same fields.

        Args:
            attempt: The number of the failed attempt; the first is 1.
            asked_s: Back-off requested by the handler in seconds; None: by this policy.

        Returns:
            Seconds until the next attempt; None: the message is dead-lettered.
        """
        if attempt >= self.max_attempts:
            return None
        return self.delay_s(attempt) if asked_s is None else asked_s

    def delay_s(self, attempt: int) -> float:
        """Return the back-off after a failed attempt, in seconds; the first attempt is 1."""
        delay_s = min(self._growth(attempt) * self.first_delay_s, self.max_delay_s)
        return jittered(delay_s) if self.jitter else delay_s

    def _growth(self, attempt: int) -> float:
        if self.backoff == "constant":
            return 1.0
        if self.backoff == "linear":
            return float(attempt)
        try:
            return self.factor ** (attempt - 1)
        except OverflowError:  # beyond any maximum, but a first delay of 0 must stay 0
            return math.inf if self.first_delay_s else 0.0
