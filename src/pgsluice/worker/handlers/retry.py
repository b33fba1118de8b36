"""Retry policies of handlers; the server applies them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

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
