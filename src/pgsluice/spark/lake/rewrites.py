"""Commits that take files out of a Delta table by name, and must not miss one another.

delta-rs does not see that a compaction took out the same files meanwhile, as a compaction changes no rows: both
commits are accepted, and the rows are there twice. What it does see is two commits of one app. So each commit of
ours that names files to take out is one of the app `pgsluice:rewrite` too, and the second is refused.
"""

from __future__ import annotations

from deltalake import DeltaTable
from deltalake.transaction import Transaction

_APP_ID = "pgsluice:rewrite"


def rewriting(table: DeltaTable) -> Transaction:
    """What a commit with a `RemoveAction` carries, besides its own.

    Args:
        table: The state that it commits on.
    """
    last = table.transaction_version(_APP_ID)
    return Transaction(_APP_ID, 0 if last is None else last + 1)
