"""Select handlers of an app by name, queue or log, and describe their sources."""

from __future__ import annotations

from pgsluice.errors import ConfigurationError
from pgsluice.worker.engine.claim.routing import require_whole_consumers
from pgsluice.worker.engine.flow.worker import Application
from pgsluice.worker.handlers.handler import ConsumerRoute, GroupRoute, HandlerSpec, QueueRoute


def choose(
    app: Application, handlers: list[str] | None, queues: list[str] | None
) -> dict[str, HandlerSpec]:
    """Return the selected handlers of an app.

    Args:
        app: The app.
        handlers: Names of handlers; None: all.
        queues: Work queues and logs whose handlers to select; None: all.

    Raises:
        ConfigurationError: A name is unknown, no handler is selected, or the handlers of a consumer are in part.
    """
    places = {place_of(spec).lower() for spec in app.handlers.values()}
    _require("named", handlers, set(app.handlers), app)
    _require(
        "for queue or log", None if queues is None else [q.lower() for q in queues], places, app
    )
    wanted = {queue.lower() for queue in queues or places}
    chosen = {
        name: spec
        for name, spec in app.handlers.items()
        if (handlers is None or name in handlers) and place_of(spec).lower() in wanted
    }
    if not chosen:
        raise ConfigurationError(
            f"app {app.name} has no handlers{' for these queues' if app.handlers else ''} to run"
        )
    require_whole_consumers(app.handlers.values(), chosen.values())
    return chosen


def place_of(spec: HandlerSpec) -> str:
    """Return the work queue or log of a handler."""
    return spec.route.queue_name if isinstance(spec.route, QueueRoute) else spec.route.log_name


def describe(spec: HandlerSpec) -> str:
    """Describe the source of a handler."""
    match spec.route:
        case QueueRoute(queue_name=queue_name, topic=topic):
            return f"queue {queue_name}" + (f", topic {topic}" if topic else "")
        case GroupRoute(log_name=log_name, group_name=group_name, event_types=types):
            return f"log {log_name}, group {group_name}" + _types(types)
        case ConsumerRoute(log_name=log_name, consumer_name=consumer_name, event_types=types):
            return f"log {log_name}, consumer {consumer_name}" + _types(types)


def _types(event_types: tuple[str, ...]) -> str:
    return f", {' '.join(event_types)}" if event_types else ""


def _require(what: str, named: list[str] | None, there: set[str], app: Application) -> None:
    missing = sorted(set(named or ()) - there)
    if missing:
        known = ", ".join(sorted(there)) or "none"
        raise ConfigurationError(
            f"app {app.name} has no handler {what} {', '.join(missing)}; available: {known}"
        )
