"""The app that `manage.py pgsluice_worker` runs: that of the setting `PGSLUICE_APP`, with the tasks of `TASKS`."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from pgsluice.contrib.django.app import DjangoApp
from pgsluice.errors import ConfigurationError
from pgsluice.worker.app.app import App
from pgsluice.worker.handlers.declare import check_neighbours
from pgsluice.worker.handlers.handler import HandlerSpec
from pgsluice.worker.process.loading import load_app


def make_app() -> App:
    """Return the app.

    Raises:
        ConfigurationError: There is neither, or the app cannot be loaded.
        ArgumentError: Both have a handler of a queue.
    """
    name = getattr(settings, "PGSLUICE_APP", None)
    app = DjangoApp(name="django tasks") if name is None else load_app(name)
    for spec in _task_handlers():
        if not isinstance(app, DjangoApp):
            raise ConfigurationError(
                f"the app {name} cannot run the tasks of TASKS; make it a pgsluice.contrib.django.app.DjangoApp"
            )
        check_neighbours(spec, app.handlers.values())
        app.handlers[spec.name] = spec
    if not app.handlers:
        raise ConfigurationError(
            "nothing to run; name the app as MODULE:APP, or set PGSLUICE_APP or TASKS in the settings"
        )
    return app


def _task_handlers() -> Iterator[HandlerSpec]:
    if getattr(settings, "TASKS", None):
        from pgsluice.contrib.django.tasks import backends

        for backend in backends():
            yield from backend.app.handlers.values()


app = make_app()
