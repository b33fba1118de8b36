"""Commits to a Delta table: recognised when they are repeated, exclusive where they must be, and forced to disk.

delta-rs does not see that a compaction took out the same files meanwhile, as a compaction changes no rows: both
commits are accepted, and the rows are there twice. What it does see is two commits of one app. So each commit of
ours that names files to take out is one of the app `pgsluice:rewrite` too, and the second is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from pgsluice.lake.delta.files import TableFile, paths_of
from pgsluice.lake.delta.opening import folder_of
from pgsluice.lake.disk import sync_file, sync_folder
from pgsluice.lake.files import LakeFile
from pgsluice.lake.reservation import claim

COMMITS_MAX = 5  # a compaction may come between
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


def commit_once(
    table: DeltaTable,
    commit: Callable[[DeltaTable], None],
    *,
    reopen: Callable[[], DeltaTable],
    app_id: str,
    version: int,
) -> DeltaTable | None:
    """Commit a version of an app once; after a conflict, commit again on top of the other commit.

    Args:
        table: The table to commit on first.
        commit: Makes the commit on the table that it is given, and raises CommitFailedError on a conflict.
        reopen: Opens the newest version of the table.
        app_id: The app that commits.
        version: Rises with each commit of this app; its first may be 0.

    Returns:
        The table after the commit; None if this or a later version was committed already.

    Raises:
        CommitFailedError: `COMMITS_MAX` commits conflicted with others.
    """
    conflicts = 0
    while not is_committed(table, app_id, version):
        try:
            commit(table)
        except CommitFailedError:
            conflicts += 1
            if conflicts == COMMITS_MAX:
                raise
            table = reopen()
        else:
            return table
    return None


def commit_files(
    table: DeltaTable,
    added: Sequence[LakeFile],
    removed: Iterable[TableFile] = (),
    *,
    properties: CommitProperties | None,
    rows_change: bool = True,
) -> None:
    """Make one commit that adds files which are on disk and removes others, and force it to disk.

    Args:
        table: The table to commit on; it is at the new version afterwards.
        added: Files from `write_files`; may be none.
        removed: Files of the table; a commit that removes some carries `rewriting`.
        properties: The commit's apps.
        rows_change: False if the new files hold the rows of the old ones.

    Raises:
        CommitFailedError: Another commit came first.
        SluiceError: One of the new files is gone.
    """
    folder = folder_of(table)
    claim(folder, added)
    now_ms = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        RemoveAction(file.path, rows_change, now_ms, file.size_bytes, dict(file.partition))
        for file in removed
    ]
    actions += [
        AddAction(file.path, file.size_bytes, dict(file.partition), now_ms, rows_change, file.stats)
        for file in added
    ]
    before = table.version()
    table.create_write_transaction(
        actions,
        "append",
        table.schema(),
        partition_by=list(table.metadata().partition_columns) or None,
        commit_properties=properties,
    )
    table.update_incremental()
    sync_delta_log(folder, before + 1, table.version())


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
