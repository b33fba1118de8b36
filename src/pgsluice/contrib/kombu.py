"""A transport of kombu, and so a broker of Celery, over our work queues; needs `pip install 'pgsluice[celery]'`.

    from celery import Celery

    app = Celery("tasks", broker="postgresql://localhost/shop")
    app.conf.broker_transport = "pgsluice.contrib.kombu:Transport"

A message is claimed for `visibility_timeout` seconds, and a thread extends that while the message is unacknowledged, so
no task is too long for its claim. When the process dies, others get its messages as soon as the claims are over. Celery
acknowledges a task when it starts, unless `task_acks_late` is set: with it, and `task_reject_on_worker_lost`, nothing
is lost. A task with an `eta` or a `countdown` is kept by the queue until then, and not by a worker. A rejected message
goes to the dead letters. Exchanges are direct, topic or fanout; their bindings are kept in the database, so that all
processes share them, and remote control (`celery inspect`, `revoke`) and events work. There are no priorities.

Options, in `broker_transport_options`: `visibility_timeout`, seconds until others get what a dead process had, 3 or
more, default 60; `polling_interval`, seconds between two looks at an empty queue where no notifier runs, default 1.
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
from pgsluice.contrib.exchanges import TYPES, Binding, queue_name_of
from pgsluice.contrib.kombu_session import HEARTBEATS, Session
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
        f"the transport of kombu needs the Python package {error.name}; `pip install 'pgsluice[celery]'`"
    ) from None

_log = logging.getLogger(__name__)
_VISIBILITY_TIMEOUT_S = 60
_WAIT_S = 30.0  # of a consumer that sets no limit
_QTY_MAX = 100  # of one claim
_TRANSIENT = 1  # AMQP's delivery mode of what may be lost


class Channel(virtual.Channel):  # type: ignore[misc]
    """Messages of work queues as kombu wants them."""

    do_restore = False  # claims come back by themselves, and `close` gives them back sooner
    supports_fanout = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Called by kombu."""
        self._no_ack: set[str] = set()
        super().__init__(*args, **kwargs)

    @property
    def session(self) -> Session:
        """What the transport holds in this process.

        Raises:
            ConnectionFailedError: The channel is closed.
        """
        if self.connection is None:  # as kombu leaves it
            raise ConnectionFailedError(
                "the connection of this channel was lost or closed; its unacknowledged messages are redelivered"
            )
        session: Session = self.connection.session
        return session

    @property
    def active_queues(self) -> list[str]:
        """The queues that are consumed, each once."""
        return list(dict.fromkeys(self._active_queues))

    def drain_events(self, timeout: float | None = None, callback: Any = None) -> None:  # noqa: ARG002
        """Deliver what there is to read, as much as the consumer has room for.

        Raises:
            Empty: There is nothing, or no room.
        """
        delivered = 0
        for queue_name in self.active_queues:
            room = self.qos.can_consume_max_estimate()
            if room == 0 or not self.session.is_time_to_look(queue_name):
                continue
            qty = 0
            try:
                for payload in self._payloads(queue_name, min(room or _QTY_MAX, _QTY_MAX)):
                    self.connection._deliver(payload, queue_name)  # noqa: SLF001 - as kombu's own transports do
                    qty += 1
            except QueueNotFoundError:
                if queue_name not in self.session.auto_delete:
                    raise
                self._declare_again(queue_name)
            self.session.found(queue_name, qty)
            delivered += qty
        if not delivered:
            raise Empty
        self._active_queues.append(self._active_queues.pop(0))  # the next time another one is first

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> None:
        """Begin to consume a queue; with `no_ack` a message is gone when it is delivered."""
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
        """Delete a message, if its claim is still current."""
        if (claim := self.session.let_go(delivery_tag)) is not None:
            queue_name, message = claim
            (settled,) = self.session.queue.delete_claimed(queue_name, [message])
            if settled.outcome == "stale":
                _log.warning(
                    "queue %s: message %d was claimed by another consumer before this one was done with it",
                    *(queue_name, message.msg_id),
                )
        super().basic_ack(delivery_tag, multiple)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Make a message visible at once, or move it to the dead letters, if its claim is still current."""
        if (claim := self.session.let_go(delivery_tag)) is not None:
            queue_name, message = claim
            if requeue:
                self.session.queue.release_claimed(queue_name, [message])
            else:
                self._reject(queue_name, message, "rejected")
        super().basic_reject(delivery_tag, requeue=False)  # kombu would send it anew

    def close(self) -> None:
        """Give back what is not acknowledged."""
        if not self.closed and self._qos is not None and self.connection.is_open:
            self.session.give_back(list(self._qos._delivered))  # noqa: SLF001
        super().close()

    def prepare_queue_arguments(self, arguments: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the arguments of a queue, so that `_new_queue` can name those without effect."""
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
            ArgumentError: There are no exchanges of this type.
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
        """Send a message to each queue that is bound; to the queue itself if there is no exchange."""
        self._inplace_augment_message(message, exchange, routing_key)
        if not exchange:
            self._put(routing_key, message, **kwargs)
            return
        queue_names = self.session.queues_of(exchange, routing_key)
        if not queue_names and self.deadletter_queue:
            self._new_queue(self.deadletter_queue)
            queue_names = [self.deadletter_queue]
        for queue_name in queue_names:
            with contextlib.suppress(QueueNotFoundError):  # dropped since, with its binding
                self._put(queue_name, message, **kwargs)

    def get_table(self, exchange: str) -> list[tuple[str, None, str]]:
        """Return the bindings of an exchange, those of other processes included."""
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
        """Leave text as it is: people can read it in the queue."""
        if isinstance(body, str):
            return body, "utf-8"
        encoded: tuple[Any, str | None] = super().encode_body(body, encoding)
        return encoded

    def _payloads(
        self, queue_name: str, qty: int, *, no_ack: bool | None = None
    ) -> Iterator[dict[str, Any]]:
        """Claim messages; with `no_ack` take them out."""
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
                reason = f"no message of kombu: {type(error).__name__}: {error}"
                _log.warning("queue %s: message %d: %s", queue_name, message.msg_id, reason)
                if not no_ack:
                    self._reject(queue_name_of(queue_name), message, reason)
                continue
            if not no_ack:
                self.session.hold(delivery_tag, (queue_name_of(queue_name), message))
            yield payload

    def _reject(self, queue_name: str, message: Message, reason: str) -> None:
        self.session.queue.reject(queue_name, message.msg_id, message.read_ct, reason)

    def _put(self, queue: str, message: dict[str, Any], **_kwargs: Any) -> None:
        body = json.loads(dumps(message))  # kombu marks what is not JSON, such as times
        properties = message["properties"]
        if properties.get("priority"):
            self._warn(queue, "ignored priorities; send what is urgent to a queue of its own")
        try:
            self.session.queue.send(queue_name_of(queue), body, delay=_due_at(message))
        except QueueNotFoundError:
            # A reply that nobody waits for any more; other brokers drop it too.
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
            self._warn(queue, f"ignored queue arguments: {', '.join(sorted(arguments))}")

    def _warn(self, queue: str, text: str) -> None:
        """Log what has no effect, once for each queue and process."""
        if (queue, text) not in self.session.warned:
            self.session.warned.add((queue, text))
            _log.warning("queue %s: %s", queue, text)

    def _binding(self, queue: str, exchange: str, routing_key: str) -> Binding:
        kind = self.state.exchanges.get(exchange, {}).get("type", "direct")
        return Binding(kind, exchange, routing_key, queue in self.session.auto_delete)

    def _queue_bind(self, exchange: str, routing_key: str, _pattern: Any, queue: str) -> None:
        binding = self._binding(queue, exchange, routing_key)
        self.session.queue.bind_topic(binding.pattern, queue_name_of(queue))
        if binding.type == "fanout" and binding.is_temporary:
            # What was sent to a process of this name that was killed is not for this one.
            self._purge(queue)

    def _declare_again(self, queue: str) -> None:
        """Make a temporary queue that was dropped because this process did not read it for long."""
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
    """The transport; its dotted path is what `broker_transport` of Celery names."""

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
        """Called by kombu; nothing is connected yet.

        Raises:
            ArgumentError: The option `visibility_timeout` is out of range.
        """
        timeout_s = client.transport_options.get("visibility_timeout", _VISIBILITY_TIMEOUT_S)
        if timeout_s < HEARTBEATS:
            raise ArgumentError(
                f"visibility_timeout is {timeout_s}; use {HEARTBEATS} or more seconds"
            )
        self._visibility_timeout_s = int(timeout_s)
        self._session: Session | None = None
        super().__init__(client, **kwargs)

    @property
    def session(self) -> Session:
        """What is held in this process; connected when there is none."""
        if self._session is None or self._session.process_id != os.getpid():
            self._session = Session(
                _target(self.client.hostname), self._visibility_timeout_s, self.polling_interval
            )
            weakref.finalize(self, self._session.close)  # at the end of the program, too
        return self._session

    @property
    def is_open(self) -> bool:
        """Whether something is held in this process."""
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
        """Deliver what there is to read; wait for it, if there is nothing.

        Raises:
            TimeoutError: There was nothing for so many seconds.
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
        """The version of psycopg."""
        return version("psycopg")

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:  # noqa: ARG002
        """The place without its secrets, for logs."""
        return uri if include_password else _target(uri).safe


def _target(url: str | None) -> connection.Target:
    """Where the URL of the broker leads; `postgresql://` alone: as for every command of pgsluice."""
    return connection.resolve(None if url in (None, "postgresql://") else url)


def _due_at(message: dict[str, Any]) -> datetime | None:
    """When Celery wants a task to run, if it says so."""
    eta = (message.get("headers") or {}).get("eta")
    with contextlib.suppress(ValueError):
        due_at = datetime.fromisoformat(eta or "")
        # Without a zone it is the worker's own affair.
        return due_at if due_at.tzinfo is not None else None
    return None
