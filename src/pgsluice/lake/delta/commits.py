"""Durable, idempotent commits to a Delta table, with conflict detection for rewrites.

delta-rs detects no conflict with a concurrent compaction that removed the same files, as a compaction changes no rows:
it accepts both commits, which duplicates the rows. It does detect concurrent transactions of one app. So each of our
commits that removes files carries a transaction of the app `pgsluice:rewrite`, and the second one conflicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from pgsluice.lake.delta.files import TableFile, paths_of
from pgsluice.lake.delta.opening import folder_of
from pgsluice.lake.files import LakeFile
from pgsluice.lake.reservation import claim
from pgsluice.lake.storage import Folder, retry_unanswered, sync

COMMITS_MAX = 5  # a concurrent compaction causes a conflict
_APP_ID = "pgsluice:rewrite"


def is_committed(table: DeltaTable, app_id: str | None, version: int | None) -> bool:
    """True if this version of an app, or a later one, is in the table; False without an app."""
    if app_id is None or version is None:
        return False
    last = table.transaction_version(app_id)
    # Not `last or -1`: the id of the first micro-batch is 0.
    return last is not None and last >= version


def rewriting(table: DeltaTable) -> Transaction:
    """Return the transaction that each commit with a `RemoveAction` must carry.

    Args:
        table: The table at the version to commit on.
    """
    last = table.transaction_version(_APP_ID)
    return Transaction(_APP_ID, 0 if last is None else last + 1)


def commit_once(
    table: DeltaTable,
    commit: Callable[[DeltaTable], None],
    *,
    reopen: Callable[[], DeltaTable],
    app_id: str | None,
    version: int | None,
) -> DeltaTable | None:
    """Commit a version of an app idempotently; retry conflicts on the newest version of the table.

    A commit to an object store whose outcome is unknown is retried in the same way.

    Args:
        table: The table for the first attempt.
        commit: Commits on the given table; raises CommitFailedError on a conflict. Without an app it must be
            idempotent.
        reopen: Opens the newest version of the table.
        app_id: Id of the committing app; None to commit unconditionally.
        version: Increases with each commit of this app; the first may be 0.

    Returns:
        The table after the commit; None if this or a later version is already committed.

    Raises:
        CommitFailedError: `COMMITS_MAX` attempts conflicted with other commits.
    """
    conflicts = 0
    newest: DeltaTable | None = table

    def attempt() -> DeltaTable | None:
        nonlocal conflicts, newest
        table, newest = newest or reopen(), None
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

    return retry_unanswered(folder_of(table), attempt)


def commit_files(
    table: DeltaTable,
    added: Sequence[LakeFile],
    removed: Iterable[TableFile] = (),
    *,
    properties: CommitProperties | None,
    rows_change: bool = True,
) -> None:
    """Add and remove files in one commit and fsync it.

    Args:
        table: The table to commit on; it is at the new version afterwards.
        added: Files from `write_files`; may be empty.
        removed: Files of the table; if any, `properties` must include `rewriting`.
        properties: App transactions of the commit.
        rows_change: False if the new files hold the rows of the old ones.

    Raises:
        CommitFailedError: A concurrent commit conflicts.
        SluiceError: One of the new files no longer exists.
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
def commit_durably(table: DeltaTable, folder: Folder) -> Iterator[None]:
    """Fsync the files and commits that delta-rs writes within this block; delta-rs itself does not.

    Args:
        table: The table to commit on.
        folder: Folder of the table.
    """
    before, known = table.version(), paths_of(table)
    yield
    table.update_incremental()
    sync(folder, paths_of(table) - known)
    sync_delta_log(folder, before + 1, table.version())


def sync_delta_log(folder: Folder, first: int, last: int) -> None:
    """Fsync the commits `first` to `last` of a Delta table."""
    # A commit that was removed is part of a checkpoint.
    sync(folder / "_delta_log", [f"{version:020d}.json" for version in range(first, last + 1)])
