"""Shards: all databases that share keys, which of them are down, and their messages."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import QueueState
from pgsluice.client.calls import shards as calls
from pgsluice.dashboard.database import Database, PagePart
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of
from pgsluice.errors import SluiceError
from pgsluice.shards import ShardState

_THREADS_MAX = 16


@dataclass(frozen=True)
class ShardRow:
    """A shard in the list.

    Attributes:
        name: Its name.
        target: Its database, without secrets.
        part: Its directory and its queues, or the reason why they cannot be read.
    """

    name: str
    target: str
    part: PagePart[tuple[ShardState | None, list[QueueState]]]

    @property
    def queues(self) -> list[QueueState]:
        """The queues; none if it is down."""
        return self.part.value[1] if self.part.value else []

    @property
    def state(self) -> ShardState | None:
        """The directory; None if it has none or is down."""
        return self.part.value[0] if self.part.value else None

    @property
    def oldest_s(self) -> float | None:
        """Age of the oldest ready message in seconds."""
        return max((each.oldest_ready_s or 0.0 for each in self.queues), default=None)


def show_shards(request: Request) -> Response:
    """Show all shards. They are read at the same time: those that are down take one timeout together."""
    databases = dashboard_of(request).shards
    with ThreadPoolExecutor(max_workers=min(len(databases), _THREADS_MAX)) as threads:
        rows = list(threads.map(_row, databases.items()))
    return page(request, "shards.html", section="shards", rows=rows)


def _row(named: tuple[str, Database]) -> ShardRow:
    name, database = named
    part: PagePart[tuple[ShardState | None, list[QueueState]]]
    try:
        part = database.part(
            lambda s: (s.run(calls.shard()), s.operations.list_queue_states()), "shard"
        )
    except SluiceError as error:
        part = PagePart(problem=str(error))
    return ShardRow(name, database.target.safe, part)
