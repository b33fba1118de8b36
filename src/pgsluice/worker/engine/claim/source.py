"""Interface between the engine and a source of messages: a work queue or a share group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pgsluice.client.calls import Call
from pgsluice.worker.engine.claim.row_locks import LockWaits
from pgsluice.worker.engine.delivery import Delivery, Result, Settlement


class Source(Protocol):
    """A source of messages.

    Every method may raise ConnectionFailedError and RetryableError, which the engine retries, and other SluiceErrors,
    which are permanent.
    """

    @property
    def name(self) -> str:
        """Display name: `queue mail`, `group mailers of log orders`."""
        ...

    @property
    def lock_waits(self) -> LockWaits:
        """Limit on calls with `wait_s`."""
        ...

    @property
    def announces(self) -> bool:
        """True while each new message ends a `wait`, and a claim returns all available ones, up to `qty`."""
        ...

    @property
    def has_more(self) -> bool:
        """True if the last claim was empty, and there may be messages that it did not visit."""
        ...

    async def prepare(self) -> None:
        """Verify that the source exists and may be used, or create it if declared so; called at start.

        Raises:
            SluiceError: It cannot be used; the message gives reason and remedy.
        """
        ...

    async def claim(self, qty: int, lease_s: float) -> list[Delivery]:
        """Claim up to `qty` messages for `lease_s` seconds; return those available now."""
        ...

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Record attempts before their handlers start; sets `attempt`.

        Returns:
            Deliveries to handle, in order. Missing are those with expired leases, those that used up their attempts
            without ever being settled (`is_dead`: dead-lettered), and those locked by another transaction
            (`is_locked`).
        """
        ...

    async def extend(
        self, deliveries: Sequence[Delivery], lease_s: float, *, wait_s: float | None = None
    ) -> list[Delivery]:
        """Renew leases to `lease_s` seconds from now; set `lease_end_s` and `is_locked`.

        Args:
            deliveries: The deliveries.
            lease_s: Seconds, more than 0.
            wait_s: Lock timeout in seconds for rows locked by another transaction; None: about a second. After it
                locked deliveries are skipped.

        Returns:
            Deliveries whose claims are lost.
        """
        ...

    async def settle(
        self, settlements: Mapping[Delivery, Settlement], *, wait_s: float | None = None
    ) -> dict[Delivery, Settlement]:
        """Apply outcomes in one transaction; return the settlements with their results.

        Deliveries locked by another transaction are skipped, with the result `locked`; `wait_s` as for `extend`. The
        last attempt's `Retry` has the result `dead`. Idempotent: if the reply to a first call was lost, the second
        returns `done` for what the first did.
        """
        ...

    def acknowledgement(self, delivery: Delivery) -> Call[Result]:
        """Return the call that acknowledges a delivery, to be run in the handler's own transaction."""
        ...

    def storing(self, delivery: Delivery, returned: str) -> Call[None] | None:
        """Return the call that stores a result, as JSON text, in that transaction; None: none are kept."""
        ...

    def forget(self, delivery: Delivery) -> None:
        """Drop what is kept of a delivery that will not be settled: its handler acknowledged it, or it is lost."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Return when a message may be available or a delayed one is due, or after the timeout."""
        ...

    async def close(self) -> None:
        """Release resources; claims are kept."""
        ...
