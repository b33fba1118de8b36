"""What passes by itself is waited out, and said once in a while."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable
from typing import TypeVar

from pgsluice.errors import ConnectionFailedError, RetryableError, SluiceError
from pgsluice.worker.pause import next_delay_s

Result = TypeVar("Result")

PASSING = (ConnectionFailedError, RetryableError)
# A server that is back is found within about this; one that is not is asked by each process half as often as that.
_DELAY_MAX_S = 1.0
# For what does not pass by itself: somebody has to do something first.
_TROUBLE_DELAY_MAX_S = 30.0
_LINES_PER_S = 2


class Complaints:
    """At most two lines a second of a process, whatever goes wrong how often; how many were left out is said."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def say(self, level: int, text: str, *args: object) -> None:
        """Log a line, or count it as left out."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= _LINES_PER_S:
            self._left_out += 1
            return
        self._lines += 1
        if self._left_out:
            text, args = f"{text} (%d lines like this were left out)", (*args, self._left_out)
            self._left_out = 0
        self._logger.log(level, text, *args)


class Patience:
    """How long to wait before the next attempt: longer each time, and not all at the same moment."""

    def __init__(self, name: str, complaints: Complaints) -> None:
        self._name = name
        self._complaints = complaints
        self._delay_s = 0.0
        self.error: BaseException | None = None

    def succeeded(self) -> None:
        """Begin anew after a success."""
        if self.error is not None:
            self.error = None
            self._delay_s = 0.0

    def failed(self, doing: str, error: BaseException) -> float:
        """Say it; return how long to wait now, seconds."""
        passes = isinstance(error, PASSING)
        self.error = error
        self._delay_s = next_delay_s(self._delay_s)
        delay_s = min(self._delay_s, _DELAY_MAX_S if passes else _TROUBLE_DELAY_MAX_S)
        delay_s *= random.uniform(0.5, 1.0)  # noqa: S311 - so that not all come at once
        self._complaints.say(
            logging.WARNING if passes else logging.ERROR,
            "%s: cannot %s: %s; again in %.1f s",
            *(self._name, doing, described(error), delay_s),
        )
        return delay_s


def described(error: BaseException) -> str:
    """An error for a log: our own with its words; of another only the class, for its words may quote a payload."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, SluiceError) else name


async def within(seconds: float, work: Awaitable[Result]) -> Result:
    """Wait for a call of the server, but not forever.

    Raises:
        ConnectionFailedError: It took longer. It may still have been done.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise ConnectionFailedError(
            f"no answer within {seconds:.1f} s; check that the server runs and is reachable"
        ) from None
