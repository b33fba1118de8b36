"""Commits to a Delta table: recognised when they are repeated, exclusive where they must be, and forced to disk.

delta-rs does not see that a compaction took out the same files meanwhile, as a compaction changes no rows: both
commits are accepted, and the rows are there twice. What it does see is two commits of one app. So each commit of
ours that names files to take out is one of the app `pgsluice:rewrite` too, and the second is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable
from deltalake.transaction import Transaction

from pgsluice.lake.delta.files import paths_of
from pgsluice.lake.disk import sync_file, sync_folder

_APP_ID = "pgsluice:rewrite"


def is_committed(table: DeltaTable, app_id: str, version: int) -> bool:
    """Whether this version of an app, or a later one, is in the table."""
    last = table.transaction_version(app_id)
    # Not `last or -1`: the first micro-batch has the number 0.
    return last is not None and last >= version


def rewriting(table: DeltaTable) -> Transaction:
    """What a commit with a `RemoveAction` carries, besides its own.

    Args:
        table: The state that it commits on.
    """
    last = table.transaction_version(_APP_ID)
    return Transaction(_APP_ID, 0 if last is None else last + 1)


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
