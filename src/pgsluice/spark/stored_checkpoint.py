"""Spark's checkpoint in an object store, for drivers whose disk does not outlive them; no jar is needed.

Spark writes the checkpoint into a temporary folder, whose files are copied to the store:

- the plan of a micro-batch before its rows are committed to the lake: after a crash Spark repeats this micro-batch
  unchanged, and the lake recognises it,
- the end of a micro-batch before the consumer's position moves past its events in the log,
- all other files that a micro-batch wrote before the plan of the next one.

One query at a time owns the checkpoint: the one that restored it last.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

from pgsluice.errors import ConsumerInUseError
from pgsluice.lake.file_errors import plain_errors
from pgsluice.lake.storage import (
    Folder,
    ObjectFolder,
    filesystem,
    folder_at,
    read_bytes,
    remove,
    write_whole,
)

_METADATA, _PLANS, _ENDS = "metadata", "offsets", "commits"
_OWNER = "owner"
# In the temporary folder only: address and owner, for the process that commits to the lake.
_STORED_AT = "stored-at"


class CheckpointCopy:
    """The copy of a checkpoint in an object store; a checkpoint on disk is not copied.

    Args:
        stored: Where the checkpoint is kept.
        local: Where Spark writes it: the same folder, or a temporary one.
    """

    def __init__(self, stored: Folder, local: Path) -> None:
        self._stored = stored
        self.local = local
        self._copied: dict[str, int] = {}
        self._lock = threading.Lock()

    @classmethod
    def restored(cls, stored: Folder, local: Path) -> Self:
        """Take over a checkpoint, and copy it to the temporary folder.

        Raises:
            ConfigurationError, SluiceError: The store refused a request.
        """
        copy = cls(stored, local)
        if not isinstance(stored, ObjectFolder):
            return copy
        from pyarrow.fs import copy_files

        owner = uuid.uuid4().hex
        with plain_errors(f"the checkpoint {stored}"):
            write_whole(stored, _OWNER, owner.encode())
            store = filesystem(stored)
            if not store.get_file_info(_METADATA).is_file:
                # The lake's commits name the query, so its id is stored before the first of them.
                query = json.dumps({"id": str(uuid.uuid4())})
                write_whole(stored, _METADATA, query.encode())
            copy_files("", str(local), source_filesystem=store)
        (local / _STORED_AT).write_text(f"{stored}\n{owner}")
        copy._copied = copy._files("")
        return copy

    def publish(self) -> None:
        """Copy new and changed files to the store, and remove those that no longer exist.

        Raises:
            ConsumerInUseError: Another query has taken over the checkpoint.
            ConfigurationError, SluiceError: The store refused a request.
        """
        if not isinstance(self._stored, ObjectFolder):
            return
        with self._lock:
            # Listed in the reverse order of the copies: all that a listed file implies exists by then.
            ends, plans = self._files(_ENDS), self._files(_PLANS)
            rest = {
                name: time
                for name, time in self._files("").items()
                if not name.startswith((f"{_ENDS}/", f"{_PLANS}/"))
            }
            found = rest | plans | ends  # in this order
            new = [name for name, time in found.items() if self._copied.get(name) != time]
            if new:
                _copy(self.local, new)
            for name in self._copied.keys() - found.keys():
                with suppress(
                    OSError
                ):  # tried once: a file that Spark no longer needs does no harm
                    remove(self._stored, name)
            self._copied = found

    def _files(self, part: str) -> dict[str, int]:
        """Return the files in a part of the checkpoint with their modification times, without temporary files."""
        files = {}
        for path in (self.local / part).rglob("*"):
            name = str(path.relative_to(self.local))
            with suppress(FileNotFoundError):
                state = path.stat()
                if path.is_file() and not path.name.startswith(".") and path.suffix != ".new":
                    files[name] = state.st_mtime_ns
        return {name: time for name, time in files.items() if name not in (_STORED_AT, _OWNER)}


def publish_plan(checkpoint: Path, batch_id: int) -> None:
    """Store the plan of a micro-batch before its rows are committed; do nothing for a checkpoint on disk.

    Raises:
        ConsumerInUseError: Another query has taken over the checkpoint.
        ConfigurationError, SluiceError: The store refused a request.
    """
    if (checkpoint / _STORED_AT).exists():
        _copy(checkpoint, [f"{_PLANS}/{batch_id}"])


def address_of(checkpoint: Path) -> str:
    """Return the folder of a checkpoint, or its URL in the object store."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return (checkpoint / _STORED_AT).read_text().splitlines()[0]
    return str(checkpoint)


def _copy(checkpoint: Path, names: Iterable[str]) -> None:
    url, owner = (checkpoint / _STORED_AT).read_text().splitlines()
    stored = folder_at(url, "checkpoint")
    with plain_errors(f"the checkpoint {url}"):
        if read_bytes(stored, _OWNER).decode() != owner:
            raise ConsumerInUseError(
                f"the checkpoint {url} was taken over by another query; stop that query, or use another checkpoint"
            )
        for name in names:
            write_whole(stored, name, (checkpoint / name).read_bytes())
