"""The streams to open pages, which a server that stops ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Streams:
    """Streams that are open; for the event loop that serves them."""

    def __init__(self) -> None:
        self._open: set[asyncio.Event] = set()
        self._is_ended = False

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def opened(self) -> Iterator[asyncio.Event]:
        """Register a stream; yield the event that ends it."""
        event = asyncio.Event()
        if self._is_ended:
            event.set()
        self._open.add(event)
        try:
            yield event
        finally:
            self._open.discard(event)

    def end(self) -> None:
        """End all streams, also those that open later."""
        self._is_ended = True
        for event in self._open:
            event.set()
