"""Waiting that a stop ends, and for how long after a failure."""

from __future__ import annotations

import asyncio
import contextlib
import threading

_DELAY_MIN_S = 0.1
_DELAY_MAX_S = 30.0


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
    return min(_DELAY_MAX_S, max(_DELAY_MIN_S, delay_s * 2))
