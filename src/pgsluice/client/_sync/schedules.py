# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`Schedules`: its methods run the calls."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack

from psycopg import Connection
from psycopg_pool import ConnectionPool

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import schedules
from pgsluice.client.schedule_records import FiredSlot, Schedule, ScheduleOptions


class Schedules:
    """Keep schedules in the database, and fire what is due.

    Each moment at which a schedule is to fire is a slot. A slot is fired once, however many processes fire: the
    message, the record of the slot and the place of the schedule are one transaction. Something must call
    `fire_schedules`: `pgsluice maintain`, a `Scheduler`, or pg_cron with what `pgsluice maintain --print-cron` prints.

    Every method can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError. All but
    `list_schedules` and `next_schedule_at` need the role `sluice_admin`.
    """

    def __init__(self, source: ConnectionPool[Any] | Connection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own. A connection: each call is part of its transaction,
                and nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """
        self._runner = Runner(source)

    def schedule(
        self,
        name: str,
        queue_name: str,
        message: Any,
        *,
        headers: dict[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> bool:
        """Send a message to a work queue again and again; replaces the schedule of this name, if there is one.

        One that is changed stays paused if it was, and keeps its place; with other times it goes on with the first slot
        from now on. The message gets the header `x-pgmq-schedule`: an object with the `name` and the `slot`, which
        together are a key for what must have its effect once.

        Args:
            name: Its name, 1 to 200 bytes.
            queue_name: An existing queue.
            message: What is sent, as JSON can hold it.
            headers: The headers of the message, or None.
            **options: See `ScheduleOptions`.

        Returns:
            False when there is one that is just so: nothing was changed.

        Raises:
            QueueNotFoundError: The queue does not exist.
            ArgumentError: An option does not exist, or its value is bad; of a cron expression the field is named.
            PayloadError: The message or the headers are not JSON.

        Source: `sluice.schedule`.
        """
        return self._runner.run(
            schedules.schedule(name, queue_name, message, headers=headers, **options)
        )

    def schedule_event(
        self,
        name: str,
        queue_name: str,
        ev_type: str | None,
        ev_data: str | None,
        *,
        ev_extra1: str | None = None,
        ev_extra2: str | None = None,
        ev_extra3: str | None = None,
        ev_extra4: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> bool:
        """Append an event to an event log again and again; replaces the schedule of this name, as `schedule` does.

        Args:
            name: Its name, 1 to 200 bytes.
            queue_name: An existing log.
            ev_type: What the event is.
            ev_data: What it says; text, JSON by convention.
            ev_extra1: More of it, as are the next three.
            ev_extra2: As `ev_extra1`.
            ev_extra3: As `ev_extra1`.
            ev_extra4: As `ev_extra1`.
            **options: See `ScheduleOptions`.

        Returns:
            False when there is one that is just so: nothing was changed.

        Raises:
            LogNotFoundError: There is no such log.
            ArgumentError: An option does not exist, or its value is bad; of a cron expression the field is named.
            PayloadError: A field is no text that PostgreSQL can store.

        Source: `sluice.schedule_event`.
        """
        return self._runner.run(
            schedules.schedule_event(
                name,
                queue_name,
                ev_type,
                ev_data,
                ev_extra1=ev_extra1,
                ev_extra2=ev_extra2,
                ev_extra3=ev_extra3,
                ev_extra4=ev_extra4,
                **options,
            )
        )

    def unschedule(self, name: str) -> bool:
        """Forget a schedule. It fires no more from the commit on; what it has sent stays.

        Returns:
            False when there is none of this name.

        Source: `sluice.unschedule`.
        """
        return self._runner.run(schedules.unschedule(name))

    def pause_schedule(self, name: str) -> bool:
        """Fire no slot of a schedule from the commit on, until it is resumed. Slots of the pause are not caught up.

        Returns:
            False when it is paused already.

        Raises:
            ScheduleNotFoundError: There is none of this name.

        Source: `sluice.pause_schedule`.
        """
        return self._runner.run(schedules.pause_schedule(name))

    def resume_schedule(self, name: str) -> bool:
        """Let a schedule go on after a pause, with the first slot from now on.

        Returns:
            False when it is not paused.

        Raises:
            ScheduleNotFoundError: There is none of this name.

        Source: `sluice.resume_schedule`.
        """
        return self._runner.run(schedules.resume_schedule(name))

    def run_schedule(self, name: str) -> int:
        """Send now what a schedule sends, paused or not. It is no slot: those are fired as if this had not been.

        The header `x-pgmq-schedule` has null as its `slot`.

        Returns:
            The msg_id of the message, or the ev_id of the event.

        Raises:
            ScheduleNotFoundError: There is none of this name.
            QueueNotFoundError: Its queue was dropped.
            LogNotFoundError: Its log was dropped.

        Source: `sluice.run_schedule`.
        """
        return self._runner.run(schedules.run_schedule(name))

    def list_schedules(self) -> list[Schedule]:
        """Return every schedule, by name.

        Source: `sluice.list_schedules`.
        """
        return self._runner.run(schedules.list_schedules())

    def fire_schedules(self, *, schedules_max: int = 100) -> list[FiredSlot]:
        """Fire the schedules that are due, those first that have been so for longest.

        Any number of processes may call this at once: none waits for another, and none fires what another does. Call it
        again until it returns nothing, and in a transaction of its own: until that ends, nobody else can fire them.

        Args:
            schedules_max: The most schedules to fire, 1 or more; of each at most ten slots.

        Returns:
            The slots that were fired, and those that could not be, with the reason: the queue does not exist any more,
            a trigger of its table fails. Those are tried again after 10 seconds, after 1 where the table was locked.

        Raises:
            ArgumentError: `schedules_max` is out of range.

        Source: `sluice.fire_schedules`.
        """
        return self._runner.run(schedules.fire_schedules(schedules_max=schedules_max))

    def next_schedule_at(self) -> datetime | None:
        """Return when the next schedule is due, or was; None when none is.

        Source: `sluice.next_schedule_at`.
        """
        return self._runner.run(schedules.next_schedule_at())
