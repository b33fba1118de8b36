"""A decorated handler: callable as the function, with methods to send to it and to wait for results."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from pgsluice.client._async.shard_runner import AsyncShardRunner
from pgsluice.client._sync.shard_runner import ShardRunner
from pgsluice.client.sources import AsyncConnectable, Connectable
from pgsluice.worker.handlers.awaiting import Awaited, wait_for_result, wait_for_result_async
from pgsluice.worker.handlers.declare import places_of
from pgsluice.worker.handlers.handler import HandlerSpec, QueueRoute
from pgsluice.worker.handlers.middleware import Middleware
from pgsluice.worker.handlers.options import SendManyOptions, SendOptions
from pgsluice.worker.handlers.sending import Sending, joined, listed
from pgsluice.worker.handlers.sending_pools import SendingPools

if TYPE_CHECKING:
    from pgsluice.worker.wakeups.subscription import Subscription

Payload = TypeVar("Payload")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Value = TypeVar("Value")


class Handler(Generic[Payload, Parameters, Result]):
    """A function that handles messages, with methods to send to it and to wait for results. Made by `App.handler`.

    Calling it calls the function directly, for tests. `pgsluice.testing` calls it as a worker does.
    """

    # Equal to the function's, so that a handler process finds the handler by this name.
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
        # For the engine: its specification, the middleware of its app, and connections of its app for sending.
        self.spec = spec
        self.middlewares = middlewares
        self.pools = pools
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
        """Encode a payload as stored: a JSON value for a queue, text for a log.

        Raises:
            PayloadError: It does not match the type of the function's parameter; its path is given.
        """
        if isinstance(self.spec.route, QueueRoute):
            return self.sending.payload.encode(payload)
        return self.sending.payload.encode_text(payload)

    def send(
        self,
        payload: Payload,
        *,
        connection: Connectable | None = None,
        **options: Unpack[SendOptions],
    ) -> int | None:
        """Send one message to this handler's queue, or one event to its log.

        Args:
            payload: The function's payload; for a batch handler a single item.
            connection: Send in its transaction: visible when that commits. A connection of psycopg; a session or
                connection of SQLAlchemy; `django.db.connection`. A pool: a separate transaction. None: the app's own
                pool, opened on first use. With shards, a connection to that of the key.
            **options: See `SendOptions`.

        Returns:
            The id of the message or the event; for a duplicate that of the first message with the key. None for a
            delayed event, which has no id yet. With shards, it is unique only within that of the key.

        Raises:
            PayloadError: The payload does not match its type, or cannot be stored; its path is given. Nothing was sent.
            ArgumentError: An option is unknown, out of range, or not supported here. Nothing was sent.
            ShardError: The connection is not to the shard of the key, or the directory of shards was not applied.
            RetryableError: Messages of the key moved to another shard for more than 30 seconds; or the directory has
                changed in the transaction of `connection`.
            QueueNotFoundError: The queue does not exist.
            LogNotFoundError: The log does not exist.
            DeduplicationOffError: A deduplication key was given without `unique`, and the queue has no deduplication.
            ConnectionFailedError: The server is unreachable, or its reply was lost: the message may have been sent.
                Sending again with the same deduplication key is idempotent.
        """
        call = self.sending.one(payload, options)  # validates before anything is connected
        sent: int | None = self.pools.routed(connection, [options.get("key")]).run(call)
        return sent

    async def send_async(
        self,
        payload: Payload,
        *,
        connection: AsyncConnectable | None = None,
        **options: Unpack[SendOptions],
    ) -> int | None:
        """Like `send`, in an event loop."""
        call = self.sending.one(payload, options)
        return await (await self.pools.async_routed(connection, [options.get("key")])).run(call)

    def send_many(
        self,
        payloads: Iterable[Payload],
        *,
        connection: Connectable | None = None,
        **options: Unpack[SendManyOptions],
    ) -> list[int]:
        """Send many in one statement, all or none; with shards, one statement for each.

        Args:
            payloads: Any number; if empty, nothing is sent.
            connection: As for `send`.
            **options: See `SendManyOptions`.

        Returns:
            Their ids, in the order of the payloads.

        Raises:
            SluiceError: As for `send`. With shards, the messages of others may have been sent.
        """
        if not (every := listed(payloads)):
            return []
        call = self.sending.many(every, options)
        runner = self.pools.routed(connection, options.get("keys") or [None] * len(every))
        if not isinstance(runner, ShardRunner):
            return runner.run(call)
        return joined(runner.run_parts(partial(self.sending.part, every, options)))

    async def send_many_async(
        self,
        payloads: Iterable[Payload],
        *,
        connection: AsyncConnectable | None = None,
        **options: Unpack[SendManyOptions],
    ) -> list[int]:
        """Like `send_many`, in an event loop."""
        if not (every := listed(payloads)):
            return []
        call = self.sending.many(every, options)
        keys = options.get("keys") or [None] * len(every)
        runner = await self.pools.async_routed(connection, keys)
        if not isinstance(runner, AsyncShardRunner):
            return await runner.run(call)
        return joined(await runner.run_parts(partial(self.sending.part, every, options)))

    def cancel(
        self, message_id: int, *, connection: Connectable | None = None, key: str | None = None
    ) -> bool:
        """Remove a message from the queue, running or not. It is neither archived nor dead-lettered.

        A message that no worker has claimed does not run. The worker that runs it notices within half of `lease_s`:
        an `async def` handler is cancelled and its transaction rolled back, a process is killed, and in a thread
        `context.lost` is set. A transaction of the handler cannot commit after the cancellation. In mode `transaction`,
        and while a transaction of the handler is committed, this waits for the end of the transaction.

        Args:
            message_id: As returned by `send`.
            connection: As for `send`.
            key: With shards, the key of the message. A message that has moved has another id.

        Returns:
            True if it was in the queue; False if it is done, dead-lettered or cancelled already.

        Raises:
            ArgumentError: The handler is for a log.
            QueueNotFoundError: The queue does not exist.
            ConnectionFailedError: As for `send`.
        """
        return self.pools.routed(connection, [key]).run(self.sending.cancel(message_id))

    async def cancel_async(
        self,
        message_id: int,
        *,
        connection: AsyncConnectable | None = None,
        key: str | None = None,
    ) -> bool:
        """Like `cancel`, in an event loop."""
        call = self.sending.cancel(message_id)
        return await (await self.pools.async_routed(connection, [key])).run(call)

    def retry_now(
        self, message_id: int, *, connection: Connectable | None = None, key: str | None = None
    ) -> bool:
        """Deliver a message now that waits for a retry or a delay; its attempts are still counted.

        Args:
            message_id: As returned by `send`.
            connection: As for `send`.
            key: As for `cancel`.

        Returns:
            False if a worker has claimed it, or it is not in the queue; `DeadLetters.redrive` sends dead letters again.

        Raises:
            SluiceError: As for `cancel`.
        """
        return self.pools.routed(connection, [key]).run(self.sending.retry_now(message_id))

    async def retry_now_async(
        self,
        message_id: int,
        *,
        connection: AsyncConnectable | None = None,
        key: str | None = None,
    ) -> bool:
        """Like `retry_now`, in an event loop."""
        call = self.sending.retry_now(message_id)
        return await (await self.pools.async_routed(connection, [key])).run(call)

    @overload
    def result(
        self: Handler[Payload, Parameters, Coroutine[Any, Any, Value]],
        msg_id: int,
        *,
        timeout_s: float,
        key: str | None = None,
    ) -> Value: ...

    @overload
    def result(self, msg_id: int, *, timeout_s: float, key: str | None = None) -> Result: ...

    def result(self, msg_id: int, *, timeout_s: float, key: str | None = None) -> Any:
        """Wait until a message is settled, and return what its handler returned.

        The handler needs the option `keep_result`. One connection of the process listens for all waits; it is opened
        on first use, and closed by `App.close`. Behind a pooler in transaction mode the wait polls at least once a
        second. It needs the role `sluice_reader`.

        Args:
            msg_id: The message, as returned by `send`. A message that was sent in a transaction must be committed.
            timeout_s: Seconds to wait, 0 or more.
            key: As for `cancel`.

        Returns:
            The value, as the return type of the function; None for `Done` or nothing.

        Raises:
            MessageFailedError: The message was dead-lettered; the error has that of its last attempt.
            ResultNotKeptError: It was deleted or never sent, or its result has expired.
            ResultTimeoutError: The timeout has passed.
            ArgumentError: The handler keeps no results, or an argument is out of range.
            QueueNotFoundError: The queue does not exist.
            PayloadError: The result does not match the return type, as one of another version of the handler.
        """
        awaited = Awaited(self.spec, msg_id, timeout_s)
        return wait_for_result(
            awaited,
            self.pools.routed(None, [key]),
            lambda woken: self.pools.listener(key).subscribe_result(
                awaited.queue_name, msg_id, woken=woken
            ),
        )

    @overload
    async def result_async(
        self: Handler[Payload, Parameters, Coroutine[Any, Any, Value]],
        msg_id: int,
        *,
        timeout_s: float,
        key: str | None = None,
    ) -> Value: ...

    @overload
    async def result_async(
        self, msg_id: int, *, timeout_s: float, key: str | None = None
    ) -> Result: ...

    async def result_async(self, msg_id: int, *, timeout_s: float, key: str | None = None) -> Any:
        """Like `result`, in an event loop."""
        awaited = Awaited(self.spec, msg_id, timeout_s)

        async def subscribe(woken: threading.Event) -> Subscription:
            listener = await asyncio.to_thread(self.pools.listener, key)  # connects once
            return listener.subscribe_result(awaited.queue_name, msg_id, woken=woken)

        runner = await self.pools.async_routed(None, [key])
        return await wait_for_result_async(awaited, runner, subscribe)
