"""Waits until a work queue may have something to read: one connection for all queues of a process.

The connection listens to what a `Notifier` says. A listener trusts it no further than it proves itself: only while the
notifier's sign of life arrives are the polls of those who wait far apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from enum import StrEnum
from typing import Any, Self, TypeVar

import psycopg

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call
from pgsluice.client.calls import listeners as calls
from pgsluice.errors import ArgumentError, ConnectionFailedError, SluiceError, translate
from pgsluice.worker.pause import next_delay_s
from pgsluice.worker.subscription import AsyncSubscription, Subscription

Result = TypeVar("Result")

_log = logging.getLogger(__name__)
# In heartbeats: silence after which the connection is asked, and the time that it has to answer. Together a connection
# that is dead is found dead within two.
_SILENCE = 1.5
_ANSWER = 0.5
_CLOSE_S = 1.0


class ListenerState(StrEnum):
    """How a listener fares.

    Attributes:
        CONNECTING: There is no connection, or none that has proved itself yet. Those who wait poll.
        LISTENING: Notifications arrive. Those who wait poll rarely.
        NO_NOTIFIER: The connection is good, but nobody notifies. Those who wait poll.
        DEAF: A notifier is at work, but nothing arrives. Those who wait poll, and the listener connects anew.
        CLOSED: It was closed, or not started yet. Those who wait poll.
    """

    CONNECTING = "connecting"
    LISTENING = "listening"
    NO_NOTIFIER = "no notifier"
    DEAF = "deaf"
    CLOSED = "closed"


class AsyncListener:
    """Tell those who wait for messages when there may be some.

    It needs a connection of its own, to the server itself: behind a pooler that lends connections for a transaction
    nothing arrives. Then, or when no notifier runs, or the connection dies, it says so, in its log and in `state`, and
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
            heartbeat_s: How often the notifier gives a sign of life at least, more than 0 seconds. A connection
                on which nothing arrives is found within twice that.
            fallback_poll_s: Seconds between two polls while notifications arrive, more than 0.
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
        self._subscriptions: dict[str, set[AsyncSubscription | Subscription]] = {}
        self._channels: dict[str, str] = {}  # by queue; of the connection there is now
        self._nudge = asyncio.Event()
        self._is_closing = False
        self._heard_at_s = 0.0
        self._check_at_s = 0.0
        self._is_suspect = False
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
        subscription = AsyncSubscription(
            queue_name, self.is_reliable, self._fallback_poll_s, self.remove, asyncio.Event()
        )
        self.add(subscription)
        return subscription

    def add(self, subscription: AsyncSubscription | Subscription) -> None:
        """Wake this one too from now on."""
        self._subscriptions.setdefault(subscription.queue_name, set()).add(subscription)
        if subscription.queue_name in self._channels:
            # What was heard before this moment has woken others only.
            subscription.wake()
        self._nudge.set()

    def remove(self, subscription: AsyncSubscription | Subscription) -> None:
        """Wake this one no more."""
        of_queue = self._subscriptions.get(subscription.queue_name, set())
        of_queue.discard(subscription)
        if not of_queue:
            self._subscriptions.pop(subscription.queue_name, None)
        self._nudge.set()

    def is_reliable(self, queue_name: str) -> bool:
        """Whether what there is to read in a queue is sure to be heard of; may be asked from any thread."""
        return self._state is ListenerState.LISTENING and queue_name in self._channels

    async def _run(self) -> None:
        delay_s = 0.0
        try:
            while not self._is_closing:
                try:
                    async with self._connection() as connection:
                        await self._hear(connection)
                except SluiceError as error:
                    if self._state is ListenerState.LISTENING:
                        delay_s = 0.0
                    if self._state is not ListenerState.DEAF:
                        self._change(ListenerState.CONNECTING, str(error))
                self._channels = {}
                delay_s = next_delay_s(delay_s)
                await self._pause(delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - not all at once
        finally:
            self._channels = {}
            self._change(ListenerState.CLOSED, "it was closed")

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=None,  # it may be a pooler, which is yet to be found out
                connect_timeout=self._connect_timeout_s,
                fallback_application_name="pgsluice listener",
            )
        except psycopg.Error as error:
            raise translate(error) from error
        try:
            yield connection
        finally:
            await connection.close()

    async def _hear(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Pass on what arrives, until the connection fails or the listener is closed."""
        connection.add_notify_handler(lambda notification: self._heard(notification.channel))
        self._channels = {}
        await self._ask(connection, calls.listen(None))
        self._expect()
        while not self._is_closing:
            await self._follow(connection)
            await self._receive(connection, self._check_at_s - time.monotonic())
            if time.monotonic() >= self._check_at_s and not self._is_closing:
                await self._check(connection)

    async def _check(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Find out why nothing arrives."""
        heard_at_s = self._heard_at_s
        age_s = await self._ask(connection, calls.notifier_age())
        if self._heard_at_s != heard_at_s:
            return  # it came before the answer
        self._check_at_s = time.monotonic() + _ANSWER * self._heartbeat_s
        if age_s is None or age_s > _SILENCE * self._heartbeat_s:
            self._is_suspect = False
            self._change(
                ListenerState.NO_NOTIFIER,
                "no notifier is at work in this database; run `pgsluice notify`",
            )
        elif not self._is_suspect:
            self._is_suspect = (
                True  # a notifier that has just begun may not have given its first sign
            )
        else:
            self._change(
                ListenerState.DEAF,
                "a notifier is at work, but nothing arrives; connect to the server itself, not through a pooler in "
                "transaction mode, and see that pg_notification_queue_usage() is below 0.5",
            )
            raise ConnectionFailedError(self._reason)

    def _expect(self) -> None:
        self._heard_at_s = time.monotonic()
        self._check_at_s = self._heard_at_s + _SILENCE * self._heartbeat_s
        self._is_suspect = False

    async def _follow(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Listen to the queues that somebody waits for, and no longer to the others."""
        for queue_name in self._channels.keys() - self._subscriptions.keys():
            await self._ask(connection, calls.unlisten(queue_name))
            del self._channels[queue_name]
        for queue_name in self._subscriptions.keys() - self._channels.keys():
            channel = await self._ask(connection, calls.listen(queue_name))
            self._channels[queue_name] = str(channel)
            # What was sent before this moment has been announced to others only.
            self._wake(queue_name)

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
        while notification := connection.pgconn.notifies():
            self._heard(notification.relname.decode())

    async def _ask(self, connection: psycopg.AsyncConnection[Any], call: Call[Result]) -> Result:
        """Run a call that must be answered in time."""
        answer_s = _ANSWER * self._heartbeat_s
        with _cut_after(connection, answer_s) as cut:
            try:
                return await AsyncRunner(connection).run(call)
            except SluiceError as error:
                if not cut.is_done:
                    raise
                raise ConnectionFailedError(
                    f"the server did not answer within {answer_s:g} s; check the network between"
                ) from error

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_closing:
                    await self._nudge.wait()
                    self._nudge.clear()

    def _heard(self, channel: str) -> None:
        self._expect()
        self._change(ListenerState.LISTENING, "notifications arrive")
        for queue_name, listened in self._channels.items():
            if listened == channel:
                self._wake(queue_name)

    def _wake(self, queue_name: str) -> None:
        for subscription in self._subscriptions.get(queue_name, ()):
            subscription.wake()

    def _change(self, state: ListenerState, reason: str) -> None:
        self._reason = reason
        if state is self._state:
            return
        was_reliable = ListenerState.LISTENING in (state, self._state)
        self._state = state
        level = (
            logging.INFO
            if state in (ListenerState.LISTENING, ListenerState.CLOSED)
            else logging.WARNING
        )
        _log.log(level, "listener: %s: %s", state, reason)
        if was_reliable:
            # How often they look changes: who waits for the next look of before must wait no more.
            for queue_name in self._subscriptions:
                self._wake(queue_name)


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
        self._fallback_poll_s = fallback_poll_s
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
        subscription = Subscription(
            queue_name,
            self._inner.is_reliable,
            self._fallback_poll_s,
            lambda closed: self._in_loop(lambda: self._inner.remove(closed)),
            woken or threading.Event(),
        )
        self._in_loop(lambda: self._inner.add(subscription))
        return subscription

    def is_reliable(self, queue_name: str) -> bool:
        """Whether what there is to read in a queue is sure to be heard of."""
        return self._inner.is_reliable(queue_name)

    async def _main(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._inner:
            started.set()
            await self._stop.wait()

    def _in_loop(self, step: Callable[[], None]) -> None:
        # Before it was started and after it was closed there is no loop, and nobody to wake.
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(step)


class _Cut:
    """Whether a connection was cut because an answer took too long."""

    is_done = False


@contextlib.contextmanager
def _cut_after(connection: psycopg.AsyncConnection[Any], seconds: float) -> Iterator[_Cut]:
    """Cut a connection when the block takes longer: psycopg itself waits for an answer for ever."""
    cut = _Cut()

    def end() -> None:
        cut.is_done = True
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=os.dup(connection.fileno())) as link,
        ):
            link.shutdown(socket.SHUT_RDWR)

    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        yield cut
    finally:
        timer.cancel()
