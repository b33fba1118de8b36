"""Force to disk what must outlive a power failure: Spark forgets a micro-batch once we say that it is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.spark.lake.reading import paths_of

if TYPE_CHECKING:
    from deltalake import DeltaTable


def sync_folder(folder: Path) -> None:
    """Force a folder's list of names to disk."""
    _sync(folder)


def sync_file(path: Path) -> None:
    """Force a file to disk; nothing where it has gone meanwhile."""
    try:
        _sync(path)
    except FileNotFoundError:
        return


@contextmanager
def commit_durably(table: DeltaTable, folder: Path) -> Iterator[None]:
    """Force to disk what delta-rs writes and commits within: it leaves that to the system.

    Args:
        table: The table on which the commit is made.
        folder: Its folder.
    """
    before, known = table.version(), paths_of(table)
    yield
    table.update_incremental()
    new = [Path(path) for path in paths_of(table) - known]
    for path in new:
        sync_file(folder / path)
    for parent in {parent for path in new for parent in path.parents}:
        sync_folder(folder / parent)
    sync_delta_log(folder, before + 1, table.version())


def sync_delta_log(folder: Path, first: int, last: int) -> None:
    """Force the commits `first` to `last` of a Delta table to disk."""
    log = folder / "_delta_log"
    for version in range(first, last + 1):
        sync_file(log / f"{version:020d}.json")  # one that has gone is in a checkpoint
    sync_folder(log)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
