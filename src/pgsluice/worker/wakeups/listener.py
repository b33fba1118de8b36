"""Wait for messages of work queues and events of logs: one connection for all waits of a process.

The connection listens to notifications of a `Notifier` and a `Ticker`. Waiters reduce their polling only while the
heartbeats of both arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import psycopg

from pgsluice.backoff import Backoff
from pgsluice.client.calls import listeners as calls
from pgsluice.errors import (
    ConnectionFailedError,
    LogNotFoundError,
    PrivilegeError,
    SluiceError,
)
from pgsluice.ranges import require_positive_s
from pgsluice.worker.loops import call_soon
from pgsluice.worker.wakeups.listener_connection import (
    ListenerConnection,
    connected_listener,
    input_of,
    is_lent,
)
from pgsluice.worker.wakeups.listener_state import (
    ANSWER,
    HEARTBEAT_CHANNELS,
    REASONS,
    Heartbeats,
    Kind,
    ListenerState,
    Place,
)
from pgsluice.worker.wakeups.subscription import AsyncSubscription, Subscription

__all__ = ["AsyncListener", "Listener", "ListenerState"]

_log = logging.getLogger(__name__)
_CLOSE_S = 1.0
# Retry interval behind a pooler; the address may later resolve to another server.
_POOLED_PAUSE_S = 300.0
# Payload of a log's last notification.
_DROPPED = "dropped"
# Interval at which a log that does not exist is tried again.
_RETRY_S = 2.0
# Maximum poll interval of a waiter, however many there are.
_FALLBACK_MAX_S = 600.0


class AsyncListener:
    """Wake tasks that wait for messages or events when new ones may be available.

    It needs a direct connection: behind a pooler in transaction mode no notification arrives. Then, or if no notifier
    runs or the connection is lost, it logs this and sets `state`, and waiters poll as without a listener.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        heartbeat_s: float = 5.0,
        fallback_poll_s: float = 30.0,
        connect_timeout_s: int = 10,
    ) -> None:
        """Prepare a listener; `async with` starts it.

        Args:
            conninfo: Connection string, of a role that may listen (`sluice_reader`).
            heartbeat_s: Maximum heartbeat interval of notifier and ticker in seconds, more than 0. A dead connection is
                detected within twice that.
            fallback_poll_s: Poll interval in seconds while notifications arrive, shared by all waiters, more than 0.
                With many waiters each polls less often, but at least every ten minutes.
            connect_timeout_s: Connection timeout in seconds, 2 or more.
        """
        require_positive_s(heartbeat_s, "heartbeat_s")
        require_positive_s(fallback_poll_s, "fallback_poll_s")
        self._conninfo = conninfo
        self._heartbeat_s = heartbeat_s
        self._fallback_poll_s = fallback_poll_s
        self._connect_timeout_s = connect_timeout_s
        self._state = ListenerState.CLOSED
        self._reason = "not started"
        self._subscriptions: dict[Place, set[AsyncSubscription | Subscription]] = {}
        self._channels: dict[Place, str] = {}  # of the current connection
        # Those that do not exist or that the role may not listen to.
        self._missing: set[Place] = set()
        self._reported: set[Place] = set()  # of these, the ones that were logged
        self._retry_at_s = math.inf
        self._other_channels: set[str] = (
            set()
        )  # channels without waiters, such as this session's own
        self._heartbeats: Heartbeats | None = None
        self._backend_pid: int | None = None
        self._reliable: frozenset[Kind] = frozenset()
        self._expected = {Kind.QUEUE}  # the kinds of the last subscriptions
        self.report_requested = asyncio.Event()  # cleared when it was reported
        self._nudge = asyncio.Event()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> ListenerState:
        """The current state."""
        return self._state

    @property
    def reason(self) -> str:
        """Reason for the current state, with the remedy."""
        return self._reason

    @property
    def backend_pid(self) -> int | None:
        """Server process of the connection, or None: not connected, or behind a pooler."""
        return None if self._heartbeats is None else self._backend_pid

    async def __aenter__(self) -> Self:
        """Start; connects in the background."""
        if self._task is None:
            self._state, self._reason = ListenerState.CONNECTING, "connecting"
            self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Close the connection; waiters continue by polling."""
        if self._task is None:
            return
        self._is_closing = True
        self._nudge.set()
        # Do not wait for a connection attempt or response that hangs.
        await asyncio.wait([self._task], timeout=_CLOSE_S)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def subscribe(self, queue_name: str) -> AsyncSubscription:
        """Return a subscription to a queue for one task; each waiting task needs its own. Close it when done.

        It is usable before the connection is established: it wakes once when the queue is listened to.
        """
        return self._subscribe(Place(Kind.QUEUE, queue_name))

    def subscribe_log(self, log_name: str) -> AsyncSubscription:
        """Return a subscription to an event log for one task, like `subscribe` for a queue."""
        return self._subscribe(Place(Kind.LOG, log_name))

    def add(self, subscription: AsyncSubscription | Subscription) -> None:
        """Add a subscription."""
        self._subscriptions.setdefault(subscription.place, set()).add(subscription)
        self._missing.discard(subscription.place)
        if subscription.place in self._channels:
            # Earlier notifications have only woken other subscriptions.
            subscription.wake()
        self._nudge.set()

    def remove(self, subscription: AsyncSubscription | Subscription) -> None:
        """Remove a subscription."""
        of_place = self._subscriptions.get(subscription.place, set())
        of_place.discard(subscription)
        if not of_place:
            self._subscriptions.pop(subscription.place, None)
        self._nudge.set()

    def is_reliable(self, place: Place) -> bool:
        """True if notifications of this queue or log are known to arrive. Thread-safe."""
        return place.kind in self._reliable and place in self._channels

    def fallback_poll_s(self) -> float:
        """Return the poll interval of one waiter in seconds while notifications arrive. Thread-safe."""
        waiting = sum(map(len, tuple(self._subscriptions.values())))
        return max(self._fallback_poll_s, min(_FALLBACK_MAX_S, self._fallback_poll_s * waiting))

    def _subscribe(self, place: Place) -> AsyncSubscription:
        subscription = AsyncSubscription(place, self, asyncio.Event())
        self.add(subscription)
        return subscription

    async def _run(self) -> None:
        backoff = Backoff("listener", _log.log)
        try:
            while not self._is_closing:
                try:
                    async with self._open_connection() as link:
                        await self._dispatch_notifications(link)
                except _PooledError:
                    self._lose(ListenerState.POOLED, REASONS[ListenerState.POOLED])
                    backoff.succeeded()
                    await self._pause(_POOLED_PAUSE_S)
                    continue
                except SluiceError as error:
                    if self._reliable:
                        backoff.succeeded()
                    if self._state is not ListenerState.DEAF:
                        self._lose(ListenerState.CONNECTING, str(error))
                self._lose(self._state, self._reason)
                await self._pause(backoff.next_s())
        finally:
            self._lose(ListenerState.CLOSED, "stopped")

    def _open_connection(self) -> contextlib.AbstractAsyncContextManager[ListenerConnection]:
        return connected_listener(
            self._conninfo,
            answer_s=ANSWER * self._heartbeat_s,
            connect_timeout_s=self._connect_timeout_s,
        )

    async def _dispatch_notifications(self, link: ListenerConnection) -> None:
        """Dispatch notifications until the connection fails or the listener is closed."""
        is_direct = await link.is_direct()
        if not is_direct:
            async with self._open_connection() as other:
                if await is_lent(link, other):
                    raise _PooledError
        link.connection.add_notify_handler(
            lambda notification: self._dispatch(notification.channel, notification.payload)
        )
        await link.run(calls.listen_report_requests())
        now_s = time.monotonic()
        self._missing.clear()
        self._backend_pid = link.connection.info.backend_pid if is_direct else None
        self._heartbeats = Heartbeats(
            self._heartbeat_s, is_direct, since_s=now_s, probed_at_s=now_s
        )
        await self._check(link, self._heartbeats)
        while not self._is_closing:
            await self._follow(link)
            check_at_s = self._heartbeats.check_at_s(self._expected_heartbeats())
            await self._receive(
                link.connection, min(check_at_s, self._retry_at_s) - time.monotonic()
            )
            if time.monotonic() >= self._retry_at_s:  # a log that did not exist may exist now
                self._retry_at_s = math.inf
                self._missing.clear()
            if (
                time.monotonic() >= self._heartbeats.check_at_s(self._expected_heartbeats())
                and not self._is_closing
            ):
                await self._check(link, self._heartbeats)

    def _expected_heartbeats(self) -> set[Kind]:
        """Return the kinds whose heartbeats are expected."""
        self._expected = {place.kind for place in self._subscriptions} or self._expected
        return self._expected

    async def _check(self, link: ListenerConnection, heartbeats: Heartbeats) -> None:
        """Find out why no heartbeat arrives."""
        self._other_channels.clear()
        ping = await link.run(calls.ping_listener())
        self._drain(link.connection)
        is_good = heartbeats.record_response(
            self._expected_heartbeats(),
            ping.notifier_age_s,
            time.monotonic(),
            is_own_received=ping.channel in self._other_channels,
        )
        # Logs that did not exist may exist now.
        self._missing.clear()
        if not is_good:
            self._lose(ListenerState.DEAF, REASONS[ListenerState.DEAF])
            raise ConnectionFailedError(self._reason)
        self._judge()

    async def _follow(self, link: ListenerConnection) -> None:
        """LISTEN for subscribed queues and logs, UNLISTEN for others."""
        for place in self._channels.keys() - self._subscriptions.keys():
            await self._leave(link, place)
        for place in self._subscriptions.keys() - self._channels.keys() - self._missing:
            try:
                channel = await link.run(calls.listen(place.name, place.kind.value))
            except (LogNotFoundError, PrivilegeError) as error:
                if isinstance(error, LogNotFoundError):
                    self._retry_at_s = time.monotonic() + _RETRY_S
                if place not in self._reported:
                    _log.warning('listen failed %s=%s error="%s"', place.kind, place.name, error)
                self._reported.add(place)
                self._missing.add(place)
                continue
            self._reported.discard(place)
            self._channels[place] = str(channel)
            # Earlier notifications have not reached this connection.
            self._wake(place)
        self._judge()

    async def _leave(self, link: ListenerConnection, place: Place) -> None:
        await link.run(calls.unlisten(place.name, place.kind.value))
        del self._channels[place]

    async def _receive(self, connection: psycopg.AsyncConnection[Any], timeout_s: float) -> None:
        """Dispatch notifications until a new subscription, a log that was dropped, a failure or the timeout."""
        # Notifications received with a response may be buffered already, invisible to select().
        self._drain(connection)
        with input_of(connection, lambda: self._drain(connection), self._nudge.set):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, timeout_s)):
                    await self._nudge.wait()
            self._nudge.clear()

    def _drain(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while notification := connection.pgconn.notifies():
            self._dispatch(notification.relname.decode(), notification.extra.decode())

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_closing:
                    await self._nudge.wait()
                    self._nudge.clear()

    def _dispatch(self, channel: str, payload: str) -> None:
        if channel == calls.REPORT_CHANNEL:
            self.report_requested.set()
            return
        if self._heartbeats is None:
            return
        now_s = time.monotonic()
        if channel in HEARTBEAT_CHANNELS:
            self._heartbeats.record(HEARTBEAT_CHANNELS[channel], payload, now_s)
            self._nudge.set()  # the time of the next check changes
        else:
            self._other_channels.add(channel)
            for place, listened in tuple(self._channels.items()):
                if listened == channel:
                    if payload == _DROPPED:  # `_follow` listens to a log created again
                        del self._channels[place]
                        self._nudge.set()
                    self._heartbeats.record(place.kind, payload, now_s)
                    self._wake(place, payload)
        self._judge()

    def _wake(self, place: Place, payload: str = "") -> None:
        for subscription in tuple(self._subscriptions.get(place, ())):
            subscription.wake(payload)

    def _judge(self) -> None:
        """Update the state from the heartbeats received."""
        if self._heartbeats is None:
            return
        state = self._heartbeats.state(self._expected_heartbeats())
        reason = REASONS.get(state, "connected; waiting for a heartbeat")
        self._change(state, reason, frozenset(k for k in Kind if self._heartbeats.is_alive.get(k)))

    def _lose(self, state: ListenerState, reason: str) -> None:
        """Record that there is no usable connection."""
        self._heartbeats = None
        self._channels = {}
        self._change(state, reason, frozenset())

    def _change(self, state: ListenerState, reason: str, reliable: frozenset[Kind]) -> None:
        changed, self._reliable = self._reliable ^ reliable, reliable
        is_new = state is not self._state
        self._state, self._reason = state, reason
        if is_new:
            is_good = state in (ListenerState.LISTENING, ListenerState.CLOSED)
            _log.log(
                logging.INFO if is_good else logging.WARNING,
                'listener state="%s" reason="%s"',
                state,
                reason,
            )
        # The poll interval changes: wake waiters so that they use the new one.
        for place in self._subscriptions:
            if place.kind in changed:
                self._wake(place)


class _PooledError(Exception):
    """The connection is through a pooler in transaction mode."""


class Listener:
    """`AsyncListener` for threads: it runs in its own thread, and any number of others may wait.

    See `AsyncListener` for its requirements and fallback.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        heartbeat_s: float = 5.0,
        fallback_poll_s: float = 30.0,
        connect_timeout_s: int = 10,
    ) -> None:
        """Prepare a listener; `with` starts it.

        Args:
            conninfo: As for `AsyncListener`, like the rest.
        """
        self._inner = AsyncListener(
            conninfo,
            heartbeat_s=heartbeat_s,
            fallback_poll_s=fallback_poll_s,
            connect_timeout_s=connect_timeout_s,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> ListenerState:
        """The current state."""
        return self._inner.state

    @property
    def reason(self) -> str:
        """Reason for the current state, with the remedy."""
        return self._inner.reason

    def __enter__(self) -> Self:
        """Start; connects in the background."""
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main(started)), name="pgsluice listener", daemon=True
        )
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connection; waiters continue by polling."""
        self._in_loop(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def subscribe(self, queue_name: str, *, woken: threading.Event | None = None) -> Subscription:
        """Return a subscription to a queue for one thread; each waiting thread needs its own. Close it when done.

        It is usable before the connection is established: it wakes once when the queue is listened to.

        Args:
            queue_name: The queue.
            woken: Set when a message may be available, for a thread that waits for several queues.
        """
        return self._subscribe(Place(Kind.QUEUE, queue_name), woken)

    def subscribe_log(self, log_name: str, *, woken: threading.Event | None = None) -> Subscription:
        """Return a subscription to an event log for one thread, like `subscribe` for a queue."""
        return self._subscribe(Place(Kind.LOG, log_name), woken)

    def subscribe_result(
        self, queue_name: str, msg_id: int, *, woken: threading.Event | None = None
    ) -> Subscription:
        """Return a subscription to the result of a message, like `subscribe` for a queue."""
        return self._subscribe(Place(Kind.RESULTS, queue_name), woken, msg_id)

    def add(self, subscription: Subscription) -> None:
        """Add a subscription."""
        self._in_loop(lambda: self._inner.add(subscription))

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        self._in_loop(lambda: self._inner.remove(subscription))

    def is_reliable(self, place: Place) -> bool:
        """True if notifications of this queue or log are known to arrive."""
        return self._inner.is_reliable(place)

    def fallback_poll_s(self) -> float:
        """Return the poll interval of one waiter in seconds while notifications arrive."""
        return self._inner.fallback_poll_s()

    def _subscribe(
        self, place: Place, woken: threading.Event | None, msg_id: int | None = None
    ) -> Subscription:
        subscription = Subscription(place, self, woken or threading.Event(), msg_id)
        self.add(subscription)
        return subscription

    async def _main(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._inner:
            started.set()
            await self._stop.wait()

    def _in_loop(self, step: Callable[[], None]) -> None:
        # No loop before start and after close, and no waiters to wake.
        if self._loop is not None:
            call_soon(self._loop, step)
