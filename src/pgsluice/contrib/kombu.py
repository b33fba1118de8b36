"""A transport of kombu, and so a broker of Celery, on work queues; needs `pip install 'pgsluice[celery]'`.

    from celery import Celery

    app = Celery("tasks", broker="postgresql://localhost/shop")
    app.conf.broker_transport = "pgsluice.contrib.kombu:Transport"

A message is read with a visibility timeout of `visibility_timeout` seconds, which a thread renews while the message is
unacknowledged, so tasks of any length are safe. When the process dies, its messages are redelivered after the timeout.
Celery acknowledges a task when it starts, unless `task_acks_late` is set: with it, and `task_reject_on_worker_lost`,
nothing is lost. A task with an `eta` or a `countdown` is delayed by the queue, not held by a worker. A rejected message
is dead-lettered. Exchanges are direct, topic or fanout; their bindings are stored in the database and shared by all
processes, so remote control (`celery inspect`, `revoke`) and events work. Priorities are not supported.

Options, in `broker_transport_options`: `visibility_timeout`, seconds until messages of a dead process are redelivered,
3 or more, default 60; `polling_interval`, poll interval of an empty queue in seconds without a notifier, default 1.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
import weakref
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from queue import Empty
from typing import Any

from pgsluice import connection
from pgsluice.client import Message
from pgsluice.client.calls.call import storable
from pgsluice.contrib.exchanges import TYPES, Binding, queue_name_of
from pgsluice.contrib.kombu_session import HEARTBEATS, KombuSession
from pgsluice.errors import (
    ArgumentError,
    ConnectionFailedError,
    MissingExtraError,
    QueueNotFoundError,
    RetryableError,
)

try:
    from kombu.transport import virtual
    from kombu.utils.json import dumps, loads
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"the kombu transport requires the Python package {error.name}; `pip install 'pgsluice[celery]'`"
    ) from None

_log = logging.getLogger(__name__)
_VISIBILITY_TIMEOUT_S = 60
_WAIT_S = 30.0  # of a consumer without a timeout
_QTY_MAX = 100  # per read
# Headers that Celery only shows: its representations of arguments contain NULs and lone surrogates unescaped.
_SHOWN = ("argsrepr", "kwargsrepr", "shadow")
_TRANSIENT = 1  # AMQP's delivery mode of non-persistent messages


class Channel(virtual.Channel):  # type: ignore[misc]
    """A kombu channel on work queues."""

    do_restore = False  # unacknowledged messages are redelivered, or released by `close`
    supports_fanout = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a channel; called by kombu."""
        self._no_ack: set[str] = set()
        super().__init__(*args, **kwargs)

    @property
    def session(self) -> KombuSession:
        """The session of the transport in this process.

        Raises:
            ConnectionFailedError: The channel is closed.
        """
        if self.connection is None:  # set by kombu on close
            raise ConnectionFailedError(
                "the connection of this channel was lost or closed; its unacknowledged messages are redelivered"
            )
        session: KombuSession = self.connection.session
        return session

    @property
    def active_queues(self) -> list[str]:
        """The consumed queues, without duplicates."""
        return list(dict.fromkeys(self._active_queues))

    def drain_events(self, timeout: float | None = None, callback: Any = None) -> None:  # noqa: ARG002
        """Deliver available messages, up to the consumer's prefetch limit.

        Raises:
            Empty: No message is available, or the limit is reached.
        """
        delivered = 0
        for queue_name in self.active_queues:
            room = self.qos.can_consume_max_estimate()
            if room == 0 or not self.session.is_due(queue_name):
                continue
            qty = 0
            try:
                for payload in self._payloads(queue_name, min(room or _QTY_MAX, _QTY_MAX)):
                    self.connection._deliver(payload, queue_name)  # noqa: SLF001 - like kombu's own transports
                    qty += 1
            except QueueNotFoundError:
                if queue_name not in self.session.auto_delete:
                    raise
                self._declare_again(queue_name)
            self.session.found(queue_name, qty)
            delivered += qty
        if not delivered:
            raise Empty
        self._active_queues.append(self._active_queues.pop(0))  # round robin

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> None:
        """Start to consume a queue; with `no_ack` messages are deleted on delivery."""
        if no_ack:
            self._no_ack.add(queue)
        super().basic_consume(queue, no_ack, *args, **kwargs)

    def basic_get(self, queue: str, no_ack: bool = False, **_kwargs: Any) -> Any:
        """Return a message, or None."""
        for payload in self._payloads(queue, 1, no_ack=no_ack):
            message = self.Message(payload, channel=self)
            if not no_ack:
                self.qos.append(message, message.delivery_tag)
            return message
        return None

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Delete a message, unless its claim is stale."""
        if (claim := self.session.let_go(delivery_tag)) is not None:
            queue_name, message = claim
            (settled,) = self.session.queue.delete_claimed(queue_name, [message])
            if settled.outcome == "stale":
                _log.warning(
                    "acknowledgement ignored queue=%s msg_id=%d "
                    'reason="visibility timeout expired and another consumer read the message"',
                    *(queue_name, message.msg_id),
                )
        super().basic_ack(delivery_tag, multiple)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Release a message immediately, or dead-letter it, unless its claim is stale."""
        if (claim := self.session.let_go(delivery_tag)) is not None:
            queue_name, message = claim
            if requeue:
                self.session.queue.release_claimed(queue_name, [message])
            else:
                self._reject(queue_name, message, "rejected")
        super().basic_reject(delivery_tag, requeue=False)  # with requeue kombu would send a copy

    def close(self) -> None:
        """Release unacknowledged messages."""
        if not self.closed and self._qos is not None and self.connection.is_open:
            self.session.release_deliveries(list(self._qos._delivered))  # noqa: SLF001
        super().close()

    def prepare_queue_arguments(self, arguments: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the arguments of a queue, so that `_new_queue` can report unsupported ones."""
        given = {name: value for name, value in kwargs.items() if value is not None}
        return {**(arguments or {}), **given}

    def exchange_declare(
        self,
        exchange: str | None = None,
        type: str | None = None,  # noqa: A002 - kombu's name
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Declare an exchange.

        Raises:
            ArgumentError: The exchange type is not supported.
        """
        if (type or "direct") not in TYPES:
            raise ArgumentError(
                f'exchange "{exchange}" has the type "{type}", which this transport does not support; use '
                f"{', '.join(TYPES)}"
            )
        super().exchange_declare(exchange, type, *args, **kwargs)

    def basic_publish(
        self, message: dict[str, Any], exchange: str, routing_key: str, **kwargs: Any
    ) -> None:
        """Send a message to each bound queue; without an exchange to the queue named by the routing key."""
        self._inplace_augment_message(message, exchange, routing_key)
        if not exchange:
            self._put(routing_key, message, **kwargs)
            return
        queue_names = self.session.queues_of(exchange, routing_key)
        if not queue_names and self.deadletter_queue:
            self._new_queue(self.deadletter_queue)
            queue_names = [self.deadletter_queue]
        for queue_name in queue_names:
            with contextlib.suppress(QueueNotFoundError):  # dropped concurrently, with its binding
                self._put(queue_name, message, **kwargs)

    def get_table(self, exchange: str) -> list[tuple[str, None, str]]:
        """Return the bindings of an exchange, including those of other processes."""
        return [
            (binding.routing_key, None, row.queue_name)
            for row in self.session.queue.list_topic_bindings()
            if (binding := Binding.parse(row.pattern)) and binding.exchange == exchange
        ]

    def queue_unbind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", *_: Any, **__: Any
    ) -> None:
        """Remove a binding."""
        exchange = exchange or "amq.direct"
        self.state.binding_delete(queue, exchange, routing_key)
        pattern = self._binding(queue, exchange, routing_key).pattern
        self.session.queue.unbind_topic(pattern, queue_name_of(queue))

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """Store text unencoded, readable in the queue, unless PostgreSQL cannot store it."""
        if isinstance(body, str) and "\x00" not in body:
            return body, "utf-8"
        encoded: tuple[Any, str | None] = super().encode_body(body, encoding)
        return encoded

    def _payloads(
        self, queue_name: str, qty: int, *, no_ack: bool | None = None
    ) -> Iterator[dict[str, Any]]:
        """Read messages; with `no_ack` pop them."""
        no_ack = queue_name in self._no_ack if no_ack is None else no_ack
        queue = self.session.queue
        for message in (
            queue.pop(queue_name_of(queue_name), qty)
            if no_ack
            else queue.read(queue_name_of(queue_name), self.session.visibility_timeout_s, qty)
        ):
            try:
                payload = loads(json.dumps(message.message))
                payload["properties"]["delivery_info"]["redelivered"] = message.read_ct > 1
                delivery_tag = payload["properties"]["delivery_tag"] = self._next_delivery_tag()
            except (KeyError, TypeError, ValueError) as error:
                reason = f"not a kombu message: {type(error).__name__}: {error}"
                _log.warning(
                    'invalid message queue=%s msg_id=%d error="%s"',
                    queue_name,
                    message.msg_id,
                    reason,
                )
                if not no_ack:
                    self._reject(queue_name_of(queue_name), message, reason)
                continue
            if not no_ack:
                self.session.hold(delivery_tag, (queue_name_of(queue_name), message))
            yield payload

    def _reject(self, queue_name: str, message: Message, reason: str) -> None:
        self.session.queue.reject(
            queue_name, message.msg_id, message.read_ct, reason, enqueued_at=message.enqueued_at
        )

    def _put(self, queue: str, message: dict[str, Any], **_kwargs: Any) -> None:
        body = json.loads(dumps(message))  # kombu encodes values that are not JSON, such as times
        headers = body.get("headers") or {}
        headers.update(
            (name, storable(headers[name])) for name in _SHOWN if isinstance(headers.get(name), str)
        )
        properties = message["properties"]
        if properties.get("priority"):
            self._warn(queue, "priorities ignored; use a separate queue for urgent messages")
        try:
            self.session.queue.send(queue_name_of(queue), body, delay=_due_at(message))
        except QueueNotFoundError:
            # A reply whose caller is gone; other brokers drop it too.
            if properties.get("delivery_mode") != _TRANSIENT:
                raise

    def _new_queue(
        self,
        queue: str,
        durable: bool = True,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
        **_kwargs: Any,
    ) -> None:
        if durable:
            self.session.queue.create(queue_name_of(queue))
        else:
            self.session.queue.create_unlogged(queue_name_of(queue))
        if auto_delete:
            self.session.auto_delete.add(queue)
        elif arguments:
            self._warn(queue, f"queue arguments ignored: {', '.join(sorted(arguments))}")

    def _warn(self, queue: str, text: str) -> None:
        """Log an unsupported option once per queue and process."""
        if (queue, text) not in self.session.warned:
            self.session.warned.add((queue, text))
            _log.warning('unsupported option queue=%s reason="%s"', queue, text)

    def _binding(self, queue: str, exchange: str, routing_key: str) -> Binding:
        kind = self.state.exchanges.get(exchange, {}).get("type", "direct")
        return Binding(kind, exchange, routing_key, queue in self.session.auto_delete)

    def _queue_bind(self, exchange: str, routing_key: str, _pattern: Any, queue: str) -> None:
        binding = self._binding(queue, exchange, routing_key)
        self.session.queue.bind_topic(binding.pattern, queue_name_of(queue))
        if binding.type == "fanout" and binding.is_temporary:
            # Messages sent to a killed process of the same name are obsolete.
            self._purge(queue)

    def _declare_again(self, queue: str) -> None:
        """Recreate a temporary queue that was dropped because this process did not read it for long."""
        self._new_queue(queue, durable=False, auto_delete=True)
        for binding in list(self.state.queue_bindings(queue)):
            self._queue_bind(binding.exchange, binding.routing_key, None, queue)

    def _has_queue(self, queue: str, **_kwargs: Any) -> bool:
        queue_name = queue_name_of(queue)
        return any(info.queue_name == queue_name for info in self.session.queue.list_queues())

    def _size(self, queue: str) -> int:
        return self.session.queue.metrics(queue_name_of(queue)).queue_visible_length

    def _purge(self, queue: str) -> int:
        return self.session.queue.purge_queue(queue_name_of(queue))

    def _delete(self, queue: str, *_args: Any, **_kwargs: Any) -> None:
        self.session.queue.drop_queue(queue_name_of(queue))
        self.session.forget(queue)


class Transport(virtual.Transport):  # type: ignore[misc]
    """The transport; set Celery's `broker_transport` to its dotted path."""

    Channel = Channel
    can_parse_url = True
    driver_type = "pgsluice"
    driver_name = "pgsluice"
    connection_errors = (
        *virtual.Transport.connection_errors,
        ConnectionFailedError,
        RetryableError,
    )
    channel_errors = (*virtual.Transport.channel_errors, QueueNotFoundError)
    implements = virtual.Transport.implements.extend(exchange_type=frozenset(TYPES))

    def __init__(self, client: Any, **kwargs: Any) -> None:
        """Create a transport without connecting; called by kombu.

        Raises:
            ArgumentError: The option `visibility_timeout` is out of range.
        """
        timeout_s = client.transport_options.get("visibility_timeout", _VISIBILITY_TIMEOUT_S)
        if timeout_s < HEARTBEATS:
            raise ArgumentError(
                f"visibility_timeout is {timeout_s}; use {HEARTBEATS} or more seconds"
            )
        self._visibility_timeout_s = int(timeout_s)
        self._session: KombuSession | None = None
        super().__init__(client, **kwargs)

    @property
    def session(self) -> KombuSession:
        """The session of this process, opened on first use."""
        if self._session is None or self._session.process_id != os.getpid():
            self._session = KombuSession(
                _target(self.client.hostname), self._visibility_timeout_s, self.polling_interval
            )
            weakref.finalize(self, self._session.close)  # also at interpreter exit
        return self._session

    @property
    def is_open(self) -> bool:
        """True if this process has a session."""
        return self._session is not None and self._session.process_id == os.getpid()

    def establish_connection(self) -> Any:
        """Connect."""
        _ = self.session
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        """Close the channels and the session."""
        super().close_connection(connection)
        if self._session is not None:
            self._session.close()
            self._session = None

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:  # noqa: ARG002
        """Deliver available messages, or wait for one.

        Raises:
            TimeoutError: No message arrived within the timeout.
        """
        end_s = time.monotonic() + (_WAIT_S if timeout is None else timeout)
        while True:
            with contextlib.suppress(Empty):
                self.cycle.get(self._deliver, timeout=timeout)
                return
            rest_s = end_s - time.monotonic()
            if timeout is None:
                rest_s = _WAIT_S
            elif rest_s <= 0:
                raise TimeoutError
            queues = [name for channel in self.channels for name in channel.active_queues]
            self.session.wait(queues, rest_s)

    def driver_version(self) -> str:
        """Return the version of psycopg."""
        return version("psycopg")

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:  # noqa: ARG002
        """Return the server's address without secrets, for logs."""
        return uri if include_password else _target(uri).safe


def _target(url: str | None) -> connection.Target:
    """Resolve the broker URL; `postgresql://` alone: as for every command of pgsluice."""
    return connection.resolve(None if url in (None, "postgresql://") else url)


def _due_at(message: dict[str, Any]) -> datetime | None:
    """Return a task's `eta`, if it has one."""
    eta = (message.get("headers") or {}).get("eta")
    with contextlib.suppress(ValueError):
        due_at = datetime.fromisoformat(eta or "")
        # A naive eta is left to the worker.
        return due_at if due_at.tzinfo is not None else None
    return None
