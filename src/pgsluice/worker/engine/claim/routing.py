"""Map events to handlers, without I/O."""

from __future__ import annotations

from collections.abc import Sequence

from pgsluice.errors import ConfigurationError
from pgsluice.worker.handlers.handler import ConsumerRoute, GroupRoute, HandlerSpec

_REMEMBERED_MAX = 1000  # a producer may invent types without end


class Routing:
    """The handlers of one group or consumer, by event type."""

    def __init__(self, specs: Sequence[HandlerSpec]) -> None:
        """Index the handlers by event type.

        Raises:
            ConfigurationError: Two handlers match the same type, or all other types.
        """
        self._by_type: dict[str, HandlerSpec] = {}
        self._rest: HandlerSpec | None = None
        self._unhandled: set[str | None] = set()
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

    def is_new(self, ev_type: str | None) -> bool:
        """True at the first call for a type without a handler, to log it once."""
        if ev_type in self._unhandled or len(self._unhandled) >= _REMEMBERED_MAX:
            return False
        self._unhandled.add(ev_type)
        return True
