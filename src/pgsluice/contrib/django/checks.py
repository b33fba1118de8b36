"""System checks: the databases of Django, the app of `PGSLUICE_APP`, and the installed schemas."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info
from django.core.checks import Warning as Warn
from django.db import Error as DatabaseError
from django.db import connections

from pgsluice import schema
from pgsluice.connection import resolve, with_defaults
from pgsluice.contrib.django.app import DjangoApp, dsn_of
from pgsluice.contrib.django.connections import ADAPTER
from pgsluice.errors import ArgumentError, ConfigurationError, SluiceError
from pgsluice.worker.process.loading import load_app

# In the text of an error: the command that installs, where `manage.py migrate` does.
_CURE = re.compile(r"; [^;]*`pgsluice schema (?:install|upgrade)`$")
_LOCAL = {"", "localhost", "127.0.0.1", "::1"}


def check_settings(**_options: Any) -> Iterable[CheckMessage]:
    """Yield errors of `DATABASES` and `PGSLUICE_APP`, and a warning of `PGSLUICE_DSN`."""
    if not any(connections[alias].vendor == "postgresql" for alias in connections):
        yield Error(
            "No database of DATABASES is a PostgreSQL.",
            hint="Use the engine django.db.backends.postgresql for the database with the queues.",
            id="pgsluice.E001",
        )
    name = getattr(settings, "PGSLUICE_APP", None)
    using = "default"
    if name is not None:
        try:
            app = load_app(name)
        except ConfigurationError as error:
            yield Error(f"PGSLUICE_APP: {error}", id="pgsluice.E002")
        else:
            using = app.using if isinstance(app, DjangoApp) else using
    yield from _check_tasks(using)
    if os.environ.get("PGSLUICE_DSN") and connections[using].vendor == "postgresql":
        yield from _check_environment(using)


def _check_tasks(using: str) -> Iterable[CheckMessage]:
    """Yield a note for each backend whose tasks the worker does not run unless it is told to."""
    if not getattr(settings, "TASKS", None):
        return
    from pgsluice.contrib.django.tasks import backends  # not without Django 6 or django-tasks

    for backend in backends():
        if backend.app.using != using:
            yield Info(
                f"The tasks of TASKS[{backend.alias!r}] are in database {backend.app.using!r}.",
                hint=f"Run them with `manage.py pgsluice_worker --database {backend.app.using}`.",
                id="pgsluice.I001",
            )


def _check_environment(using: str) -> Iterable[CheckMessage]:
    """Yield a warning if `PGSLUICE_DSN` names another database than that of the app."""
    try:
        given = _place(resolve().conninfo)
    except ConfigurationError as error:
        yield Warn(str(error), id="pgsluice.W002")
        return
    own = _place(dsn_of(using))
    if own not in (given, (*given[:2], f"test_{given[2]}")):  # or the database of `manage.py test`
        yield Warn(
            f"PGSLUICE_DSN names {_text(given)}, but database {using!r} of DATABASES is {_text(own)}. Handlers and "
            "`manage.py` use the second, commands `pgsluice …` and the dashboard the first.",
            hint="Let PGSLUICE_DSN be the value of pgsluice.contrib.django.dsn(), or unset it.",
            id="pgsluice.W002",
        )


def _place(conninfo: str) -> tuple[str, str, str]:
    """Return host, port and database of a connection string, with the defaults of libpq."""
    values = with_defaults(conninfo)
    host = values.get("host", "")
    return "localhost" if host in _LOCAL else host, values.get("port", ""), values.get("dbname", "")


def _text(place: tuple[str, str, str]) -> str:
    host, port, name = place
    return f"{name!r} at {host}:{port}"


def check_databases(
    databases: Sequence[str] | None = None, **_options: Any
) -> Iterable[CheckMessage]:
    """Yield errors of the drivers, and warnings of the schemas; only for `check --database`."""
    for alias in databases or ():
        if connections[alias].vendor != "postgresql":
            continue
        try:
            connection = ADAPTER.connection(connections[alias])
            schema.require(connection)
        except ArgumentError as error:
            yield Error(str(error), id="pgsluice.E003")
        except (SluiceError, DatabaseError) as error:
            cause, cures = _CURE.subn("", str(error))
            yield Warn(
                f"The schemas of pgsluice cannot be used in database {alias!r}: {cause}",
                hint="`manage.py migrate` installs and upgrades them." if cures else None,
                id="pgsluice.W001",
            )
