"""The app that `manage.py pgsluice_worker` runs: that of the setting `PGSLUICE_APP`, with the tasks of `TASKS`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connections

from pgsluice.contrib.django.app import WORKER_DATABASE, DjangoApp
from pgsluice.errors import ConfigurationError
from pgsluice.settings import variable
from pgsluice.worker.app.app import App
from pgsluice.worker.handlers.declare import check_neighbours
from pgsluice.worker.process.loading import load_app

if TYPE_CHECKING:
    from pgsluice.contrib.django.tasks import PgsluiceBackend


def make_app(using: str | None = None) -> App:
    """Return the app of a database, with the tasks that are enqueued there.

    Args:
        using: Alias of the database, in `DATABASES`; None: that of the setting's app, else `default`.

    Raises:
        ConfigurationError: There is nothing to run, the app cannot be loaded, or the database does not exist.
        ArgumentError: The app and a task have a handler of the same queue.
    """
    name = getattr(settings, "PGSLUICE_APP", None)
    if using is not None and using not in list(connections):
        raise ConfigurationError(f"--database {using}: DATABASES has no such alias")
    app = None if name is None else load_app(name)
    own = app.using if isinstance(app, DjangoApp) else None
    if app is None or using not in (None, own):
        own = using or "default"
        app = DjangoApp(name="django tasks", using=own)
    backends = _task_backends()
    for backend in backends:
        if own is None:
            raise ConfigurationError(
                f"the app {name} cannot run the tasks of TASKS; make it a pgsluice.contrib.django.app.DjangoApp"
            )
        if backend.app.using == own:
            for spec in backend.app.handlers.values():
                check_neighbours(spec, app.handlers.values())
                app.handlers[spec.name] = spec
    if not app.handlers:
        others = ", ".join(sorted({backend.app.using for backend in backends}))
        raise ConfigurationError(
            f"nothing to run in database {own!r}; the tasks of TASKS are in {others}: choose with --database"
            if others
            else "nothing to run; name the app as MODULE:APP, or set PGSLUICE_APP or TASKS in the settings"
        )
    return app


def _task_backends() -> list[PgsluiceBackend]:
    if not getattr(settings, "TASKS", None):
        return []
    from pgsluice.contrib.django.tasks import backends

    return list(backends())


app = make_app(variable(os.environ, WORKER_DATABASE))
