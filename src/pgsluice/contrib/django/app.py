"""An app whose handlers use Django's connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import Call
from pgsluice.client.sources import Connectable
from pgsluice.contrib.django.connections import ADAPTER, LoopConnections, ThreadConnections
from pgsluice.errors import ConfigurationError
from pgsluice.frameworks import adapter_of
from pgsluice.worker.app.app import App
from pgsluice.worker.handlers.sending_pools import SendingPools

# Installed: the module above reports a missing package.
from asgiref.sync import sync_to_async  # isort: skip
from django.db import connections  # isort: skip
from django.utils.connection import ConnectionProxy  # isort: skip


# The option `--database` of `manage.py pgsluice_worker`, also for its handler processes.
WORKER_DATABASE = "PGSLUICE_WORKER_DATABASE"
Result = TypeVar("Result")


class DjangoApp(App):
    """An app with the server of a Django database.

    Handlers' `send` and `send_many` use Django's connection, in the transaction of `atomic()`, unless another is given;
    `send_async` and `send_many_async` too, by `sync_to_async`.

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
        connection = ConnectionProxy(connections, using)
        super().__init__(name=name, tracing=tracing, transactions=connection)
        self._pools = _Senders(connection, lambda: self.dsn, is_traced=lambda: self.tracing)
        self.middleware(LoopConnections())
        self.middleware(ThreadConnections())

    @property
    def dsn(self) -> str | None:
        """Server of workers: that of the Django database, in a test the test database."""
        return dsn_of(self.using) if self._dsn is None else self._dsn

    @dsn.setter
    def dsn(self, dsn: str | None) -> None:
        self._dsn = dsn


class _Senders(SendingPools):
    """Sends on Django's connection, unless another is given; the listener for results has one of its own."""

    def __init__(
        self, connection: Any, dsn: Callable[[], str | None], *, is_traced: Callable[[], bool]
    ) -> None:
        super().__init__(dsn, "", is_traced=is_traced)
        self._connection = connection

    def runner(self, connection: Connectable | None) -> Runner:
        return super().runner(self._connection if connection is None else connection)

    async def async_runner(self, connection: Any) -> AsyncRunner:
        if connection is None or adapter_of(connection) is ADAPTER:
            return _InThread(self.runner(connection))
        return await super().async_runner(connection)


class _InThread(AsyncRunner):
    """Runs calls on Django's connection, in the thread of `sync_to_async`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def run(self, call: Call[Result]) -> Result:
        result: Result = await sync_to_async(self._runner.run)(call)
        return result


def dsn_of(using: str = "default") -> str:
    """Return the connection string of a Django database.

    Args:
        using: Alias of the database, in `DATABASES`.

    Raises:
        ConfigurationError: It is not a PostgreSQL.
    """
    if connections[using].vendor != "postgresql":
        raise ConfigurationError(
            f"database {using!r} of DATABASES is not a PostgreSQL; use the engine django.db.backends.postgresql"
        )
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    parameters: dict[str, Any] = connections[using].get_connection_params()
    return make_conninfo(**{name: value for name, value in parameters.items() if name in known})
