# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncSchedules`: its methods run the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.client import calls
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.sources import AsyncConnectable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any, Unpack

    from pgsluice.client.explain_records import ExplainedFact
    from pgsluice.client.schedule_records import FiredSlot, Schedule, ScheduleOptions


class AsyncSchedules:
    """Store schedules in the database and fire those that are due.

    A slot is a time at which a schedule fires. Each slot fires once, with any number of schedulers: the message, the
    record of the slot and the position of the schedule are committed in one transaction. `fire_schedules` must be
    called regularly: by `pgsluice maintain`, by a `Scheduler`, or by pg_cron with the output of `pgsluice maintain
    --print-cron`.

    All methods can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError. All except
    `list_schedules` and `next_schedule_at` need the role `sluice_admin`.
    """

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: With a pool, each call is a transaction of its own. With a connection, each call runs in the
                caller's transaction, and commits only in autocommit mode. The caller opens and closes it.
        """
        self._runner = AsyncRunner(source)

    async def explain_schedule(self, name: str) -> list[ExplainedFact]:
        """Explain a schedule: its next and last slot, and why it did not fire.

        Returns:
            The facts, in order. `state` in the detail of the first is `waiting`, `late`, `failing`, `paused` or
            `ended`.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.

        Source: `sluice.explain_schedule`.
        """
        return await self._runner.run(calls.explain.explain_schedule(name))

    async def schedule(
        self,
        name: str,
        queue_name: str,
        message: Any,
        *,
        headers: dict[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> bool:
        """Schedule a message to a work queue; replaces an existing schedule of this name.

        A replaced schedule stays paused if it was, and keeps its position; if its times change, it continues with the
        first slot after now. The message gets the header `x-pgmq-schedule`: an object with `name` and `slot`, which
        together are an idempotency key.

        Args:
            name: Name of the schedule, 1 to 200 bytes.
            queue_name: An existing queue.
            message: A JSON value, as for `WorkQueue.send`.
            headers: The headers of the message, or None.
            **options: See `ScheduleOptions`.

        Returns:
            False when an identical schedule exists; nothing was changed.

        Raises:
            QueueNotFoundError: The queue does not exist.
            ArgumentError: An option is unknown or its value invalid; for a cron expression, the error names the field.
            PayloadError: The message or the headers are not JSON.

        Source: `sluice.schedule`.
        """
        return await self._runner.run(
            calls.schedules.schedule(name, queue_name, message, headers=headers, **options)
        )

    async def schedule_event(
        self,
        name: str,
        log_name: str,
        ev_type: str | None,
        ev_data: str | None,
        *,
        ev_extra1: str | None = None,
        ev_extra2: str | None = None,
        ev_extra3: str | None = None,
        ev_extra4: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> bool:
        """Schedule an event to an event log; replaces an existing schedule of this name, as `schedule` does.

        Args:
            name: Name of the schedule, 1 to 200 bytes.
            log_name: An existing log.
            ev_type: Type of the event.
            ev_data: Text of the event, JSON by convention.
            ev_extra1: Additional text.
            ev_extra2: As `ev_extra1`.
            ev_extra3: As `ev_extra1`.
            ev_extra4: As `ev_extra1`.
            **options: See `ScheduleOptions`.

        Returns:
            False when an identical schedule exists; nothing was changed.

        Raises:
            LogNotFoundError: The log does not exist.
            ArgumentError: An option is unknown or its value invalid; for a cron expression, the error names the field.
            PayloadError: A field is not text that PostgreSQL can store.

        Source: `sluice.schedule`.
        """
        return await self._runner.run(
            calls.schedules.schedule_event(
                name,
                log_name,
                ev_type,
                ev_data,
                ev_extra1=ev_extra1,
                ev_extra2=ev_extra2,
                ev_extra3=ev_extra3,
                ev_extra4=ev_extra4,
                **options,
            )
        )

    async def unschedule(self, name: str) -> bool:
        """Drop a schedule. It stops firing at the commit; messages and events already sent stay.

        Returns:
            False when the schedule does not exist.

        Source: `sluice.unschedule`.
        """
        return await self._runner.run(calls.schedules.unschedule(name))

    async def pause_schedule(self, name: str) -> bool:
        """Pause a schedule from the commit on. Slots during the pause are not caught up.

        Returns:
            False when the schedule is already paused.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.

        Source: `sluice.pause_schedule`.
        """
        return await self._runner.run(calls.schedules.pause_schedule(name))

    async def resume_schedule(self, name: str) -> bool:
        """Resume a paused schedule with the first slot after now.

        Returns:
            False when the schedule is not paused.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.

        Source: `sluice.pause_schedule`.
        """
        return await self._runner.run(calls.schedules.resume_schedule(name))

    async def retire_schedules(self, declared_by: str, names: Sequence[str]) -> list[str]:
        """Pause the schedules that an app declared earlier and does not declare any more.

        Schedules of other apps, those made by hand and those that are paused stay as they are. The app resumes one by
        declaring it again. One that is resumed with `resume_schedule` is by hand from then on.

        Args:
            declared_by: The app.
            names: All schedules that it declares now.

        Returns:
            Names of the schedules paused by this call, in order.

        Source: `sluice.retire_schedules`.
        """
        return await self._runner.run(calls.schedules.retire_schedules(declared_by, names))

    async def run_schedule(self, name: str) -> int:
        """Send a schedule's message or event now, paused or not; its slots fire independently.

        The header `x-pgmq-schedule` has null as its `slot`.

        Returns:
            The msg_id of the message, or the ev_id of the event.

        Raises:
            ScheduleNotFoundError: The schedule does not exist.
            QueueNotFoundError: The schedule's queue was dropped.
            LogNotFoundError: The schedule's log was dropped.

        Source: `sluice.run_schedule`.
        """
        return await self._runner.run(calls.schedules.run_schedule(name))

    async def list_schedules(self) -> list[Schedule]:
        """Return every schedule, by name; message, event and error only for a role that may read messages.

        Source: `sluice.list_schedules`.
        """
        return await self._runner.run(calls.schedules.list_schedules())

    async def fire_schedules(self, *, schedules_max: int = 100) -> list[FiredSlot]:
        """Fire the schedules that are due, longest overdue first.

        Safe to call concurrently: callers neither wait for each other nor fire the same slot. Call it until it returns
        nothing, each time in a transaction of its own: its schedules stay locked until the transaction ends.

        Args:
            schedules_max: The most schedules to fire, 1 or more; at most ten slots of each.

        Returns:
            The slots fired, and those that failed, with the error, such as a dropped queue or a failing trigger. A
            failed slot is retried after 10 seconds, or after 1 second if the table was locked.

        Raises:
            ArgumentError: `schedules_max` is out of range.

        Source: `sluice.fire_schedules`.
        """
        return await self._runner.run(calls.schedules.fire_schedules(schedules_max=schedules_max))

    async def next_schedule_at(self) -> datetime | None:
        """Return the earliest due time of all schedules, possibly in the past; None without one.

        Source: the table `sluice.schedule`.
        """
        return await self._runner.run(calls.schedules.next_schedule_at())
