"""The newest directory that a process knows, and so the home of a key now. No I/O but reading the file of shards."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from pgsluice.errors import ConfigurationError, ShardError
from pgsluice.shards.directory import Shards, ShardState

_log = logging.getLogger(__name__)


class Router:
    """Home of a key by the newest directory that a database has told this process. Thread-safe.

    Attributes:
        shards: The addresses. The file is read again when a directory names a shard that it lacked.
        state: The newest directory; None: no database was asked yet.
    """

    def __init__(self, shards: Shards | str | Path) -> None:
        """Start with the directory of the file.

        Raises:
            ConfigurationError: The file of shards is invalid.
        """
        self.shards = Shards.given(shards)
        self.state: ShardState | None = None
        self._lock = threading.Lock()

    def home(self, key: str) -> str:
        """Return the shard of a key; by the file, until a directory is known."""
        state = self.state
        return (self.shards.directory if state is None else state.directory).home(key)

    def adopt(self, name: str, state: ShardState | None) -> None:
        """Use the directory that a database has if it is newer.

        Args:
            name: The shard whose database was asked.
            state: Its directory; None: it has none.

        Raises:
            ShardError: The database has no directory, or is another shard.
        """
        if state is None:
            raise ShardError(
                f"the database of shard {name!r} has no directory of shards",
                f"store it with: pgsluice shards apply --shards {self.shards.place}",
            )
        if state.shard_name != name:
            raise ShardError(
                f"the database of shard {name!r} in {self.shards.place} is the shard {state.shard_name!r}",
                "correct its address in the file",
            )
        with self._lock:
            before = self.state
            if before is not None and _order(state) <= _order(before):
                return
            self.state = state
            if not set(state.directory.names) <= set(self.shards.names):
                self._reload()
        if before is None and state.directory != self.shards.directory:
            _log.warning(
                'directory of shards differs from the file path=%s generation=%d hint="the databases decide; '
                'change them with pgsluice shards apply"',
                *(self.shards.place, state.generation),
            )
        elif before is not None:
            _log.info(
                "directory of shards adopted generation=%d moving=%s shards=%s",
                *(state.generation, state.is_moving, ",".join(state.directory.names)),
            )

    def _reload(self) -> None:
        """Read the file again; if it is invalid or still lacks a shard, only the keys of that shard fail."""
        if self.shards.path is not None:
            try:
                self.shards = Shards.load(self.shards.path)
            except ConfigurationError as error:
                _log.warning('file of shards not read again error="%s"', error)


def _order(state: ShardState) -> tuple[int, bool]:
    return (state.generation, not state.is_moving)
