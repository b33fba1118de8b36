"""Let delays and schedules become due in a test, without waiting."""

from __future__ import annotations

from datetime import timedelta

from pgsluice.client import FiredSlot
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import time_travel
from pgsluice.client.sources import AsyncConnectable, Connectable


def advance_time(connection: Connectable, by: timedelta) -> list[FiredSlot]:
    """Make delayed messages and events, retries and schedules due, as if the server's clock had advanced.

    The stored times are moved into the past, in the transaction of the connection, so the test can roll them back.
    Messages become visible, also those that are being read: their leases expire. Delayed events are appended to their
    logs, and schedules fire their slots up to then. All queues, logs and schedules of the database are
    moved.

    Leases and retries of share groups, rates, retention and deduplication keys are not moved. After the first call, the
    slots of a cron expression follow at its intervals, but no longer at its times of day.

    Args:
        connection: As for `Handler.send`. Its role owns the schemas, or is a superuser.
        by: More than 0, such as `timedelta(hours=1)`.

    Returns:
        The slots of schedules that became due, as from `Schedules.fire_schedules`.

    Raises:
        ArgumentError: `by` is not positive.
        PrivilegeError: The role has not the rights.
    """
    return Runner(connection, is_traced=False).run_steps(time_travel.advance(by))


async def advance_time_async(connection: AsyncConnectable, by: timedelta) -> list[FiredSlot]:
    """Like `advance_time`, in an event loop."""
    return await AsyncRunner(connection, is_traced=False).run_steps(time_travel.advance(by))
