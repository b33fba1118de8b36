"""When to try again, and when to give up: pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pgsluice.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential backoff with a cap.

    Attributes:
        max_attempts: Deliveries after which a message goes to the dead letters, 1 or more.
        first_delay_s: Seconds between the first failure and the second attempt, 0 or more.
        factor: By how much each delay is longer than the one before, 1 or more.
        max_delay_s: The longest delay, seconds.
    """

    max_attempts: int = 5
    first_delay_s: int = 1
    factor: float = 2.0
    max_delay_s: int = 300

    def __post_init__(self) -> None:
        """Refuse a policy that could not be followed."""
        if self.max_attempts < 1:
            raise ArgumentError(f"max_attempts is {self.max_attempts}; use 1 or more")
        if self.first_delay_s < 0 or self.max_delay_s < 0:
            raise ArgumentError("a delay between attempts is negative; use 0 or more seconds")
        if not 1 <= self.factor < math.inf:  # also refuses NaN
            raise ArgumentError(f"factor is {self.factor}; use 1 or more")

    def is_last(self, attempt: int) -> bool:
        """Whether no attempt follows this one (the first is 1)."""
        return attempt >= self.max_attempts

    def delay_s(self, attempt: int) -> int:
        """Whole seconds to wait after this attempt (the first is 1) failed."""
        # Past the cap the power only overflows.
        delay = float(self.first_delay_s)
        for _ in range(attempt - 1):
            delay *= self.factor
            if delay >= self.max_delay_s:
                break
        return int(min(delay, self.max_delay_s))
