"""An app whose handlers use Django's connections."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

from pgsluice.contrib.django.connections import LoopConnections, ThreadConnections
from pgsluice.worker.app.app import App

# Installed: the module above reports a missing package.
from django.db import connections  # isort: skip
from django.utils.connection import ConnectionProxy  # isort: skip


class DjangoApp(App):
    """An app with the server of a Django database.

    `context.transaction()` and mode `transaction` open `atomic()` on Django's connection, in which the message is
    acknowledged. Old and broken connections of Django are closed around each handler.

    Attributes:
        using: Alias of the database, in `DATABASES`.
    """

    def __init__(self, *, name: str, using: str = "default", tracing: bool = True) -> None:
        """Prepare an app without handlers.

        Args:
            name: As for `App`.
            using: Alias of the database, in `DATABASES`.
            tracing: As for `App`.
        """
        self.using = using
        self._dsn: str | None = None
        super().__init__(
            name=name, tracing=tracing, transactions=ConnectionProxy(connections, using)
        )
        self.middleware(LoopConnections())
        self.middleware(ThreadConnections())

    @property
    def dsn(self) -> str | None:
        """Server of senders and workers: that of the Django database, in a test the test database."""
        return dsn_of(self.using) if self._dsn is None else self._dsn

    @dsn.setter
    def dsn(self, dsn: str | None) -> None:
        self._dsn = dsn


def dsn_of(using: str = "default") -> str:
    """Return the connection string of a Django database.

    Args:
        using: Alias of the database, in `DATABASES`.
    """
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    parameters: dict[str, Any] = connections[using].get_connection_params()
    return make_conninfo(**{name: value for name, value in parameters.items() if name in known})
