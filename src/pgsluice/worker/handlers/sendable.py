"""A handler as its module sees it: the function still, and what sends messages to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, ParamSpec, TypeVar

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice.worker.handlers.declare import places_of
from pgsluice.worker.handlers.handler import HandlerSpec, QueueRoute
from pgsluice.worker.handlers.middleware import Middleware
from pgsluice.worker.handlers.sending import Sending, all_prioritised, delay_of, listed, prioritised
from pgsluice.worker.handlers.sending_pools import SendingPools

Payload = TypeVar("Payload")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Handler(Generic[Payload, Parameters, Result]):
    """A function that handles messages, and what sends them to it. `App.handler` makes it.

    Called, it is the function, as a test may want it.

    Attributes:
        spec: What the runtime knows of it.
        sending: What is stored of what is sent to it.
        middlewares: What its app calls around it.
    """

    # The module's name for it is also that of the function, so a process of its own finds it by this name.
    __module__: str
    __qualname__: str

    def __init__(
        self,
        pools: SendingPools,
        spec: HandlerSpec,
        function: Callable[Parameters, Result],
        sending: Sending,
        middlewares: list[Middleware],
    ) -> None:
        functools.update_wrapper(self, function)
        self.spec = spec
        self.middlewares = middlewares
        self._pools = pools
        self._function = function
        self.sending = sending

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Call the function."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<handler {self.spec.name!r} of {', '.join(places_of(self.spec.route).values())}>"

    def __reduce__(self) -> str:
        return self.__qualname__

    def encode(self, payload: Payload) -> Any:
        """Make what is stored of a payload: a JSON value for a queue, text for a log.

        Raises:
            PayloadError: It is not of the type of the function's parameter; the place is named.
        """
        if isinstance(self.spec.route, QueueRoute):
            return self.sending.payload.encode(payload)
        return self.sending.payload.encode_text(payload)

    def send(
        self,
        payload: Payload,
        *,
        connection: Connection[Any] | ConnectionPool[Any] | None = None,
        delay_s: int | None = None,
        at: datetime | None = None,
        key: str | None = None,
        priority: int | None = None,
        headers: dict[str, Any] | None = None,
        deduplication_key: str | None = None,
        event_type: str | None = None,
    ) -> int | None:
        """Send one message to this handler: into its queue, or as an event into its log.

        Args:
            payload: What the function takes; for a handler of batches one of what it takes a list of.
            connection: Sends as part of its transaction: there after its commit, and only then. Of SQLAlchemy or Django
                the psycopg connection below. A pool: a transaction of its own. None: the app's own pool, which is
                opened when it is first needed.
            delay_s: Whole seconds until it may be handled, 0 or more. None: at once.
            at: The time from which on it may be handled, with a time zone, instead.
            key: What it is kept in order by: PGMQ's group of the message (header `x-pgmq-group`); `ev_extra1` of an
                event, which a share group with keys looks at unless it was told otherwise.
            priority: Of a message in a queue with priorities (see `WorkQueue.set_queue_limits`): 1 is the most urgent.
                None: the middle one.
            headers: A JSON object beside the payload; for an event texts by the names `ev_extra1` to `ev_extra4`.
            deduplication_key: For queues: one whose key was sent within the queue's window is not stored again. See
                `WorkQueue.send`.
            event_type: For logs: the type of the event. None: the one that this handler is for, if it is only one.

        Returns:
            The id of the message or the event: with a deduplication key that of the first one sent with it. None for
            an event that waits for its time, and has no id yet.

        Raises:
            PayloadError: The payload is not of its type, or cannot be stored; the place is named. Nothing was sent.
            ArgumentError: An option is out of range, or is not one of this place. Nothing was sent.
            QueueNotFoundError: There is no such queue.
            LogNotFoundError: There is no such log.
            DeduplicationOffError: There is a deduplication key, and the queue has no window.
            ConnectionFailedError: The server cannot be reached, or its reply was lost: then it may have been sent or
                not. Sent again with the same deduplication key, it is stored once.
        """
        call = self.sending.one(
            payload,
            delay=delay_of(delay_s, at),
            key=key,
            headers=prioritised(headers, priority),
            deduplication_key=deduplication_key,
            event_type=event_type,
        )
        sent: int | None = self._pools.runner(connection).run(call)
        return sent

    async def send_async(
        self,
        payload: Payload,
        *,
        connection: AsyncConnection[Any] | AsyncConnectionPool[Any] | None = None,
        delay_s: int | None = None,
        at: datetime | None = None,
        key: str | None = None,
        priority: int | None = None,
        headers: dict[str, Any] | None = None,
        deduplication_key: str | None = None,
        event_type: str | None = None,
    ) -> int | None:
        """As `send`, in an event loop."""
        call = self.sending.one(
            payload,
            delay=delay_of(delay_s, at),
            key=key,
            headers=prioritised(headers, priority),
            deduplication_key=deduplication_key,
            event_type=event_type,
        )
        return await (await self._pools.async_runner(connection)).run(call)

    def send_many(
        self,
        payloads: Iterable[Payload],
        *,
        connection: Connection[Any] | ConnectionPool[Any] | None = None,
        delay_s: int | None = None,
        at: datetime | None = None,
        keys: Sequence[str | None] | None = None,
        priority: int | None = None,
        headers: Sequence[dict[str, Any] | None] | None = None,
        deduplication_keys: Sequence[str | None] | None = None,
        event_type: str | None = None,
    ) -> list[int]:
        """Send many at once, all or none, in one statement.

        Args:
            payloads: Any number; without any nothing is sent.
            connection: As for `send`, as are all that are not said here.
            delay_s: For queues only, and for all of them; as are `at` and `priority`.
            keys: One for each payload, None for none; or None.
            headers: As `keys`.
            deduplication_keys: As `keys`.

        Returns:
            Their ids, in the order of the payloads.

        Raises:
            SluiceError: As for `send`.
        """
        wanted = listed(payloads)
        if not wanted:
            return []
        call = self.sending.many(
            wanted,
            delay=delay_of(delay_s, at),
            keys=keys,
            headers=all_prioritised(headers, priority, len(wanted)),
            deduplication_keys=deduplication_keys,
            event_type=event_type,
        )
        return self._pools.runner(connection).run(call)

    async def send_many_async(
        self,
        payloads: Iterable[Payload],
        *,
        connection: AsyncConnection[Any] | AsyncConnectionPool[Any] | None = None,
        delay_s: int | None = None,
        at: datetime | None = None,
        keys: Sequence[str | None] | None = None,
        priority: int | None = None,
        headers: Sequence[dict[str, Any] | None] | None = None,
        deduplication_keys: Sequence[str | None] | None = None,
        event_type: str | None = None,
    ) -> list[int]:
        """As `send_many`, in an event loop."""
        wanted = listed(payloads)
        if not wanted:
            return []
        call = self.sending.many(
            wanted,
            delay=delay_of(delay_s, at),
            keys=keys,
            headers=all_prioritised(headers, priority, len(wanted)),
            deduplication_keys=deduplication_keys,
            event_type=event_type,
        )
        return await (await self._pools.async_runner(connection)).run(call)
