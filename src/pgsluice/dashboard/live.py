"""Server-sent events: one clock for all viewers of a dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pgsluice.dashboard.settings import dashboard_of
from pgsluice.dashboard.streams import Streams

_RETRY_MS = 1000
# A server that stops waits for its streams; the browser opens the next one.
_STREAM_S = 15.0


async def live(request: Request) -> Response:
    """Send an event whenever the page should be read again."""
    dashboard = dashboard_of(request)
    return StreamingResponse(
        _events(dashboard.streams, dashboard.refresh_s),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(streams: Streams, refresh_s: float) -> AsyncIterator[str]:
    yield f"retry: {_RETRY_MS}\n\n"
    loop = asyncio.get_running_loop()
    end_s = loop.time() + max(_STREAM_S, 3 * refresh_s)
    with streams.opened() as ended:
        # All viewers are notified at the same times, so that they share one reading.
        while loop.time() < end_s and not await _is_set(ended, refresh_s - loop.time() % refresh_s):
            yield "event: refresh\ndata:\n\n"


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), within_s)
    except TimeoutError:
        return False
    return True
