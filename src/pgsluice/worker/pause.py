"""Waits that a stop ends, and back-off: what a loop that survives transient errors does after each of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

from pgsluice.errors import TRANSIENT, SluiceError

# A server that is back is found within about this; one that is not is asked by each process half as often as that.
_RECONNECT_MAX_S = 1.0
# For what does not pass by itself, as somebody has to do something first.
DELAY_MAX_S = 30.0
_DELAY_MIN_S = 0.1
_LINES_PER_S = 2


def pause(stop: threading.Event, seconds: float) -> None:
    """Wait so long, or until `stop` is set."""
    stop.wait(seconds)


async def async_pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until `stop` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


def next_delay_s(delay_s: float) -> float:
    """How long to wait after one more failure in a row, seconds: twice as long each time, from 0.1 to 30.

    Args:
        delay_s: How long it was after the one before; 0 when that was a success.
    """
    return min(DELAY_MAX_S, max(_DELAY_MIN_S, delay_s * 2))


class Backoff:
    """Log the failures of a loop, and wait longer after each one in a row; not all processes at the same moment.

    Attributes:
        error: The last failure, if nothing has succeeded since.
    """

    def __init__(
        self, name: str, say: Callable[..., None], *, delay_max_s: float = _RECONNECT_MAX_S
    ) -> None:
        """Prepare it.

        Args:
            name: Begins each line of the log; may be empty.
            say: Called with level, text and arguments: a logger's `log`, or `Complaints.say`.
            delay_max_s: The longest delay after a transient error, seconds; after others it is 30 seconds.
        """
        self._name = name
        self._say = say
        self._delay_max_s = delay_max_s
        self._delay_s = 0.0
        self.error: BaseException | None = None

    def succeeded(self) -> None:
        """Begin anew with the shortest delay."""
        self.error = None
        self._delay_s = 0.0

    def failed(self, error: BaseException, doing: str | None = None) -> float:
        """Log a failure; return how long to wait now, seconds.

        Args:
            error: It.
            doing: What cannot be done, for the log; then the log tells the error by its class too.
        """
        self.error = error
        passes = isinstance(error, TRANSIENT)
        delay_s = self.next_s(passes=passes)
        what = str(error) if doing is None else f"cannot {doing}: {described(error)}"
        self._say(
            logging.WARNING if passes else logging.ERROR,
            "%s; again in %.1f s",
            *(f"{self._name}: {what}" if self._name else what, delay_s),
        )
        return delay_s

    def next_s(self, *, passes: bool = True) -> float:
        """Return how long to wait after one more failure in a row, seconds, after a transient error or another."""
        self._delay_s = next_delay_s(self._delay_s)
        longest_s = self._delay_max_s if passes else DELAY_MAX_S
        return min(self._delay_s, longest_s) * random.uniform(0.5, 1.0)  # noqa: S311 - not all at once

    @contextlib.contextmanager
    def attempt(
        self, stop: threading.Event, on_failure: Callable[[], object] = lambda: None
    ) -> Iterator[None]:
        """Wait out a transient error of the block, or until `stop` is set, instead of raising it.

        Args:
            stop: Ends the wait.
            on_failure: Called before the wait.
        """
        try:
            yield
        except TRANSIENT as error:
            delay_s = self.failed(error)
            on_failure()
            pause(stop, delay_s)
        else:
            self.succeeded()

    @contextlib.asynccontextmanager
    async def async_attempt(
        self, stop: asyncio.Event, *, doing: str | None = None
    ) -> AsyncIterator[None]:
        """As `attempt`, in an event loop."""
        try:
            yield
        except TRANSIENT as error:
            await async_pause(stop, self.failed(error, doing))
        else:
            self.succeeded()


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


def described(error: BaseException) -> str:
    """An error for a log: our own with its words; of another only the class, for its words may quote a payload."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, SluiceError) else name
