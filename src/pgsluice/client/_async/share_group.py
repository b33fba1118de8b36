# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncShareGroup`: its methods run the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.client import calls
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.sources import AsyncConnectable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Literal, Unpack

    from pgsluice.client.explain_records import ExplainedFact
    from pgsluice.client.group_records import (
        AcknowledgeType,
        BlockedKey,
        ClaimedEvent,
        GroupInfo,
        GroupOptions,
        GroupType,
        OpenClaim,
    )
    from pgsluice.client.settings_records import Change


class AsyncShareGroup:
    """Share the events of a log among competing consumers, each event claimed by one and settled on its own.

    A claim holds a lease. Events that are not settled when the lease expires are redelivered with a later claim, so
    delivery is at least once. A stale consumer, whose events were claimed again after its lease expired, gets
    LeaseLostError and changes nothing.

    Methods raise LogNotFoundError if the log does not exist, and all except `create` and `drop` raise
    GroupNotFoundError if the group does not exist. All methods can raise ConnectionFailedError, NotInstalledError,
    PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectable, log_name: str, group_name: str) -> None:
        """Use a pool or a connection, for one group of one log. Neither is checked or created here.

        Args:
            source: With a pool, each call is a transaction of its own, and claims commit asynchronously (a crash that
                loses one only leaves its events unclaimed). With a connection, each call runs in the caller's
                transaction, and commits only in autocommit mode. The caller opens and closes it.
            log_name: An existing log.
            group_name: The share group; create it with `create`.
        """
        self._runner = AsyncRunner(source)
        self._name = (log_name, group_name)

    async def create(
        self,
        *,
        start: Literal["latest", "earliest"] | int | datetime = "latest",
        key: str | None = None,
        when_waiting: Literal["block", "skip", "park"] | None = None,
        **options: Unpack[GroupOptions],
    ) -> bool:
        """Create the group. From the commit on, the log keeps events until the group has settled them.

        Args:
            start: Where the group starts reading: `latest`, at events committed from now on; `earliest`, at the oldest
                event that the log keeps; a tick_id, after that tick; or a time with a time zone, after the newest tick
                at or before that time.
            key: Ordering key: `ev_type`, `ev_data`, `ev_extra1` to `ev_extra4`, or a JSON path into ev_data, such as
                `$.customer`. Events of one key are claimed by one consumer at a time, in the order of the log. None: no
                order.
            when_waiting: Handling of a key while one of its events awaits a retry: `block` holds back its later events;
                `skip` delivers them first; `park` moves the event and the later ones to the dead letters until
                `unpark_key`, a redrive or a purge. None: `block`. An immediate redelivery precedes the later events in
                any case.
            **options: See `GroupOptions`.

        Returns:
            False when the group exists with the same options.

        Raises:
            GroupStateError: The group exists with other options, or the name belongs to a plain consumer. Nothing was
                changed.
            LogStateError: The log does not have this tick, or no longer.
            ArgumentError: An option is unknown or its value invalid.

        Source: `sluice.create_group`.
        """
        return await self._runner.run(
            calls.share_groups.create_group(
                *self._name, start=start, key=key, when_waiting=when_waiting, **options
            )
        )

    async def claim(
        self,
        qty: int = 1,
        *,
        lease_s: float | None = None,
        synchronous: bool = True,
        types: Sequence[str] | None = None,
        others: bool = False,
    ) -> list[ClaimedEvent]:
        """Claim up to `qty` events: first redeliveries that are due, then new events. Never waits for events.

        An async claim that is cancelled on a pool or in autocommit mode may hold its events until the lease expires.
        An open transaction with a claim blocks other claims of the group: commit before handling the events. On a
        connection in autocommit mode, outside a transaction block, pass `synchronous=False`: then neither this claim
        nor the others wait for its WAL flush.

        Args:
            qty: The most to claim, 1 or more.
            lease_s: Lease in seconds, more than 0; None: the group's.
            synchronous: False: commit with `synchronous_commit = off`. Use it only if the transaction holds nothing
                else: a server crash may lose the claim, and its events are claimed again. On a pool, claims always
                commit like this.
            types: Claim only events of these types, of at most 400 bytes each; the others are left to members that
                claim them. None: all types.
            others: With `types`: also claim events of all types that no handler is declared for.

        Returns:
            0 to `qty` events, all of one claim: first redeliveries by due time, then new events in the order of the
            log.

        Raises:
            GroupBusyError: Another open transaction has claimed from the group; retry after it has ended.
            GroupStateError: The transaction is not READ COMMITTED.
            PositionLostError: The group's position was dropped by the log's lag limits.
            ArgumentError: `qty` or `lease_s` is out of range.

        Source: `sluice.claim`.
        """
        return await self._runner.run(
            calls.share_groups.claim(
                *self._name,
                qty,
                lease_s=lease_s,
                synchronous=synchronous,
                types=types,
                others=others,
            )
        )

    async def accept(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        *,
        ev_ids: Sequence[int] | None = None,
    ) -> int:
        """Acknowledge a claim, or some of its events, as done; see `acknowledge`.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(calls.share_groups.accept(*self._name, claim, ev_ids=ev_ids))

    async def retry(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        *,
        ev_ids: Sequence[int] | None = None,
        delay_s: float | None = None,
        error: str | None = None,
    ) -> int:
        """Retry a claim, or some of its events, after a back-off; dead-letter after the last attempt.

        See `acknowledge`.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(
            calls.share_groups.retry(
                *self._name, claim, ev_ids=ev_ids, delay_s=delay_s, error=error
            )
        )

    async def release(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        *,
        ev_ids: Sequence[int] | None = None,
        delay_s: float | None = None,
    ) -> int:
        """Release a claim, or some of its events, without counting an attempt; see `acknowledge`.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(
            calls.share_groups.release(*self._name, claim, ev_ids=ev_ids, delay_s=delay_s)
        )

    async def reject(
        self,
        claim: int | ClaimedEvent | Sequence[ClaimedEvent],
        reason: str,
        error: str | None = None,
        *,
        ev_ids: Sequence[int] | None = None,
    ) -> int:
        """Dead-letter a claim, or some of its events; see `acknowledge`.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(
            calls.share_groups.reject(*self._name, claim, reason, error, ev_ids=ev_ids)
        )

    async def renew(
        self, claim: int | ClaimedEvent | Sequence[ClaimedEvent], *, lease_s: float | None = None
    ) -> datetime:
        """Renew the lease of a claim. Also a heartbeat: if the lease expires later, that counts as an attempt.

        Args:
            claim: A claim_id, or events of the claim; the whole claim is renewed.
            lease_s: Lease from now on in seconds, more than 0; None: the group's. A lease is never shortened.

        Returns:
            The time at which the lease expires.

        Raises:
            LeaseLostError: The claim is settled, or its lease expired and its events were claimed again.
            ClaimNotFoundError: The claim does not exist.
            ArgumentError: `lease_s` is out of range.

        Source: `sluice.renew`.
        """
        return await self._runner.run(calls.share_groups.renew(*self._name, claim, lease_s=lease_s))

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
        """Settle a claim, or some of its events.

        On a connection, this is part of the caller's transaction: committed together with the consumer's own writes, it
        gives them an exactly-once effect.

        Args:
            claim: A claim_id, for all unsettled events of the claim (cheapest); or events returned by `claim`, all of
                one claim. An empty sequence settles nothing.
            outcome: `accept`: done. `release`: redeliver without counting an attempt. `retry`: redeliver after a
                back-off and count an attempt; after the last attempt, dead-letter. `reject`: dead-letter.
            ev_ids: Only these events of the claim; only with a claim_id.
            delay_s: For `release` and `retry`: seconds until redelivery, 0 or more. None: immediately for `release`,
                the group's back-off for `retry`.
            error: The error with its traceback, stored with the retry or the dead letter; NULs are escaped.
            reason: For `reject`: reason in a word or two.

        Returns:
            The number of events settled by this call. Repeating the same outcome after a lost reply is not an error,
            and does not count events again. Writes of the first call are then already committed: a consumer that writes
            in the same transaction must roll back if the number is lower than the events it handled. In a group with
            `when_waiting` `block` or `park`, the number can be higher: behind an event to be redelivered, later events
            of its key in the claim are released too.

        Raises:
            LeaseLostError: The lease expired and events were claimed again, or some events have another outcome.
                Nothing was changed.
            ClaimNotFoundError: The claim does not exist, or does not contain the events. Nothing was changed.
            ArgumentError: The events belong to several claims, `delay_s` is out of range, or an argument does not apply
                to the outcome.

        Source: `sluice.acknowledge`.
        """
        return await self._runner.run(
            calls.share_groups.acknowledge(
                *self._name,
                claim,
                outcome,
                ev_ids=ev_ids,
                delay_s=delay_s,
                error=error,
                reason=reason,
            )
        )

    async def info(self) -> GroupInfo:
        """Return the settings and lag of the group.

        Source: `sluice.list_groups`.
        """
        return await self._runner.run(calls.share_groups.group_info(*self._name))

    async def set_options(self, **options: Unpack[GroupOptions]) -> Change:
        """Change the given options; open claims keep their lease.

        Args:
            **options: See `GroupOptions`. `start`, `key` and `when_waiting` cannot be changed.

        Returns:
            `unchanged` when the group has these options already.

        Raises:
            ArgumentError: An option is unknown or its value invalid.

        Source: `sluice.set_group_options`.
        """
        return await self._runner.run(calls.share_groups.set_group_options(*self._name, **options))

    async def drop(self) -> bool:
        """Drop the group with its claims and retries; the log no longer keeps events for it.

        Its dead letters stay.

        Returns:
            False when the group did not exist.

        Source: `sluice.drop_group`.
        """
        return await self._runner.run(calls.share_groups.drop_group(*self._name))

    async def explain(self) -> list[ExplainedFact]:
        """Explain the group: its events by state, its open claims and their leases, and why events are not claimed.

        Source: `sluice.explain_group`.
        """
        return await self._runner.run(calls.explain.explain_group(*self._name))

    async def explain_key(self, key: str) -> list[ExplainedFact]:
        """Explain a key of the group: whether it is claimed, waits for a redelivery or is parked.

        Requires the role sluice_reader, as keys are parts of events.

        Source: `sluice.explain_key`.
        """
        return await self._runner.run(calls.explain.explain_group_key(*self._name, key))

    async def list_blocked_keys(self) -> list[BlockedKey]:
        """Return the blocked keys as of the last claim, longest blocked first.

        Source: `sluice.list_blocked_keys`.
        """
        return await self._runner.run(calls.group_keys.list_blocked_keys(*self._name))

    async def unpark_key(self, key: str) -> int:
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
        return await self._runner.run(calls.group_keys.unpark_key(*self._name, key))

    async def list_types(self) -> list[GroupType]:
        """Return the event types that handlers are declared for, and those without a handler, by type.

        Source: `sluice.list_types`.
        """
        return await self._runner.run(calls.group_types.list_types(*self._name))

    async def forget_types(self, types: Sequence[str | None]) -> int:
        """Remove the declarations of event types whose handlers will not return.

        Their waiting events are then treated by the option `unhandled`. A running worker that declares a type
        declares it again within an hour.

        Args:
            types: The types; None stands for the declaration of all other types.

        Returns:
            The number of declarations removed.

        Source: `sluice.forget_types`.
        """
        return await self._runner.run(calls.group_types.forget_types(*self._name, types))

    async def list_claims(self) -> list[OpenClaim]:
        """Return the open claims, earliest first.

        Source: `sluice.list_claims`.
        """
        return await self._runner.run(calls.share_groups.list_claims(*self._name))

    async def unfinished_attempts(self, claim_id: int) -> list[int]:
        """Return the events of a claim whose previous lease expired without an outcome.

        Such an event may have killed its process. Handle them one at a time and release the others first: a lease
        expires for the whole claim.

        Args:
            claim_id: An open claim of this group.

        Returns:
            0 or more ev_ids, in the order of the claim. Empty if the claim is settled or expired.

        Source: `sluice.unfinished_attempts`.
        """
        return await self._runner.run(calls.share_groups.unfinished_attempts(*self._name, claim_id))
