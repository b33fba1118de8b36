"""Event types of a share group: which events this process handles, which it leaves, and which no handler is for."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg_pool import AsyncConnectionPool

from pgsluice.client import AsyncShareGroup, ClaimedEvent
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import group_types, listeners
from pgsluice.client.calls.listeners import Due
from pgsluice.errors import SluiceError
from pgsluice.worker.engine.claim.routing import Routing
from pgsluice.worker.handlers.handler import GroupRoute, HandlerSpec, source_name

_log = logging.getLogger(__name__)
# The server keeps a declaration for a week.
_DECLARE_S = 3600.0
# An operator may change the option `unhandled`, or remove a declaration.
_DECLARE_AGAIN_S = 10.0
_STORE_S = 30.0
_NO_HANDLER = "no handler for its type"


class GroupTypes:
    """The event types of a share group, as the handlers of an app declare them.

    Attributes:
        names: Types that this process handles.
        has_others: True if it also handles all types that no handler is declared for.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        route: GroupRoute,
        app: str,
        declared: Sequence[HandlerSpec],
        chosen: Sequence[HandlerSpec],
    ) -> None:
        """Prepare without database access.

        Args:
            pool: Provides a connection per call.
            route: The log and group.
            app: Name of the app.
            declared: All handlers of the app for the group.
            chosen: Those that run in this process.

        Raises:
            ConfigurationError: Two handlers match the same events.
        """
        self._routing = Routing(declared)
        self._runner = AsyncRunner(pool)
        self._names = (route.log_name, route.group_name)
        self._source_name = source_name(route)
        self._app = app
        self._declared = [(spec.name, ev_type) for spec in declared for ev_type in _types(spec)]
        self._chosen = {spec.name for spec in chosen}
        types = [ev_type for spec in chosen for ev_type in _types(spec)]
        self.names = [ev_type for ev_type in types if ev_type is not None]
        self.has_others = None in types
        self._is_part = len(chosen) < len(declared)
        self._unhandled = "accept"
        self._declared_s = 0.0
        self._stored_s = 0.0
        self._counts: dict[str, Counter[str | None]] = {}

    def spec_of(self, ev_type: str | None) -> HandlerSpec:
        """Return the handler of an event that `settle_unhandled` returned."""
        spec = self._routing.spec_of(ev_type)
        assert spec is not None  # noqa: S101 - other events are settled
        return spec

    async def declare(self) -> None:
        """Declare the types of all handlers of the app, also of those that run elsewhere."""
        self._unhandled = await self._runner.run(
            group_types.declare_types(*self._names, self._app, self._declared)
        )
        self._declared_s = time.monotonic()

    async def keep_declared(self) -> None:
        """Declare the types again if that was an hour ago; store counts of unhandled events."""
        if time.monotonic() - self._declared_s > _DECLARE_S:
            await self.declare()
        if self._counts and time.monotonic() - self._stored_s > _STORE_S:
            await self._store_counts()

    async def next_due(self, after: datetime | None) -> Due:
        """Return when the next event that this process handles is due after a server time."""
        return await self._runner.run(
            listeners.next_group_due(*self._names, after, self.names, self.has_others)
        )

    async def has_more(self) -> bool:
        """True if an empty claim only left events to other processes, and more can be claimed now."""
        if not self._is_part:
            return False
        due = await self.next_due(None)
        return due.due_at is not None and due.due_at <= due.queried_at

    async def settle_unhandled(
        self, group: AsyncShareGroup, events: Sequence[ClaimedEvent]
    ) -> list[ClaimedEvent]:
        """Accept or dead-letter events of types that no handler is declared for; return those to handle here."""
        specs = [self._routing.spec_of(event.ev_type) for event in events]
        handled = [
            event
            for event, spec in zip(events, specs, strict=True)
            if spec is not None and spec.name in self._chosen
        ]
        if len(handled) == len(events):
            return handled
        if time.monotonic() - self._declared_s > _DECLARE_AGAIN_S:
            await self.declare()
        unhandled = [event for event, spec in zip(events, specs, strict=True) if spec is None]
        # Only if an operator removed a declaration of this app, which is renewed now.
        others = [
            event
            for event, spec in zip(events, specs, strict=True)
            if spec is not None and spec.name not in self._chosen
        ]
        if others or (unhandled and self._unhandled == "leave"):
            await self.declare()
            await group.release(others + (unhandled if self._unhandled == "leave" else []))
        if not unhandled or self._unhandled == "leave":
            return handled
        if self._unhandled == "dead-letter":
            await group.reject(unhandled, _NO_HANDLER)
        else:
            # Acknowledging the whole claim is cheaper.
            await group.accept(unhandled if len(unhandled) < len(events) else unhandled[0].claim_id)
        await self._count(unhandled)
        return handled

    async def close(self) -> None:
        """Store the counts of unhandled events."""
        with contextlib.suppress(SluiceError):
            await self._store_counts()

    async def _count(self, events: Sequence[ClaimedEvent]) -> None:
        counts = self._counts.setdefault(self._unhandled, Counter())
        counts.update(event.ev_type for event in events)
        for ev_type in filter(self._routing.is_new, {event.ev_type for event in events}):
            self._stored_s = 0.0  # store it with the next claim
            _log.warning(
                'event type without handler source="%s" type=%r outcome=%s hint="declare a handler, or choose their '
                'treatment: pgsluice group set %s %s unhandled=leave"',
                *(self._source_name, ev_type, self._unhandled),
                *self._names,
            )

    async def _store_counts(self) -> None:
        counts, self._counts = self._counts, {}
        self._stored_s = time.monotonic()
        for outcome, events in counts.items():
            await self._runner.run(group_types.note_unhandled(*self._names, outcome, dict(events)))


def _types(spec: HandlerSpec) -> Sequence[str | None]:
    assert isinstance(spec.route, GroupRoute)  # noqa: S101 - the callers pass no other
    return spec.route.event_types or (None,)
