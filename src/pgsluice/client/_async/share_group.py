# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncShareGroup`: its methods run the calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Unpack

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import dead_events, share_groups
from pgsluice.client.group_records import (
    AcknowledgeType,
    BlockedKey,
    ClaimedEvent,
    GroupInfo,
    GroupOptions,
    OpenClaim,
)
from pgsluice.client.log_records import DeadEvent, RedrivenEvent


class AsyncShareGroup:
    """Share the events of a log among any number of consumers: each event is claimed by one, and settled by itself.

    A claim holds a lease. What is not settled when the lease ends goes to the next claim, so delivery is at least once;
    a consumer whose claim has lapsed and been claimed again is told so by LeaseLostError, and has changed nothing.

    Every method raises LogNotFoundError where there is no such log, all but `create` and `drop` raise
    GroupNotFoundError where it has no such group; only looking at dead events and purging them needs neither. Every one
    can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(
        self,
        source: AsyncConnectionPool[Any] | AsyncConnection[Any],
        queue_name: str,
        group_name: str,
    ) -> None:
        """Use a pool or a connection, for one group of one log. Nothing is looked up or made yet.

        Args:
            source: A pool: each call is a transaction of its own, and claims commit asynchronously (one that a crash
                loses only leaves its events to be claimed). A connection: each call is part of its transaction, and
                nothing is committed unless it is in autocommit mode. The caller opens and closes it.
            queue_name: An existing log.
            group_name: The group; `create` makes it.
        """
        self._runner = AsyncRunner(source)
        self._name = (queue_name, group_name)

    async def browse_dead_events(
        self,
        *,
        after_dead_event_id: int | None = None,
        qty: int = 100,
        ev_type: str | None = None,
        reason: str | None = None,
        ev_ids: Sequence[int] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[DeadEvent]:
        """Return a page of the group's dead events; those of a dropped group or log are still there.

        Args:
            after_dead_event_id: Only those with a higher id; None: from the first on.
            qty: The most to return, 1 or more.
            ev_type: Only events of this type.
            reason: Only those that were given up for this reason.
            ev_ids: Only events with these ids in the log.
            since: Only those that were given up at this time or later, with a time zone.
            until: Only those that were given up before this time, with a time zone.

        Returns:
            0 to `qty` dead events, lowest `dead_event_id` first; fewer than `qty`: there are no more.

        Raises:
            ArgumentError: `qty` or an id is out of range, or a time has no zone.

        Source: `sluice.browse_dead_events`.
        """
        return await self._runner.run(
            dead_events.browse_dead_events(
                *self._name,
                after_dead_event_id=after_dead_event_id,
                qty=qty,
                ev_type=ev_type,
                reason=reason,
                ev_ids=ev_ids,
                since=since,
                until=until,
            )
        )

    async def count_dead_events(
        self,
        *,
        ev_type: str | None = None,
        reason: str | None = None,
        ev_ids: Sequence[int] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> int:
        """Return how many dead events of the group a filter matches.

        Args:
            ev_type: As for `browse_dead_events`, as are all others.

        Raises:
            ArgumentError: As for `browse_dead_events`.

        Source: `sluice.count_dead_events`.
        """
        return await self._runner.run(
            dead_events.count_dead_events(
                *self._name, ev_type=ev_type, reason=reason, ev_ids=ev_ids, since=since, until=until
            )
        )

    async def redrive_events(
        self, dead_event_ids: Sequence[int], *, target_queue_name: str | None = None
    ) -> list[RedrivenEvent]:
        """Move dead events back to the group, as new events that it alone gets, or into a work queue.

        In the group their attempts begin anew, and `redriven` is one more. In a queue they are messages: an object with
        the fields of the event, and the header `x-pgmq-replayed-from` with `log`, `group`, `ev_id`, `dead_event_id`,
        `dead_at`, `reason` and `redriven`. Of two that redrive the same event one moves it.

        Args:
            dead_event_ids: Their ids, of any number: all are moved in one transaction.
            target_queue_name: The work queue to move them to; None: to the group.

        Returns:
            Those that were there, lowest first, each once, with their new ev_ids or msg_ids.

        Raises:
            GroupNotFoundError: The group was dropped; a queue can still have its dead events. Nothing was moved.
            LogStateError: The log is closed for events, or takes fewer of them from one transaction. Nothing was moved.
            QueueNotFoundError: The queue does not exist; it is named. Nothing was moved.
            ArgumentError: An id is out of range.

        Source: `sluice.redrive_events`.
        """
        return await self._runner.run(
            dead_events.redrive_events(
                *self._name, dead_event_ids, target_queue_name=target_queue_name
            )
        )

    async def redrive_events_matching(
        self,
        *,
        target_queue_name: str | None = None,
        after_dead_event_id: int | None = None,
        qty: int = 1000,
        ev_type: str | None = None,
        reason: str | None = None,
        ev_ids: Sequence[int] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[RedrivenEvent]:
        """Move the next dead events that a filter matches, as `redrive_events` does.

        Those that somebody else moves at this moment are skipped. Whoever repeats it until nothing is left sets
        `until`, or counts: an event that fails again at once is dead again, and there would be no end.

        Args:
            target_queue_name: The work queue to move them to; None: to the group.
            after_dead_event_id: Only those with a higher id; None: from the first on.
            qty: The most to move, 1 or more.
            ev_type: As for `browse_dead_events`, as are all others.

        Returns:
            What was moved, lowest `dead_event_id` first; the last is where the next call goes on.

        Raises:
            GroupNotFoundError: As for `redrive_events`.
            LogStateError: As for `redrive_events`.
            QueueNotFoundError: As for `redrive_events`.
            ArgumentError: As for `browse_dead_events`.

        Source: `sluice.redrive_events_matching`.
        """
        return await self._runner.run(
            dead_events.redrive_events_matching(
                *self._name,
                target_queue_name=target_queue_name,
                after_dead_event_id=after_dead_event_id,
                qty=qty,
                ev_type=ev_type,
                reason=reason,
                ev_ids=ev_ids,
                since=since,
                until=until,
            )
        )

    async def purge_dead_events(
        self,
        *,
        older_than: timedelta | None = None,
        dead_event_ids: Sequence[int] | None = None,
        qty: int = 10000,
    ) -> int:
        """Delete dead events for good: the oldest of those that are so old, or those with these ids.

        Args:
            older_than: How long ago they were given up, at least; 0 for all of them.
            dead_event_ids: Their ids; one of the two is to be given.
            qty: The most to delete, 1 or more: a long list takes several calls.

        Returns:
            How many were deleted; call it until that is 0.

        Raises:
            ArgumentError: Neither or both are given, or `qty` or an id is out of range.

        Source: `sluice.purge_dead_events`.
        """
        return await self._runner.run(
            dead_events.purge_dead_events(
                *self._name, older_than=older_than, dead_event_ids=dead_event_ids, qty=qty
            )
        )

    async def create(
        self,
        *,
        start: Literal["end", "beginning"] | int | datetime = "end",
        key: str | None = None,
        when_waiting: Literal["block", "skip", "park"] | None = None,
        **options: Unpack[GroupOptions],
    ) -> bool:
        """Create the group. From then on the log keeps events for it until they are settled.

        Args:
            start: Which events are its: `end`, those that are committed from now on; `beginning`, all that the log
                keeps; those after a tick_id; or those after the newest tick that is not younger than a time with a time
                zone.
            key: What events are kept in order by: `ev_type`, `ev_data`, `ev_extra1` to `ev_extra4`, or a JSON path into
                ev_data, such as `$.customer`. Events of one key are with one consumer at a time, in the order of the
                log. None: no order.
            when_waiting: What becomes of a key of which an event waits to be retried: `block`, those behind it wait;
                `skip`, they go first; `park`, it and they are put aside as dead events until `unpark_key`, or until
                they are sent again or purged. None: `block`. What comes again at once waits for nothing: it comes
                before the later ones.
            **options: See `GroupOptions`.

        Returns:
            False when it exists, with the same options.

        Raises:
            GroupStateError: It exists with other options, or is a consumer that is no group. Nothing was changed.
            LogStateError: The log has no such tick, or not any more.
            ArgumentError: An option does not exist, or its value is bad.

        Source: `sluice.create_group`.
        """
        return await self._runner.run(
            share_groups.create_group(
                *self._name, start=start, key=key, when_waiting=when_waiting, **options
            )
        )

    async def set_options(self, **options: Unpack[GroupOptions]) -> None:
        """Change the options that are given; claims that are open keep the lease they have.

        Args:
            **options: See `GroupOptions`. Where the group starts and its key cannot be changed.

        Raises:
            ArgumentError: An option does not exist, or its value is bad.

        Source: `sluice.set_group_options`.
        """
        await self._runner.run(share_groups.set_group_options(*self._name, **options))

    async def drop(self) -> bool:
        """Drop the group with its claims and what waits to be retried; the log keeps no events for it any more.

        Its dead events stay.

        Returns:
            False when there was none.

        Source: `sluice.drop_group`.
        """
        return await self._runner.run(share_groups.drop_group(*self._name))

    async def info(self) -> GroupInfo:
        """Return its settings, and how far behind it is.

        Source: `sluice.group_info`.
        """
        return await self._runner.run(share_groups.group_info(*self._name))

    async def claim(
        self, qty: int = 1, *, lease_s: float | None = None, synchronous: bool = True
    ) -> list[ClaimedEvent]:
        """Claim up to `qty` events: first those that are due to come again, then new ones. Never waits for events.

        While the transaction of a claim is open nobody else of the group can claim: commit, then handle the events. On
        a connection in autocommit mode, outside of a transaction block, pass `synchronous=False`: then the claim does
        not wait until it is on disk, nor the claims of the others for it.

        Args:
            qty: The most to claim, 1 or more.
            lease_s: How long they are claimed for, more than 0 seconds; None: the group's.
            synchronous: False: the transaction commits with `synchronous_commit = off`. Only where it holds nothing but
                the claim: a crash of the server may lose it, and its events are claimed again. On a pool each claim is
                such a transaction, whatever is given here.

        Returns:
            0 to `qty` events, all of one claim: those that come again first, by the time they were due, then new ones
            in the order of the log.

        Raises:
            GroupBusyError: Another transaction that stays open has claimed; again when it has ended.
            GroupStateError: The transaction is not READ COMMITTED.
            PositionLostError: The position of the group was given up, as the log's policy says.
            ArgumentError: `qty` or `lease_s` is out of range.

        Source: `sluice.claim`.
        """
        return await self._runner.run(
            share_groups.claim(*self._name, qty, lease_s=lease_s, synchronous=synchronous)
        )

    async def acknowledge(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        outcome: AcknowledgeType = "accept",
        *,
        ev_ids: Sequence[int] | None = None,
        delay_s: float | None = None,
        error: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Say what became of a claim, or of some of its events.

        On a connection it is part of the caller's transaction: the consumer's own writes and it are committed together,
        and have an exactly-once effect.

        Args:
            claim: A claim_id, for all of the claim that is not settled yet, which costs least; or events as `claim`
                returned them, all of one claim. No events settle nothing.
            outcome: `accept`: done. `release`: to be claimed again, as if it had not been. `retry`: to be claimed
                again after a pause, and an attempt is counted; after the last one the event is dead. `reject`: dead.
            ev_ids: With a claim_id: only these events of the claim.
            delay_s: When they can be claimed again, of a release or a retry: seconds from now, 0 or more. None: at
                once, or after the group's backoff.
            error: The error, with its trace; kept with what comes again or is dead.
            reason: Why it is dead, in a word or two.

        Returns:
            How many events this call settled. Those that were settled before, with the same outcome, are not among
            them: to say it again after a lost reply is no error. But then what was written for them is there already:
            who writes in the same transaction rolls back when it is fewer than it handled. In a group whose key blocks
            or parks it may be more: behind an event that comes again, the later ones of its key in the claim go back.

        Raises:
            LeaseLostError: The claim has lapsed and was claimed again, or some of it is settled otherwise. Nothing was
                changed.
            ClaimNotFoundError: There is no such claim, or it has no such events. Nothing was changed.
            ArgumentError: Events are of several claims, `delay_s` is out of range, or an argument does not go with the
                outcome.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(
            share_groups.acknowledge(
                *self._name,
                claim,
                outcome,
                ev_ids=ev_ids,
                delay_s=delay_s,
                error=error,
                reason=reason,
            )
        )

    async def accept(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        *,
        ev_ids: Sequence[int] | None = None,
    ) -> int:
        """Settle a claim, or some of its events, as done; see `acknowledge`.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(share_groups.accept(*self._name, claim, ev_ids=ev_ids))

    async def release(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        *,
        ev_ids: Sequence[int] | None = None,
        delay_s: float | None = None,
    ) -> int:
        """Give a claim back, or some of its events, as if they had not been claimed; see `acknowledge`.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(
            share_groups.release(*self._name, claim, ev_ids=ev_ids, delay_s=delay_s)
        )

    async def retry(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        *,
        ev_ids: Sequence[int] | None = None,
        delay_s: float | None = None,
        error: str | None = None,
    ) -> int:
        """Ask for a claim, or some of its events, again after a pause; an attempt is counted, and the last one is dead.

        See `acknowledge`.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(
            share_groups.retry(*self._name, claim, ev_ids=ev_ids, delay_s=delay_s, error=error)
        )

    async def reject(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        reason: str,
        error: str | None = None,
        *,
        ev_ids: Sequence[int] | None = None,
    ) -> int:
        """Move a claim, or some of its events, to the dead events of the group; see `acknowledge`.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(
            share_groups.reject(*self._name, claim, reason, error, ev_ids=ev_ids)
        )

    async def renew(
        self, claim: int | ClaimedEvent | Sequence[ClaimedEvent], *, lease_s: float | None = None
    ) -> datetime:
        """Hold a claim for longer; it also says that its consumer is there, so that a lapse counts as an attempt.

        Args:
            claim: A claim_id, or events of the claim; it is renewed as a whole.
            lease_s: How long from now on, more than 0 seconds; None: the group's. It is never made shorter.

        Returns:
            When the lease ends.

        Raises:
            LeaseLostError: The claim is settled, or has lapsed and was claimed again.
            ClaimNotFoundError: There is no such claim.
            ArgumentError: `lease_s` is out of range.

        Source: `sluice.renew`.
        """
        return await self._runner.run(share_groups.renew(*self._name, claim, lease_s=lease_s))

    async def list_claims(self) -> list[OpenClaim]:
        """Return the claims that are open, the earliest first.

        Source: `sluice.list_claims`.
        """
        return await self._runner.run(share_groups.list_claims(*self._name))

    async def lapsed_events(self, claim_id: int) -> list[int]:
        """Find the events of a claim that may have killed their process: their last claim ended without a word.

        Start them one after the other, and give back what waits behind one: a claim lapses as a whole.

        Args:
            claim_id: A claim of this group that is open.

        Returns:
            0 or more `ev_id`, in the order of the claim. Empty for a claim that is over.

        Source: `sluice.lapsed_events`.
        """
        return await self._runner.run(share_groups.lapsed_events(*self._name, claim_id))

    async def list_blocked_keys(self) -> list[BlockedKey]:
        """Return the keys whose events wait, the longest first, as the last claim saw them.

        Source: `sluice.list_blocked_keys`.
        """
        return await self._runner.run(share_groups.list_blocked_keys(*self._name))

    async def unpark_key(self, key: str) -> int:
        """Hand out the events of a parked key again, all of them, in the order of the log; attempts count anew.

        Args:
            key: As in `list_blocked_keys`.

        Returns:
            How many events were parked, 0 or more.

        Raises:
            GroupBusyError: A transaction that stays open has claimed; again when it has ended.
            GroupStateError: The transaction is not READ COMMITTED.

        Source: `sluice.unpark_key`.
        """
        return await self._runner.run(share_groups.unpark_key(*self._name, key))
