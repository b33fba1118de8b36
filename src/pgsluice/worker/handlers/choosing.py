"""Choose handlers of an app by name, queue or log, and describe their sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pgsluice.client.calls.arguments import several
from pgsluice.errors import ConfigurationError
from pgsluice.worker.handlers.handler import ConsumerRoute, HandlerSpec, QueueRoute, source_name


class HasHandlers(Protocol):
    """App interface of a choice."""

    name: str
    handlers: dict[str, HandlerSpec]


def choose(
    app: HasHandlers, handlers: Iterable[str] | None, queues: Iterable[str] | None
) -> dict[str, HandlerSpec]:
    """Return the chosen handlers of an app.

    Args:
        app: The app.
        handlers: Names of handlers; None: all.
        queues: Work queues and logs whose handlers to choose; None: all.

    Raises:
        ConfigurationError: A name is unknown, no handler is chosen, or the handlers of a consumer are in part.
        ArgumentError: A single name is given for a list.
    """
    chosen = dict(app.handlers)
    if handlers is not None:
        names = _existing("named", several(handlers, "handlers", "names"), set(chosen), app)
        chosen = {name: chosen[name] for name in chosen if name in names}
    if queues is not None:
        sources = {_source_of(spec) for spec in app.handlers.values()}
        lowered = map(str.lower, several(queues, "queues", "names"))
        names = _existing("for queue or log", lowered, sources, app)
        chosen = {name: spec for name, spec in chosen.items() if _source_of(spec) in names}
    if not chosen:
        raise ConfigurationError(
            f"app {app.name} has no handlers{' for these queues' if app.handlers else ''} to run"
        )
    _require_whole_consumers(app.handlers.values(), chosen)
    return chosen


def describe(spec: HandlerSpec) -> str:
    """Describe the source of a handler."""
    source = ", ".join(f"{kind} {name}" for kind, name in spec.route.fields.items())
    if isinstance(spec.route, QueueRoute):
        return source + (f", topic {spec.route.topic}" if spec.route.topic else "")
    return source + (f", {' '.join(spec.route.event_types)}" if spec.route.event_types else "")


def _source_of(spec: HandlerSpec) -> str:
    """Return the work queue or log of a handler, in lower case."""
    return next(iter(spec.route.fields.values())).lower()


def _existing(what: str, names: Iterable[str], known: set[str], app: HasHandlers) -> set[str]:
    """Return the names; refuse those that no handler has."""
    requested = set(names)
    if missing := sorted(requested - known):
        available = ", ".join(sorted(known)) or "none"
        raise ConfigurationError(
            f"app {app.name} has no handler {what} {', '.join(missing)}; available: {available}"
        )
    return requested


def _require_whole_consumers(every: Iterable[HandlerSpec], chosen: Mapping[str, object]) -> None:
    """Refuse to run a part of the handlers of a consumer: a tick batch is handled as a whole."""
    of_consumer: dict[str, list[str]] = {}
    for spec in every:
        if isinstance(spec.route, ConsumerRoute):
            of_consumer.setdefault(source_name(spec.route), []).append(spec.name)
    for consumer, handlers in of_consumer.items():
        missing = [name for name in handlers if name not in chosen]
        if 0 < len(missing) < len(handlers):
            raise ConfigurationError(
                f"{consumer} has the handlers {', '.join(handlers)}, and {', '.join(missing)} would not run; a tick "
                "batch is handled as a whole: run all of them, or give each handler a consumer of its own"
            )
