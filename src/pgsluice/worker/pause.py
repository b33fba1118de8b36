"""Waiting that a stop ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading


def pause(stop: threading.Event, seconds: float) -> None:
    """Wait so long, or until `stop` is set."""
    stop.wait(seconds)


async def async_pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until `stop` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
