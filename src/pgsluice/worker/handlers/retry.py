"""Retry policies of handlers; the server applies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from pgsluice.errors import ArgumentError
from pgsluice.outcome import DELAY_MAX_S
from pgsluice.ranges import is_number

# Maximum of PostgreSQL's integer.
ATTEMPTS_MAX = 2_147_483_647
Backoff = Literal["constant", "linear", "exponential"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Maximum attempts and back-off.

    Attributes:
        max_attempts: Attempts before a message is dead-lettered, 1 to 2^31 - 1.
        backoff_base_s: Back-off after the first failure in seconds, 0 or more.
        backoff_factor: Growth factor of exponential back-off, 1 or more.
        backoff_max_s: Maximum back-off in seconds, 0 or more.
        backoff: Growth of the back-off: `constant`; `linear`, by `backoff_base_s` per attempt; `exponential`, by
            `backoff_factor`.
        backoff_jitter: Randomise each back-off (50 to 100 %), so that messages that failed together are not retried
            together.
    """

    max_attempts: int = 5
    backoff_base_s: float = 1
    backoff_factor: float = 2.0
    backoff_max_s: float = 300
    backoff: Backoff = "exponential"
    backoff_jitter: bool = True

    def __post_init__(self) -> None:
        """Validate the policy."""
        if not is_number(self.max_attempts, 1, ATTEMPTS_MAX, is_whole=True):
            raise ArgumentError(
                f"max_attempts is {self.max_attempts!r}; use a whole number, 1 to {ATTEMPTS_MAX}"
            )
        for name in ("backoff_base_s", "backoff_max_s"):
            if not is_number(seconds := getattr(self, name), 0, DELAY_MAX_S):
                raise ArgumentError(f"{name} is {seconds!r}; use 0 to {DELAY_MAX_S} seconds")
        if not is_number(self.backoff_factor, 1):
            raise ArgumentError(f"backoff_factor is {self.backoff_factor!r}; use 1 or more")
        if self.backoff not in get_args(Backoff):
            raise ArgumentError(f"backoff is {self.backoff!r}; use {', '.join(get_args(Backoff))}")
        if not isinstance(self.backoff_jitter, bool):
            raise ArgumentError(f"backoff_jitter is {self.backoff_jitter!r}; use True or False")

    @property
    def options(self) -> dict[str, Any]:
        """The policy as the functions take it that decide about a failed attempt."""
        return {
            "max_attempts": self.max_attempts,
            "backoff": self.backoff,
            "backoff_base": self.backoff_base_s,
            "backoff_max": self.backoff_max_s,
            "backoff_jitter": self.backoff_jitter,
            "backoff_factor": self.backoff_factor,
        }
