"""Map events to handlers and to ordering keys, without I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pgsluice.client import ClaimedEvent
from pgsluice.errors import ConfigurationError
from pgsluice.worker.handlers.handler import ConsumerRoute, GroupRoute, HandlerSpec

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z_0-9]*)|\[(\d+)\]")


class Routing:
    """The handlers of one group or consumer, by event type."""

    def __init__(self, specs: Sequence[HandlerSpec]) -> None:
        """Index the handlers by event type.

        Raises:
            ConfigurationError: Two handlers match the same type, or all other types.
        """
        self._by_type: dict[str, HandlerSpec] = {}
        self._rest: HandlerSpec | None = None
        for spec in specs:
            assert isinstance(spec.route, GroupRoute | ConsumerRoute)  # noqa: S101 - the callers pass no other
            for event_type in spec.route.event_types:
                other = self._by_type.setdefault(event_type, spec)
                if other is not spec:
                    raise ConfigurationError(
                        f"handlers {other.name} and {spec.name} both match events of type {event_type!r} of log "
                        f"{spec.route.log_name}; remove the type from one handler"
                    )
            if not spec.route.event_types:
                if self._rest is not None:
                    raise ConfigurationError(
                        f"handlers {self._rest.name} and {spec.name} both match all events of log "
                        f"{spec.route.log_name}; set event_types on one handler, or use separate groups"
                    )
                self._rest = spec

    def spec_of(self, ev_type: str | None) -> HandlerSpec | None:
        """Return the handler of an event type, or None."""
        if ev_type is None:
            return self._rest
        return self._by_type.get(ev_type, self._rest)


def key_of(event: ClaimedEvent, key: str | None) -> str | None:
    """Return an event's ordering key; events with equal keys on the server have equal keys here.

    Args:
        event: The event.
        key: The `key` option of its group.
    """
    if key is None or not key.startswith("$"):
        value: str | None = None if key is None else getattr(event, key)
        return value
    steps = list(_STEP.finditer(key, 1))
    if "".join(step[0] for step in steps) != key[1:]:
        return key  # a path that only the server can evaluate: serialize all events
    try:
        found = json.loads(event.ev_data or "null")
        for step in steps:
            found = found[step[1]] if step[1] is not None else found[int(step[2])]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) or found is None else json.dumps(found)
