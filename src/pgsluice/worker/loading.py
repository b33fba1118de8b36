"""Finds the app that a command names as `module:app`."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsluice.errors import ConfigurationError
from pgsluice.worker.handler import ConsumerRoute, GroupRoute, HandlerSpec, QueueRoute

if TYPE_CHECKING:
    from pgsluice.worker.app import App


def load_app(name: str) -> App:
    """Import the module and return its app.

    Modules are found as by `python -m`: in the current folder first.

    Args:
        name: `package.module:attribute`; without an attribute it is `app`.

    Raises:
        ConfigurationError: There is no such module, it cannot be imported, or has no such app. What the module itself
            raised is on standard error.
    """
    module_name, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found: Any = _import(module_name)
    for part in (attribute or "app").split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigurationError(
                f"module {module_name} has no {attribute or 'app'}; name the App as module:attribute"
            ) from None
    from pgsluice.worker.app import App

    if not isinstance(found, App):
        raise ConfigurationError(
            f"{name} is a {type(found).__name__}, and no App; name the App as module:attribute"
        )
    return found


def choose(
    app: App, handlers: list[str] | None, queues: list[str] | None
) -> dict[str, HandlerSpec]:
    """Return the handlers of an app that are meant.

    Args:
        app: Has them.
        handlers: Their names; None: all.
        queues: Of the work queues and logs that their messages come from; None: all.

    Raises:
        ConfigurationError: One that is named is not there, or none is left.
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
            f"app {app.name} has no handlers{' of these queues' if app.handlers else ''}; nothing would be done"
        )
    return chosen


def place_of(spec: HandlerSpec) -> str:
    """The name of the work queue or log that the messages come from."""
    return spec.route.queue_name if isinstance(spec.route, QueueRoute) else spec.route.log_name


def describe(spec: HandlerSpec) -> str:
    """Where the messages come from, for people."""
    match spec.route:
        case QueueRoute(queue_name=queue_name, topic=topic):
            return f"queue {queue_name}" + (f", topic {topic}" if topic else "")
        case GroupRoute(log_name=log_name, group_name=group_name, event_types=types):
            return f"log {log_name}, group {group_name}" + _types(types)
        case ConsumerRoute(log_name=log_name, consumer_name=consumer_name, event_types=types):
            return f"log {log_name}, consumer {consumer_name}" + _types(types)


def _types(event_types: tuple[str, ...]) -> str:
    return f", {' '.join(event_types)}" if event_types else ""


def _require(what: str, named: list[str] | None, there: set[str], app: App) -> None:
    missing = sorted(set(named or ()) - there)
    if missing:
        known = ", ".join(sorted(there)) or "none"
        raise ConfigurationError(
            f"app {app.name} has no handler {what} {', '.join(missing)}; there is {known}"
        )


def _import(module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise ConfigurationError(
                f"there is no module {error.name} in {Path.cwd()} or on Python's path; name the App as module:attribute"
            ) from None
        reason = str(error)
        trace = traceback.format_exc()
    except Exception as error:  # noqa: BLE001 - the user's code may raise whatever it likes
        reason = type(error).__name__
        trace = traceback.format_exc()
    sys.stderr.write(trace)
    raise ConfigurationError(f"module {module_name} cannot be imported: {reason}; see above")
