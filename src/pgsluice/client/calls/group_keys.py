"""Ordering keys of share groups: functions of schema `sluice` as calls."""

from __future__ import annotations

from pgsluice.client.calls.call import Call, record, scalar
from pgsluice.client.calls.clients import ShareGroup, method
from pgsluice.client.group_records import BlockedKey


@method(ShareGroup)
def list_blocked_keys(log_name: str, group_name: str) -> Call[list[BlockedKey]]:
    """Return the blocked keys as of the last claim, longest blocked first.

    Source: `sluice.list_blocked_keys`.
    """
    return Call(
        "select * from sluice.list_blocked_keys(%s::text, %s::text)",
        (log_name, group_name),
        record(BlockedKey),
    )


@method(ShareGroup)
def unpark_key(log_name: str, group_name: str, key: str) -> Call[int]:
    """Unpark a key: redeliver all its parked events in the order of the log, with attempts reset to 0.

    Args:
        key: As in `list_blocked_keys`.

    Returns:
        The number of parked events, 0 or more.

    Raises:
        GroupBusyError: Another open transaction has claimed from the group; retry after it has ended.
        GroupStateError: The transaction is not READ COMMITTED.

    Source: `sluice.unpark_key`.
    """
    return Call(
        "select sluice.unpark_key(%s::text, %s::text, %s::text)",
        (log_name, group_name, key),
        scalar,
    )
