"""An in-memory source with a server's semantics: leases, fencing, and recorded outcomes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from pgsluice.errors import ConnectionFailedError
from pgsluice.outcome import Done, Reject, Release, Retry
from pgsluice.worker.engine.claim.row_locks import LockWaits
from pgsluice.worker.engine.claim.sources import Feed
from pgsluice.worker.engine.delivery import Delivery, Result, Settlement
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.handlers.handler import Execution, HandlerSpec, Mode, QueueRoute

NOW = datetime.now(UTC)


@dataclass
class Stored:
    """A stored message."""

    message_id: int
    payload: Any
    key: str | None = None
    fence: int = 0
    visible_s: float = 0.0
    starts: int = 0
    uncounted: int = 0
    outcomes: list[Any] = field(default_factory=list)
    end: str | None = None


class MemorySource:
    """See `Source`. `trouble` is called with the name of each call, and may raise or wait."""

    name = "memory"

    def __init__(
        self, payloads: Sequence[Any] = (), *, max_attempts: int = 3, announces: bool = False
    ) -> None:
        self.messages: dict[int, Stored] = {}
        self.max_attempts = max_attempts
        self.announces = announces
        self.has_more = False
        self.calls: list[tuple[str, int]] = []
        self.trouble: Callable[[str], Any] = lambda _call: None
        self.arrived = asyncio.Event()
        self.lock_waits = LockWaits(2)
        self.forgotten: list[int] = []
        self.late: list[int] = []  # started after their lease expired
        self.send(*payloads)

    def send(self, *payloads: Any, key: str | None = None) -> None:
        for payload in payloads:
            number = len(self.messages) + 1
            self.messages[number] = Stored(number, payload, key)
        self.arrived.set()

    @property
    def open(self) -> list[Stored]:
        return [message for message in self.messages.values() if message.end is None]

    def ends(self) -> Counter:
        return Counter(message.end for message in self.messages.values())

    def called(self, name: str) -> list[int]:
        return [qty for call, qty in self.calls if call == name]

    def steal(self, number: int) -> None:
        """Claim a message as another worker."""
        self.messages[number].fence += 1
        self.messages[number].visible_s = time.monotonic() + 60

    async def _call(self, name: str, qty: int) -> None:
        self.calls.append((name, qty))
        waiting = self.trouble(name)
        if waiting is not None:
            await waiting

    async def prepare(self) -> None:
        await self._call("prepare", 0)

    async def claim(self, qty: int, lease_s: float) -> list[Delivery]:
        began_s = time.monotonic()
        await self._call("claim", qty)
        now_s, claimed = time.monotonic(), []
        for message in self.messages.values():
            if message.end is None and message.visible_s <= now_s:
                message.fence += 1
                message.visible_s = now_s + lease_s
                claimed.append(self._delivery(message, began_s + lease_s))
                if len(claimed) == qty:
                    break
        return claimed

    def _delivery(self, message: Stored, lease_end_s: float) -> Delivery:
        return Delivery(
            self.name,
            message.message_id,
            message.fence,
            0,
            message.payload,
            {},
            NOW,
            message.key,
            message,
            lease_end_s,
        )

    async def begin(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        await self._call("begin", len(deliveries))
        begun = []
        for delivery in deliveries:
            message = delivery.raw
            if message.fence != delivery.fence:
                continue
            if message.starts - message.uncounted >= self.max_attempts:
                message.end = "dead"
                continue
            message.starts += 1
            delivery.attempt = message.starts - message.uncounted
            if time.monotonic() >= delivery.lease_end_s:
                self.late.append(delivery.message_id)
            begun.append(delivery)
        return begun

    async def extend(
        self, deliveries: Sequence[Delivery], lease_s: float, *, wait_s: float | None = None
    ) -> list[Delivery]:
        await self._call("extend", len(deliveries))
        lost, now_s = [], time.monotonic()
        for delivery in deliveries:
            message = delivery.raw
            if message.fence != delivery.fence or message.end is not None:
                lost.append(delivery)
            else:
                delivery.lease_end_s = message.visible_s = now_s + lease_s
        return lost

    def forget(self, delivery: Delivery) -> None:
        self.forgotten.append(delivery.message_id)

    async def settle(
        self, settlements: Mapping[Delivery, Settlement], *, wait_s: float | None = None
    ) -> dict[Delivery, Settlement]:
        await self._call("settle", len(settlements))
        return {
            delivery: settlement.with_result(self._settle(delivery, settlement))
            for delivery, settlement in settlements.items()
        }

    def _settle(self, delivery: Delivery, settlement: Settlement) -> Result:
        outcome, message = settlement.outcome, delivery.raw
        message.outcomes.append((outcome, settlement.failure))
        if message.fence != delivery.fence or message.end is not None:
            return "lost"
        if isinstance(outcome, Done):
            message.end = "done"
        elif isinstance(outcome, Reject):
            message.end = "dead"
        elif isinstance(outcome, Release):
            message.fence += 1
            message.visible_s = time.monotonic() + outcome.delay_s
            message.uncounted += message.starts > 0
            return "released"
        else:
            assert isinstance(outcome, Retry)
            if message.starts - message.uncounted >= self.max_attempts:
                message.end = "dead"
            else:
                message.fence += 1
                delay_s = max(outcome.delay_s or 0.0, settlement.delay_min_s or 0.0)
                message.visible_s = time.monotonic() + delay_s
                return "retry"
        return message.end

    def acknowledgement(self, _delivery: Delivery) -> Any:
        raise NotImplementedError  # a transaction needs a server

    async def wait(self, timeout_s: float) -> None:
        self.calls.append(("wait", 0))
        due = [message.visible_s for message in self.open]
        rest_s = min([timeout_s, *(at_s - time.monotonic() for at_s in due if at_s)])
        self.arrived.clear()
        if rest_s > 0:
            try:
                async with asyncio.timeout(rest_s):
                    await self.arrived.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        await self._call("close", 0)


def spec_for(function: Callable[..., Any], **options: Any) -> HandlerSpec:
    """Return a handler of the in-memory source."""
    is_async = asyncio.iscoroutinefunction(function)
    given = {
        "name": "handler",
        "function": function,
        "route": QueueRoute("memory"),
        "decode": lambda payload: payload,
        "takes_context": function.__code__.co_argcount > 1,
        "execution": Execution.LOOP if is_async else Execution.THREAD,
        "mode": Mode.LEASE,
        "lease_s": 5.0,
    }
    return HandlerSpec(**{**given, **options})


def worker_for(
    *feeds: tuple[MemorySource, HandlerSpec],
    options: WorkerOptions | None = None,
    middlewares: Sequence[Any] = (),
) -> Worker:
    """Return a worker without a server."""
    app = SimpleNamespace(
        name="test",
        dsn=None,
        tracing=True,
        handlers={spec.name: spec for _, spec in feeds},
        middlewares=list(middlewares),
    )

    def make(specs: Sequence[HandlerSpec], *_: Any) -> list[Feed]:
        sources = {spec.name: source for source, spec in feeds}
        return [Feed(sources[s.name], (s,), lambda _delivery, s=s: s) for s in specs]

    return Worker(app, make_feeds=make, options=options)


@asynccontextmanager
async def running(worker: Worker):
    """Run the worker in a task; hard-stop it at the end if it is still running."""
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        if not task.done():
            worker.stop(now=True)
        await task


async def until(condition: Callable[[], bool], what: str, deadline_s: float = 10.0) -> None:
    """Wait for a condition in the event loop; fail with its description."""
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, f"waited {deadline_s} s for {what}"
        await asyncio.sleep(0.002)


def unreachable() -> ConnectionFailedError:
    return ConnectionFailedError("the server is away; wait for it")
