"""Which handler an event is for, and what it is kept in order by: decisions without I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pgsluice.client import ClaimedEvent
from pgsluice.errors import ConfigurationError
from pgsluice.worker.handlers.handler import ConsumerRoute, GroupRoute, HandlerSpec

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z_0-9]*)|\[(\d+)\]")


class Routing:
    """The handlers of the events of one group or consumer, by the types that they are for."""

    def __init__(self, specs: Sequence[HandlerSpec]) -> None:
        """Sort them.

        Raises:
            ConfigurationError: Two are for the same type, or for all that are left.
        """
        self._by_type: dict[str, HandlerSpec] = {}
        self._rest: HandlerSpec | None = None
        for spec in specs:
            assert isinstance(spec.route, GroupRoute | ConsumerRoute)  # noqa: S101 - by the only callers
            for event_type in spec.route.event_types:
                other = self._by_type.setdefault(event_type, spec)
                if other is not spec:
                    raise ConfigurationError(
                        f"handlers {other.name} and {spec.name} are both for events of type {event_type!r} of log "
                        f"{spec.route.log_name}; take it out of one of them"
                    )
            if not spec.route.event_types:
                if self._rest is not None:
                    raise ConfigurationError(
                        f"handlers {self._rest.name} and {spec.name} are both for all events of log "
                        f"{spec.route.log_name}; give one of them event_types, or a group of its own"
                    )
                self._rest = spec

    def spec_of(self, ev_type: str | None) -> HandlerSpec | None:
        """The handler for events of a type; None: there is none."""
        if ev_type is None:
            return self._rest
        return self._by_type.get(ev_type, self._rest)


def key_of(event: ClaimedEvent, key: str | None) -> str | None:
    """What an event is kept in order by, as far as this process must know it: equal keys are equal here.

    Args:
        event: The event.
        key: As in the options of its group.
    """
    if key is None or not key.startswith("$"):
        value: str | None = None if key is None else getattr(event, key)
        return value
    steps = list(_STEP.finditer(key, 1))
    if "".join(step[0] for step in steps) != key[1:]:
        return key  # a path that only the server reads: then all events are in one order
    try:
        found = json.loads(event.ev_data or "null")
        for step in steps:
            found = found[step[1]] if step[1] is not None else found[int(step[2])]
    except (ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) or found is None else json.dumps(found)
