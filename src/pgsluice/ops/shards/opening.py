"""Connections to all shards, and what each says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import shards as calls
from pgsluice.connection import Target, connect, resolve
from pgsluice.errors import NotInstalledError, SluiceError
from pgsluice.sessions import SluiceConnection
from pgsluice.shards import Shards, ShardState


@dataclass
class Shard:
    """A shard and its connection.

    Attributes:
        name: Its name in the file.
        target: Where it is; None: the file does not lead to an address.
        connection: In autocommit mode; None: it is down.
        error: Reason for which it is down or not usable; None: it is up.
        state: Directory that it has; None: none, or it is down.
    """

    name: str
    target: Target | None = field(default=None, repr=False)
    connection: SluiceConnection | None = None
    error: SluiceError | None = None
    state: ShardState | None = None

    @property
    def runner(self) -> Runner:
        """Runs calls on the connection.

        Raises:
            SluiceError: The shard is down.
        """
        return Runner(self._connected())

    def transaction(self) -> AbstractContextManager[Any]:
        """Return a transaction for several calls."""
        return self._connected().transaction()

    def _connected(self) -> SluiceConnection:
        if self.connection is None:
            raise self.error or SluiceError(f"shard {self.name!r} is not connected")
        return self.connection

    def open(self, shards: Shards, application_name: str) -> None:
        """Connect and read the directory of the database; store the error if this fails."""
        try:
            self.target = resolve(shards.dsn(self.name))
            self.connection = connect(
                self.target, autocommit=True, application_name=application_name
            )
            self.state = self.runner.run(calls.shard())
        except SluiceError as error:
            self.error = error
            if isinstance(error, NotInstalledError):
                problem = f"shard {self.name!r} has no schema, or an older one"
                self.error = NotInstalledError(
                    problem, f"install it with: pgsluice schema install --shard {self.name}"
                )


@contextmanager
def opened(
    shards: Shards, names: Iterable[str] | None = None, *, application_name: str = "pgsluice shards"
) -> Iterator[dict[str, Shard]]:
    """Connect to the shards at the same time, so that those that are down take one timeout together."""
    found = {name: Shard(name) for name in (shards.names if names is None else names)}
    with ThreadPoolExecutor(max_workers=min(len(found), 16)) as threads:
        list(threads.map(lambda one: one.open(shards, application_name), found.values()))
    try:
        yield found
    finally:
        for one in found.values():
            if one.connection is not None:
                one.connection.close()
