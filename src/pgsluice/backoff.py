"""Back-off: interruptible waits and retries after transient errors.

Decides which errors a loop retries, how the delay grows, what is logged, and when to give up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

from pgsluice.errors import (
    TRANSIENT,
    ConsumerNotFoundError,
    GroupNotFoundError,
    LogNotFoundError,
    QueueNotFoundError,
    SluiceError,
)

Result = TypeVar("Result")

# After an outage, each process finds the server within about this time.
_RECONNECT_MAX_S = 1.0
# The cap after an error that lasts until an operator fixes its cause.
DELAY_MAX_S = 30.0
# The cap while a queue, log, group or consumer is missing: it may be created again at any time.
_MISSING_MAX_S = 2.0
_MISSING = (QueueNotFoundError, LogNotFoundError, GroupNotFoundError, ConsumerNotFoundError)
_DELAY_MIN_S = 0.1
# Interval at which an unchanged warning is logged again, and the number of warnings remembered.
_WARN_AGAIN_S = 60.0
_WARNINGS_MAX = 1_000
_LINES_PER_S = 2


def pause(stop: threading.Event, seconds: float) -> None:
    """Sleep, at most until `stop` is set."""
    stop.wait(seconds)


async def async_pause(stop: asyncio.Event, seconds: float) -> None:
    """Sleep, at most until `stop` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


def next_delay_s(
    failures: int, delay_min_s: float = _DELAY_MIN_S, delay_max_s: float = DELAY_MAX_S
) -> float:
    """Return the delay in seconds after N consecutive failures: doubled by each, 0 after none."""
    return min(delay_max_s, delay_min_s * 2.0 ** min(failures - 1, 30)) if failures else 0.0


def jittered(delay_s: float) -> float:
    """Return a random delay between half and all of `delay_s`, so that processes do not retry in step."""
    return delay_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class Backoff:
    """Retry transient errors with exponential back-off, logging each failure.

    Attributes:
        error: The last failure; None after a success.
        failures: Consecutive failures.
    """

    def __init__(
        self,
        name: str = "",
        say: Callable[..., object] = lambda *_: None,
        *,
        delay_max_s: float = _RECONNECT_MAX_S,
        deadline_s: float = math.inf,
    ) -> None:
        """Start with the shortest delay.

        Args:
            name: Prefix of each log line; may be empty.
            say: Called with level, text and arguments: a logger's `log`, or `Complaints.log`. Default: no log.
            delay_max_s: The longest delay after a transient error, seconds; 2 seconds while a queue, log, group or
                consumer is missing, and 30 seconds after other errors.
            deadline_s: Raise an error instead of waiting past this time from now, seconds.
        """
        self._name = name
        self._say = say
        self._delay_max_s = delay_max_s
        self._end_s = time.monotonic() + deadline_s
        self.error: BaseException | None = None
        self.failures = 0

    def succeeded(self) -> None:
        """Reset to the shortest delay."""
        self.error = None
        self.failures = 0

    def failed(self, error: BaseException, doing: str | None = None) -> float:
        """Log a failure; return the delay before the next attempt, seconds.

        Args:
            error: The failure.
            doing: The operation that failed, for the log, which then also names the class of the error.

        Raises:
            BaseException: The failure itself, when the wait would pass the deadline.
        """
        is_transient = isinstance(error, TRANSIENT)
        delay_s = self.next_s(is_transient=is_transient)
        if isinstance(error, _MISSING):
            delay_s = min(delay_s, _MISSING_MAX_S)
        if time.monotonic() + delay_s > self._end_s:
            raise error
        # The frames of its traceback would keep objects alive, some with a reference to this one.
        self.error = error.with_traceback(None)
        what = str(error) if doing is None else f"cannot {doing}: {described(error)}"
        self._say(
            logging.WARNING if is_transient else logging.ERROR,
            "%s; retry in %.1f s",
            *(f"{self._name}: {what}" if self._name else what, delay_s),
        )
        return delay_s

    def next_s(self, *, is_transient: bool = True) -> float:
        """Count a failure; return the delay before the next attempt, seconds."""
        self.failures += 1
        delay_max_s = self._delay_max_s if is_transient else DELAY_MAX_S
        return jittered(next_delay_s(self.failures, delay_max_s=delay_max_s))

    @contextlib.contextmanager
    def attempt(
        self, stop: threading.Event | None = None, on_failure: Callable[[], object] = lambda: None
    ) -> Iterator[None]:
        """Suppress a transient error of the block and wait before the next attempt; raise it at the deadline.

        Args:
            stop: Ends the wait.
            on_failure: Called before the wait.
        """
        try:
            yield
        except TRANSIENT as error:
            delay_s = self.failed(error)
            on_failure()
            pause(stop or threading.Event(), delay_s)
        else:
            self.succeeded()

    @contextlib.asynccontextmanager
    async def async_attempt(
        self,
        stop: asyncio.Event | None = None,
        on_failure: Callable[[], object] = lambda: None,
        *,
        doing: str | None = None,
    ) -> AsyncIterator[None]:
        """Do the same as `attempt` in an event loop."""
        try:
            yield
        except TRANSIENT as error:
            delay_s = self.failed(error, doing)
            on_failure()
            await async_pause(stop or asyncio.Event(), delay_s)
        else:
            self.succeeded()

    def retry(self, step: Callable[[], Result]) -> Result:
        """Call a step until it succeeds; return its result.

        Raises:
            Exception: An error that is not transient, or a transient one at the deadline.
        """
        while True:
            with self.attempt():
                return step()

    async def async_retry(
        self, step: Callable[[], Awaitable[Result]], on_failure: Callable[[], object] = lambda: None
    ) -> Result:
        """Do the same as `retry` in an event loop."""
        while True:
            async with self.async_attempt(on_failure=on_failure):
                return await step()


class Complaints:
    """Log at most two lines a second, and count the suppressed ones."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def log(self, level: int, text: str, *args: object) -> None:
        """Log a line, or count it as suppressed."""
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


class Reminders:
    """Limits repeated warnings to one a minute each."""

    def __init__(self) -> None:
        self._until_s: dict[object, float] = {}

    def is_due(self, warning: object) -> bool:
        """True if a warning was not logged within the last minute."""
        now_s = time.monotonic()
        if now_s < self._until_s.get(warning, 0.0):
            return False
        if len(self._until_s) >= _WARNINGS_MAX:
            self._until_s.clear()
        self._until_s[warning] = now_s + _WARN_AGAIN_S
        return True


def described(error: BaseException) -> str:
    """Return an error for a log line: ours with its text, others by class only, as their text may quote a payload."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, SluiceError) else name
