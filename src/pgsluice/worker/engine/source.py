"""What the engine needs of a place that messages come from. A work queue and a share group each are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pgsluice.client.calls import Call
from pgsluice.worker.engine.delivery import Delivery
from pgsluice.worker.engine.lock_waits import LockWaits
from pgsluice.worker.engine.settlement import Result, Settlement


class Source(Protocol):
    """A place that messages come from.

    Every method may raise ConnectionFailedError and RetryableError, which the engine waits out, and other SluiceErrors,
    which it cannot.
    """

    @property
    def name(self) -> str:
        """For people: `queue mail`, `group mailers of log orders`."""
        ...

    @property
    def lock_waits(self) -> LockWaits:
        """Turns for calls with `wait_s`."""
        ...

    async def prepare(self) -> None:
        """Look that it is there and may be used, or make it where that was asked for; called at the start.

        Raises:
            SluiceError: It cannot be used; the message says why and what to do.
        """
        ...

    async def claim(self, qty: int, lease_s: float) -> list[Delivery]:
        """Claim up to `qty` messages for `lease_s` seconds; none when there are none now."""
        ...

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Note, before their handlers start, that they do; sets `attempt`.

        Returns:
            Those that are to be handled, in their order. Missing are those whose claim is over, those whose attempts
            were used up by starts that nobody heard of again (`is_dead`: these were moved to the dead letters), and
            those that another transaction has locked (`is_locked`).
        """
        ...

    async def extend(
        self, deliveries: Sequence[Delivery], lease_s: float, *, wait_s: float | None = None
    ) -> list[Delivery]:
        """Let the leases end `lease_s` seconds from now, and set `lease_end_s` and `is_locked`.

        Args:
            deliveries: Which.
            lease_s: Seconds, more than 0.
            wait_s: How long to wait for the row lock of another transaction, seconds; None: about a second. Then
                those that are locked are left out, so that the others do not wait.

        Returns:
            Those whose claim is over.
        """
        ...

    async def settle(
        self, settlements: Mapping[Delivery, Settlement], *, wait_s: float | None = None
    ) -> dict[Delivery, Settlement]:
        """Apply the outcomes of deliveries in one transaction; return the settlements with their results.

        Deliveries whose row another transaction has locked are skipped, with the result `locked`; `wait_s` as for
        `extend`. The last attempt's `Retry` has the result `dead`. Idempotent: when the reply of a first call was
        lost, the second returns `done` for what the first did.
        """
        ...

    def acknowledgement(self, delivery: Delivery) -> Call[Result]:
        """Return the call that acknowledges a delivery; run on a handler's own connection, in its transaction."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Return when there may be something to claim, or after so long. Also returns when a delayed message is due."""
        ...

    async def close(self) -> None:
        """Let go of what it holds; claims stay."""
        ...
