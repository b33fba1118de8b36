"""Waits until a work queue or an event log may have something to read: one connection for all of them in a process.

The connection listens to what a `Notifier` and a `Ticker` say. A listener trusts it no further than it proves itself:
only while their signs of life arrive are the polls of those who wait far apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import psycopg

from pgsluice.backoff import Backoff
from pgsluice.client.calls import listeners as calls
from pgsluice.client.calls import logs as log_calls
from pgsluice.errors import (
    ArgumentError,
    ConnectionFailedError,
    LogNotFoundError,
    PrivilegeError,
    SluiceError,
    translate,
)
from pgsluice.worker.loops import call_soon
from pgsluice.worker.wakeups.link import Link, is_lent, linked
from pgsluice.worker.wakeups.signs import (
    ANSWER,
    REASONS,
    SIGN_CHANNELS,
    Kind,
    ListenerState,
    Place,
    Signs,
)
from pgsluice.worker.wakeups.subscription import AsyncSubscription, Subscription

__all__ = ["AsyncListener", "Listener", "ListenerState"]

_log = logging.getLogger(__name__)
_CLOSE_S = 1.0
# A pooler in between does not go away by itself; but an address may come to mean another server.
_POOLED_PAUSE_S = 300.0
# However many wait: so often at least each of them looks.
_FALLBACK_MAX_S = 600.0


class AsyncListener:
    """Tell those who wait for messages or events when there may be some.

    It needs a connection of its own, to the server itself: behind a pooler that lends connections for a transaction
    nothing arrives. Then, or when nobody notifies, or the connection dies, it says so, in its log and in `state`, and
    those who wait poll as if there were no listener.
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
            conninfo: Where to connect, of a role that may listen (`sluice_reader`).
            heartbeat_s: How often notifier and ticker give a sign of life at least, more than 0 seconds. A connection
                on which nothing arrives is found within twice that.
            fallback_poll_s: Seconds between two polls while notifications arrive, of all who wait together, more than
                0. When many wait each polls the more rarely, but once in ten minutes.
            connect_timeout_s: How long one attempt to connect may take, 2 or more seconds.
        """
        if not heartbeat_s > 0:
            raise ArgumentError(f"heartbeat_s is {heartbeat_s}; use more than 0 seconds")
        if not fallback_poll_s > 0:
            raise ArgumentError(f"fallback_poll_s is {fallback_poll_s}; use more than 0 seconds")
        self._conninfo = conninfo
        self._heartbeat_s = heartbeat_s
        self._fallback_poll_s = fallback_poll_s
        self._connect_timeout_s = connect_timeout_s
        self._state = ListenerState.CLOSED
        self._reason = "it was not started"
        self._subscriptions: dict[Place, set[AsyncSubscription | Subscription]] = {}
        self._channels: dict[Place, str] = {}  # of the connection there is now
        self._missing: set[Place] = set()  # there was no such log, or the role may not listen to it
        self._heard_others: set[str] = (
            set()
        )  # channels that nobody waits for, such as this session's own
        self._signs: Signs | None = None
        self._reliable: frozenset[Kind] = frozenset()
        self._nudge = asyncio.Event()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> ListenerState:
        """How it fares now."""
        return self._state

    @property
    def reason(self) -> str:
        """Why it fares so, with the way out; for people."""
        return self._reason

    async def __aenter__(self) -> Self:
        """Start; the connection is made in the background."""
        if self._task is None:
            self._state, self._reason = ListenerState.CONNECTING, "it is about to connect"
            self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Close the connection; who waits goes on by polling."""
        if self._task is None:
            return
        self._is_closing = True
        self._nudge.set()
        # An attempt to connect, or an answer that does not come, is not waited for.
        await asyncio.wait([self._task], timeout=_CLOSE_S)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def subscribe(self, queue_name: str) -> AsyncSubscription:
        """Return what one task waits on for a queue; each task that waits needs its own. Close it when done.

        It need not wait for the connection: as soon as the queue is listened to, the subscription says to look once.
        """
        return self._subscribe(Place(Kind.QUEUE, queue_name))

    def subscribe_log(self, log_name: str) -> AsyncSubscription:
        """Return what one task waits on for an event log, as `subscribe` does for a queue."""
        return self._subscribe(Place(Kind.LOG, log_name))

    def add(self, subscription: AsyncSubscription | Subscription) -> None:
        """Wake this one too from now on."""
        self._subscriptions.setdefault(subscription.place, set()).add(subscription)
        self._missing.discard(subscription.place)
        if subscription.place in self._channels:
            # What was heard before this moment has woken others only.
            subscription.wake()
        self._nudge.set()

    def remove(self, subscription: AsyncSubscription | Subscription) -> None:
        """Wake this one no more."""
        of_place = self._subscriptions.get(subscription.place, set())
        of_place.discard(subscription)
        if not of_place:
            self._subscriptions.pop(subscription.place, None)
        self._nudge.set()

    def is_reliable(self, place: Place) -> bool:
        """Whether what there is to read in a place is sure to be heard of; may be asked from any thread."""
        return place.kind in self._reliable and place in self._channels

    def fallback_poll_s(self) -> float:
        """Seconds between two polls of one who waits, while notifications arrive; may be asked from any thread."""
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
                    async with self._linked() as link:
                        await self._hear(link)
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
            self._lose(ListenerState.CLOSED, "it was closed")

    def _linked(self) -> contextlib.AbstractAsyncContextManager[Link]:
        return linked(
            self._conninfo,
            answer_s=ANSWER * self._heartbeat_s,
            connect_timeout_s=self._connect_timeout_s,
        )

    async def _hear(self, link: Link) -> None:
        """Pass on what arrives, until the connection fails or the listener is closed."""
        is_direct = await link.is_direct()
        if not is_direct:
            async with self._linked() as other:
                if await is_lent(link, other):
                    raise _PooledError
        link.connection.add_notify_handler(lambda heard: self._heard(heard.channel, heard.payload))
        now_s = time.monotonic()
        self._missing.clear()
        self._signs = Signs(self._heartbeat_s, is_direct, since_s=now_s, asked_at_s=now_s)
        await self._check(link, self._signs)
        while not self._is_closing:
            await self._follow(link)
            check_at_s = self._signs.check_at_s(self._wanted())
            await self._receive(link.connection, check_at_s - time.monotonic())
            if time.monotonic() >= self._signs.check_at_s(self._wanted()) and not self._is_closing:
                await self._check(link, self._signs)

    def _wanted(self) -> set[Kind]:
        """Whose signs of life are waited for."""
        return {place.kind for place in self._subscriptions} or {Kind.QUEUE}

    async def _check(self, link: Link, signs: Signs) -> None:
        """Find out why nothing arrives."""
        self._heard_others.clear()
        ping = await link.ask(calls.ping_listener())
        self._drain(link.connection)
        is_good = signs.answered(
            self._wanted(),
            ping.notifier_age_s,
            time.monotonic(),
            is_own_heard=ping.channel in self._heard_others,
        )
        # What was not there may be by now.
        self._missing.clear()
        if not is_good:
            self._lose(ListenerState.DEAF, REASONS[ListenerState.DEAF])
            raise ConnectionFailedError(self._reason)
        self._judge()

    async def _follow(self, link: Link) -> None:
        """Listen to what somebody waits for, and no longer to the rest."""
        for place in self._channels.keys() - self._subscriptions.keys():
            await self._leave(link, place)
        for place in self._subscriptions.keys() - self._channels.keys() - self._missing:
            try:
                if place.kind is Kind.QUEUE:
                    channel = await link.ask(calls.listen(place.name))
                else:
                    channel = await link.ask(log_calls.listen_log(place.name))
            except (LogNotFoundError, PrivilegeError) as error:
                _log.warning("listener: %s %s: %s", place.kind, place.name, error)
                self._missing.add(place)
                continue
            self._channels[place] = str(channel)
            # What was sent before this moment has been announced to others only.
            self._wake(place)
        self._judge()

    async def _leave(self, link: Link, place: Place) -> None:
        try:
            if place.kind is Kind.QUEUE:
                await link.ask(calls.unlisten(place.name))
            else:
                await link.ask(log_calls.unlisten_log(place.name))
        except LogNotFoundError:
            pass  # nothing comes on its channel any more
        del self._channels[place]

    async def _receive(self, connection: psycopg.AsyncConnection[Any], timeout_s: float) -> None:
        """Wait until something arrives, somebody subscribes or the time is over; take in what arrived."""
        # What came with an answer may be in the buffers already, where no select sees it.
        self._drain(connection)
        loop = asyncio.get_running_loop()
        loop.add_reader(connection.fileno(), self._nudge.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, timeout_s)):
                    await self._nudge.wait()
        finally:
            loop.remove_reader(connection.fileno())
        self._nudge.clear()
        try:
            connection.pgconn.consume_input()
        except psycopg.Error as error:
            raise translate(error) from error
        self._drain(connection)

    def _drain(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while heard := connection.pgconn.notifies():
            self._heard(heard.relname.decode(), heard.extra.decode())

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_closing:
                    await self._nudge.wait()
                    self._nudge.clear()

    def _heard(self, channel: str, payload: str) -> None:
        if self._signs is None:
            return
        now_s = time.monotonic()
        if channel in SIGN_CHANNELS:
            self._signs.heard(SIGN_CHANNELS[channel], payload, now_s)
        else:
            self._heard_others.add(channel)
            for place, listened in self._channels.items():
                if listened == channel:
                    self._signs.heard(place.kind, payload, now_s)
                    self._wake(place)
        self._judge()

    def _wake(self, place: Place) -> None:
        for subscription in self._subscriptions.get(place, ()):
            subscription.wake()

    def _judge(self) -> None:
        """Say how it fares by what was heard."""
        if self._signs is None:
            return
        state = self._signs.state(self._wanted())
        reason = REASONS.get(state, "it is connected, and waits for a sign of life")
        self._change(state, reason, frozenset(k for k in Kind if self._signs.is_alive.get(k)))

    def _lose(self, state: ListenerState, reason: str) -> None:
        """There is no connection any more, or none that is good."""
        self._signs = None
        self._channels = {}
        self._change(state, reason, frozenset())

    def _change(self, state: ListenerState, reason: str, reliable: frozenset[Kind]) -> None:
        changed, self._reliable = self._reliable ^ reliable, reliable
        is_new = state is not self._state
        self._state, self._reason = state, reason
        if is_new:
            is_good = state in (ListenerState.LISTENING, ListenerState.CLOSED)
            _log.log(
                logging.INFO if is_good else logging.WARNING, "listener: %s: %s", state, reason
            )
        # How often they look changes: who waits for the next look of before must wait no more.
        for place in self._subscriptions:
            if place.kind in changed:
                self._wake(place)


class _PooledError(Exception):
    """A pooler in transaction mode is between."""


class Listener:
    """`AsyncListener` for threads: it runs in one of its own, and any number of others may wait.

    See there for what it needs, and what it does when nothing arrives.
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
            conninfo: As for `AsyncListener`, as are the others.
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
        """How it fares now."""
        return self._inner.state

    @property
    def reason(self) -> str:
        """Why it fares so, with the way out; for people."""
        return self._inner.reason

    def __enter__(self) -> Self:
        """Start; the connection is made in the background."""
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main(started)), name="pgsluice listener", daemon=True
        )
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connection; who waits goes on by polling."""
        self._in_loop(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    def subscribe(self, queue_name: str, *, woken: threading.Event | None = None) -> Subscription:
        """Return what one thread waits on for a queue; each thread that waits needs its own. Close it when done.

        It need not wait for the connection: as soon as the queue is listened to, the subscription says to look once.

        Args:
            queue_name: The queue.
            woken: Set when there may be something to read, for a thread that waits for several queues at once.
        """
        return self._subscribe(Place(Kind.QUEUE, queue_name), woken)

    def subscribe_log(self, log_name: str, *, woken: threading.Event | None = None) -> Subscription:
        """Return what one thread waits on for an event log, as `subscribe` does for a queue."""
        return self._subscribe(Place(Kind.LOG, log_name), woken)

    def add(self, subscription: Subscription) -> None:
        """Wake this one too from now on."""
        self._in_loop(lambda: self._inner.add(subscription))

    def remove(self, subscription: Subscription) -> None:
        """Wake this one no more."""
        self._in_loop(lambda: self._inner.remove(subscription))

    def is_reliable(self, place: Place) -> bool:
        """Whether what there is to read in a place is sure to be heard of."""
        return self._inner.is_reliable(place)

    def fallback_poll_s(self) -> float:
        """Seconds between two polls of one who waits, while notifications arrive."""
        return self._inner.fallback_poll_s()

    def _subscribe(self, place: Place, woken: threading.Event | None) -> Subscription:
        subscription = Subscription(place, self, woken or threading.Event())
        self.add(subscription)
        return subscription

    async def _main(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._inner:
            started.set()
            await self._stop.wait()

    def _in_loop(self, step: Callable[[], None]) -> None:
        # Before it was started and after it was closed there is no loop, and nobody to wake.
        if self._loop is not None:
            call_soon(self._loop, step)
