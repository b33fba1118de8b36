"""`ShardPool`: connections to the shards of a file, for clients."""

from __future__ import annotations

from pathlib import Path

from pgsluice.pools import Pools
from pgsluice.shards.directory import Shards
from pgsluice.shards.router import Router


class ShardPool(Pools):
    """Connections to several databases, opened on first use: `WorkQueue(ShardPool("shards.toml")).at("acme")`.

    The caller closes it with `close` and, in each event loop that used it, `aclose`; or uses it as a context manager.

    Attributes:
        router: Home of a key by the newest directory that this process knows.
    """

    def __init__(self, shards: Shards | str | Path, *, application_name: str = "pgsluice") -> None:
        """Prepare pools without connecting.

        Args:
            shards: The shards, or the path of their file.
            application_name: `application_name` of the connections.

        Raises:
            ConfigurationError: The file cannot be read or is invalid.
        """
        super().__init__(application_name)
        self.router = Router(shards)

    def dsn(self, name: str) -> str:
        """Return the DSN of a shard."""
        return self.router.shards.dsn(name)
