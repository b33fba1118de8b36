"""Event loops, called from other threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


def call_soon(loop: asyncio.AbstractEventLoop, step: Callable[..., object], *args: object) -> None:
    """Run a step in a loop of another thread; do nothing when the loop has ended, as nobody waits there then."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(step, *args)
