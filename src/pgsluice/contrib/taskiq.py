"""A broker of Taskiq on a work queue; needs `pip install 'pgsluice[taskiq]'`.

    from pgsluice.contrib.taskiq import PgsluiceBroker

    broker = PgsluiceBroker("postgresql://localhost/shop")

    @broker.task
    async def add_one(value: int) -> int: ...

`taskiq worker module:broker` runs the tasks. Delivery is at least once: a task is read with a lease, renewed while
Taskiq holds it, and deleted when Taskiq acknowledges it: by default after its result was stored. If a worker dies,
its tasks are redelivered after lease expiry. A task that failed with an exception is acknowledged too: Taskiq's own
middlewares retry it, and the queue applies their delays. Results need a result backend of Taskiq's.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import math
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from psycopg_pool import AsyncConnectionPool

from pgsluice import connection
from pgsluice.backoff import DELAY_MAX_S, Backoff
from pgsluice.client import AsyncWorkQueue, Message
from pgsluice.errors import (
    TRANSIENT,
    ArgumentError,
    MissingExtraError,
    PayloadError,
    SluiceError,
)
from pgsluice.sessions import AsyncSluiceConnection
from pgsluice.worker.wakeups.listener import AsyncListener

try:
    from taskiq import AckableMessage, AsyncBroker, BrokerMessage
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"the Taskiq broker requires the Python package {error.name}; `pip install 'pgsluice[taskiq]'`"
    ) from None

_log = logging.getLogger(__name__)
# Two heartbeats may fail before a lease expires.
_HEARTBEATS = 3
# One connection each to read, acknowledge and renew, and one for concurrent sends.
_POOL_SIZE = 4


class PgsluiceBroker(AsyncBroker):  # type: ignore[misc]
    """Send tasks to a work queue, and deliver due ones to a worker.

    The label `delay` of a task is applied by the queue: the sending process does not wait.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        queue_name: str = "taskiq",
        lease_s: int = 60,
        qty: int = 10,
        poll_interval_s: float = 1.0,
    ) -> None:
        """Prepare a broker without connecting; `startup` connects.

        Args:
            dsn: Connection string; None: as for every command of pgsluice (`PGSLUICE_DSN`, `DATABASE_URL`, …).
            queue_name: The work queue; created at startup if it does not exist.
            lease_s: Lease duration in seconds without a heartbeat, 3 or more; then the task is redelivered.
            qty: Maximum tasks per read, 1 or more.
            poll_interval_s: Poll interval of an empty queue in seconds without a notifier, more than 0.

        Raises:
            ArgumentError: A number is out of range.
        """
        super().__init__()
        if lease_s < _HEARTBEATS or qty < 1 or not poll_interval_s > 0:
            raise ArgumentError(
                f"lease_s is {lease_s}, qty is {qty}, poll_interval_s is {poll_interval_s}; use "
                f"{_HEARTBEATS} or more, 1 or more, more than 0"
            )
        self._dsn = dsn
        self._queue_name = queue_name
        self._lease_s = lease_s
        self._qty = qty
        self._poll_interval_s = poll_interval_s
        # Tasks dropped by Taskiq unacknowledged are no longer renewed, but redelivered; shutdown releases them.
        self._claims: weakref.WeakSet[_Claim] = weakref.WeakSet()
        self._dropped: deque[tuple[float, Message]] = deque()
        self._stack = contextlib.AsyncExitStack()
        self._queue: AsyncWorkQueue | None = None
        self._listener: AsyncListener | None = None

    @property
    def queue(self) -> AsyncWorkQueue:
        """Client of the queue, on the broker's own pool.

        Raises:
            ArgumentError: `startup` was not called.
        """
        if self._queue is None:
            raise ArgumentError("the broker is not started; call `await broker.startup()` first")
        return self._queue

    async def startup(self) -> None:
        """Connect, create the queue if it does not exist, and start the listener in a worker.

        Raises:
            SluiceError: The connection failed, or the queue cannot be created.
        """
        conninfo = connection.resolve(self._dsn).conninfo
        pool = AsyncConnectionPool[Any](
            conninfo,
            connection_class=AsyncSluiceConnection,
            min_size=1,
            max_size=_POOL_SIZE,
            kwargs=connection.session_options(conninfo),
            open=False,
        )
        await self._stack.enter_async_context(pool)
        self._queue = AsyncWorkQueue(pool)
        if all(info.queue_name != self._queue_name for info in await self._queue.list_queues()):
            await self._queue.create(self._queue_name)
        if self.is_worker_process:
            self._listener = await self._stack.enter_async_context(AsyncListener(conninfo))
            heartbeat = asyncio.create_task(self._keep_claims())
            self._stack.callback(heartbeat.cancel)
        await super().startup()

    async def shutdown(self) -> None:
        """Release unacknowledged tasks, and close the connections."""
        await super().shutdown()
        try:
            await self._release()
        finally:
            await self._stack.aclose()

    async def kick(self, message: BrokerMessage) -> None:
        """Send a task; called by Taskiq.

        Raises:
            ArgumentError: The label `delay` is not a number of seconds, 0 or more. It is rounded up to whole seconds.
            SluiceError: The task could not be sent.
        """
        body = {"task_id": message.task_id, "task_name": message.task_name, **_as_json(message)}
        await self.queue.send(self._queue_name, body, delay=_delay_s(message.labels.get("delay")))

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Yield tasks as they are read, without end; called by Taskiq. Retries transient errors."""
        listener = self._listener
        if listener is None:
            raise ArgumentError("only a worker can listen; run `taskiq worker module:broker`")
        backoff = Backoff(f"queue {self._queue_name}", _log.log, delay_max_s=DELAY_MAX_S)
        with listener.subscribe(self._queue_name) as subscription:
            while True:
                messages = await backoff.async_retry(
                    lambda: self.queue.read(self._queue_name, self._lease_s, self._qty)
                )
                if not messages:
                    await subscription.wait(self._poll_interval_s)
                # Held in self._claims too until they are yielded, so that waiting tasks are renewed as well.
                claims = [_Claim(self, message, self._dropped) for message in messages]
                self._claims.update(claims)
                while claims:
                    data = await self._data(claims[0])
                    if data is None:
                        del claims[0]
                    else:
                        yield AckableMessage(
                            data=data, ack=claims.pop(0)
                        )  # the only strong reference

    async def settle(self, claim: _Claim) -> None:
        """Delete a task that Taskiq has acknowledged, unless its claim is stale.

        Raises:
            SluiceError: The call failed until lease expiry; the task is redelivered.
        """
        (settled,) = await Backoff(deadline_s=self._lease_s).async_retry(
            lambda: self.queue.delete_claimed(self._queue_name, [claim.message])
        )
        self._forget(claim)
        if settled.outcome == "stale":
            _log.warning(
                "acknowledgement ignored queue=%s msg_id=%d "
                'reason="lease expired and another worker read the message"',
                *(self._queue_name, settled.msg_id),
            )

    async def _data(self, claim: _Claim) -> bytes | None:
        """Return the task's data; dead-letter a message that was not sent by a Taskiq broker and return None."""
        try:
            return _from_json(claim.message.message)
        except PayloadError as error:
            self._forget(claim)
            message = claim.message
            _log.warning(
                'invalid message queue=%s msg_id=%d error="%s"',
                self._queue_name,
                message.msg_id,
                error,
            )
            with contextlib.suppress(*TRANSIENT):  # else it is redelivered
                await self.queue.reject(
                    self._queue_name,
                    *(message.msg_id, message.read_ct, "payload", str(error)),
                    enqueued_at=message.enqueued_at,
                )
            return None

    async def _keep_claims(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / _HEARTBEATS)
            await self._extend_claims()  # no local variable references a claim during the sleep

    async def _extend_claims(self) -> None:
        """Renew all claims of this process in one call; forget dropped ones whose leases have expired."""
        while self._dropped and self._dropped[0][0] < time.monotonic() - self._lease_s:
            self._dropped.popleft()
        claims = list(self._claims)
        if not claims:
            return
        messages = [claim.message for claim in claims]
        try:
            outcomes = await self.queue.extend_claimed(self._queue_name, messages, self._lease_s)
        except SluiceError as error:
            _log.warning('renewal failed queue=%s error="%s"', self._queue_name, error)
            return
        for claim, lost in zip(claims, outcomes, strict=True):
            if lost.outcome == "stale":
                _log.warning(
                    'lease expired queue=%s msg_id=%d reason="the task still runs"',
                    *(self._queue_name, lost.msg_id),
                )
            if lost.outcome != "done":
                self._forget(claim)

    def _forget(self, claim: _Claim) -> None:
        """Forget a claim that is settled or lost."""
        self._claims.discard(claim)
        claim.dropping.detach()

    async def _release(self) -> None:
        messages = [claim.message for claim in self._claims]
        for claim in list(self._claims):
            self._forget(claim)
        messages += [message for _, message in self._dropped]
        self._dropped.clear()
        if messages:
            with contextlib.suppress(*TRANSIENT):
                await self.queue.release_claimed(self._queue_name, messages)


class _Claim:
    """A claimed task; called by Taskiq to acknowledge it."""

    def __init__(
        self, broker: PgsluiceBroker, message: Message, dropped: deque[tuple[float, Message]]
    ) -> None:
        self.broker = broker
        self.message = message
        # Called when Taskiq drops its reference: the only sign of a task that was cancelled or discarded.
        self.dropping = weakref.finalize(self, _note, dropped, message)
        self.dropping.atexit = False

    async def __call__(self) -> None:
        await self.broker.settle(self)


def _note(dropped: deque[tuple[float, Message]], message: Message) -> None:
    dropped.append((time.monotonic(), message))


def _as_json(message: BrokerMessage) -> dict[str, str]:
    # As text, because jsonb would turn 1e22 into an integer. Serializers other than JSON produce other bytes, and NULs,
    # which PostgreSQL stores in no text.
    with contextlib.suppress(UnicodeDecodeError):
        if b"\x00" not in message.message:
            return {"data": message.message.decode("utf-8")}
    return {"data_base64": base64.b64encode(message.message).decode("ascii")}


def _from_json(body: Any) -> bytes:
    match body:
        case {"data": str(text)}:
            return text.encode("utf-8")
        case {"data_base64": str(text)}:
            with contextlib.suppress(ValueError):
                return base64.b64decode(text, validate=True)
    raise PayloadError(
        "the message has neither `data` nor `data_base64`; it was not sent by a Taskiq broker"
    )


def _delay_s(label: Any) -> int:
    try:
        delay_s = 0.0 if label is None else float(label)  # Taskiq converts labels to text
    except ValueError:
        delay_s = math.nan
    if not 0 <= delay_s < math.inf:
        raise ArgumentError(f"the label delay is {label!r}; use 0 or more seconds")
    return math.ceil(delay_s)
