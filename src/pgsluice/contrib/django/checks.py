"""System checks: the databases of Django, the app of `PGSLUICE_APP`, and the installed schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Warn
from django.db import Error as DatabaseError
from django.db import connections

from pgsluice import schema
from pgsluice.contrib.django.connections import ADAPTER
from pgsluice.errors import ArgumentError, ConfigurationError, SluiceError
from pgsluice.worker.process.loading import load_app


def check_settings(**_options: Any) -> Iterable[CheckMessage]:
    """Yield errors of `DATABASES` and `PGSLUICE_APP`."""
    if not any(connections[alias].vendor == "postgresql" for alias in connections):
        yield Error(
            "No database of DATABASES is a PostgreSQL.",
            hint="Use the engine django.db.backends.postgresql for the database with the queues.",
            id="pgsluice.E001",
        )
    name = getattr(settings, "PGSLUICE_APP", None)
    if name is not None:
        try:
            load_app(name)
        except ConfigurationError as error:
            yield Error(f"PGSLUICE_APP: {error}", id="pgsluice.E002")


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
            yield Warn(
                f"The schemas of pgsluice cannot be used in database {alias!r}: {error}",
                hint="`manage.py migrate` installs and upgrades them.",
                id="pgsluice.W001",
            )
