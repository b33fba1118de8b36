"""A transport of kombu, and so a broker of Celery, over our work queues; needs `pip install 'pgsluice[celery]'`.

    from celery import Celery

    app = Celery("tasks", broker="postgresql://localhost/shop")
    app.conf.broker_transport = "pgsluice.interop.kombu:Transport"

A message is claimed for `visibility_timeout` seconds, and a thread extends that while the message is unacknowledged, so
no task is too long for its claim. When the process dies, others get its messages as soon as the claims are over. Celery
acknowledges a task when it starts, unless `task_acks_late` is set: with it, and `task_reject_on_worker_lost`, nothing
is lost. A task with an `eta` or a `countdown` is kept by the queue until then, and not by a worker. A rejected message
goes to the dead letters. There are direct and topic exchanges, no fanout, and no priorities.

Options, in `broker_transport_options`: `visibility_timeout`, seconds until others get what a dead process had, 3 or
more, default 60; `polling_interval`, seconds between two looks at an empty queue where no notifier runs, default 1.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib.metadata import version
from queue import Empty
from typing import Any

from pgsluice import connection
from pgsluice.client import Message, WorkQueue
from pgsluice.errors import (
    ArgumentError,
    ConnectionFailedError,
    MissingExtraError,
    QueueNotFoundError,
    RetryableError,
    SluiceError,
)
from pgsluice.worker.listener import Listener
from pgsluice.worker.subscription import Subscription

try:
    from kombu.transport import virtual
    from kombu.utils.json import dumps, loads
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"the transport of kombu needs the Python package {error.name}; `pip install 'pgsluice[celery]'`"
    ) from None

_log = logging.getLogger(__name__)
_HEARTBEATS = 3  # in a visibility timeout: two may fail before a claim is over
_VISIBILITY_TIMEOUT_S = 60
_WAIT_S = 30.0  # of a consumer that sets no limit
_QTY_MAX = 100  # of one claim
_TRANSIENT = 1  # AMQP's delivery mode of what may be lost

Claim = tuple[str, Message]  # a queue, and what was claimed there


class Session:
    """What one transport holds: a connection, the claims that are not settled, and the thread that extends them.

    It belongs to the process that made it: a child that was forked must not use it, nor close it.
    """

    def __init__(
        self, target: connection.Target, visibility_timeout_s: int, polling_interval_s: float
    ) -> None:
        """Connect.

        Raises:
            ConnectionFailedError: There is no connection.
        """
        self._connection = connection.connect(target, autocommit=True)
        self.process_id = os.getpid()
        self.queue = WorkQueue(self._connection)
        self.visibility_timeout_s = visibility_timeout_s
        self.auto_delete: set[str] = set()  # queues that end with their client
        self._conninfo = target.conninfo
        self._polling_interval_s = polling_interval_s
        self._claims: dict[str, Claim] = {}  # by delivery tag
        self._look_at_s: dict[str, float] = {}  # by queue, where it was empty
        self._subscriptions: dict[str, Subscription] = {}
        self._listener: Listener | None = None
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, delivery_tag: str, claim: Claim) -> None:
        """Extend a claim until it is let go."""
        self._claims[delivery_tag] = claim
        if self._thread is None:
            name = "pgsluice claims"
            self._thread = threading.Thread(target=self._extend, name=name, daemon=True)
            self._thread.start()

    def let_go(self, delivery_tag: str) -> Claim | None:
        """Extend a claim no more, and return it; None for one that is settled."""
        claim = self._claims.pop(delivery_tag, None)
        self._woken.set()  # there is room for another one
        return claim

    def give_back(self, delivery_tags: Iterable[str]) -> None:
        """Make claimed messages visible. When the server is not there, they become so in time."""
        claims = [claim for tag in delivery_tags if (claim := self.let_go(tag)) is not None]
        for queue_name, messages in _by_queue(claims).items():
            with contextlib.suppress(ConnectionFailedError, RetryableError, QueueNotFoundError):
                self.queue.release_claimed(queue_name, messages)

    def is_time_to_look(self, queue_name: str) -> bool:
        """Whether a queue may have something to read."""
        return time.monotonic() >= self._look_at_s.get(queue_name, 0.0)

    def found(self, queue_name: str, qty: int) -> None:
        """Note what a look has found: an empty queue is left alone for a while."""
        if qty > 0:
            self._look_at_s.pop(queue_name, None)
            return
        interval_s = self._polling_interval_s
        if queue_name in self._subscriptions:
            interval_s = self._subscriptions[queue_name].interval_s(interval_s)
        self._look_at_s[queue_name] = time.monotonic() + interval_s

    def wait(self, queue_names: Iterable[str], timeout_s: float) -> None:
        """Return when there may be something to read, or room for it, or after so long."""
        if self._listener is None:
            self._listener = Listener(self._conninfo).__enter__()
        for queue_name in queue_names:
            if queue_name not in self._subscriptions:
                subscription = self._listener.subscribe(queue_name, woken=self._woken)
                self._subscriptions[queue_name] = subscription
        end_s = min([time.monotonic() + timeout_s, *self._look_at_s.values()])
        if self._woken.wait(max(0.0, end_s - time.monotonic())):
            self._woken.clear()  # before the look: what comes from now on ends the next wait
            self._look_at_s.clear()

    def close(self) -> None:
        """Give back what is claimed, drop the queues that end with their client, and close the connections."""
        if self.process_id != os.getpid() or self._closed.is_set():
            return
        self._closed.set()
        self.give_back(list(self._claims))
        for queue_name in self.auto_delete:
            with contextlib.suppress(SluiceError):
                self.queue.drop_queue(queue_name)
        if self._listener is not None:
            self._listener.__exit__()
        self._connection.close()

    def _extend(self) -> None:
        while not self._closed.wait(self.visibility_timeout_s / _HEARTBEATS):
            for queue_name, messages in _by_queue(list(self._claims.values())).items():
                try:
                    outcomes = self.queue.extend_claimed(
                        queue_name, messages, self.visibility_timeout_s
                    )
                except SluiceError as error:
                    _log.warning("queue %s: claims not extended: %s", queue_name, error)
                    continue
                for lost in outcomes:
                    if lost.outcome == "stale":
                        _log.warning(
                            "queue %s: the claim of message %d is over", queue_name, lost.msg_id
                        )


class Channel(virtual.Channel):  # type: ignore[misc]
    """Messages of work queues as kombu wants them."""

    do_restore = False  # claims come back by themselves, and `close` gives them back sooner

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Called by kombu."""
        self._no_ack: set[str] = set()
        super().__init__(*args, **kwargs)

    @property
    def session(self) -> Session:
        """What the transport holds in this process."""
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
            for payload in self._payloads(queue_name, min(room or _QTY_MAX, _QTY_MAX)):
                self.connection._deliver(payload, queue_name)  # noqa: SLF001 - as kombu's own transports do
                qty += 1
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
            queue.pop(queue_name, qty)
            if no_ack
            else queue.read(queue_name, self.session.visibility_timeout_s, qty)
        ):
            try:
                payload = loads(json.dumps(message.message))
                payload["properties"]["delivery_info"]["redelivered"] = message.read_ct > 1
                delivery_tag = payload["properties"]["delivery_tag"] = self._next_delivery_tag()
            except (KeyError, TypeError, ValueError) as error:
                reason = f"no message of kombu: {type(error).__name__}: {error}"
                _log.warning("queue %s: message %d: %s", queue_name, message.msg_id, reason)
                if not no_ack:
                    self._reject(queue_name, message, reason)
                continue
            if not no_ack:
                self.session.hold(delivery_tag, (queue_name, message))
            yield payload

    def _reject(self, queue_name: str, message: Message, reason: str) -> None:
        self.session.queue.reject(queue_name, message.msg_id, message.read_ct, reason)

    def _put(self, queue: str, message: dict[str, Any], **_kwargs: Any) -> None:
        body = json.loads(dumps(message))  # kombu marks what is not JSON, such as times
        try:
            self.session.queue.send(queue, body, delay=_due_at(message))
        except QueueNotFoundError:
            # A reply that nobody waits for any more; other brokers drop it too.
            if message["properties"].get("delivery_mode") != _TRANSIENT:
                raise

    def _new_queue(
        self, queue: str, durable: bool = True, auto_delete: bool = False, **_kwargs: Any
    ) -> None:
        if durable:
            self.session.queue.create(queue)
        else:
            self.session.queue.create_unlogged(queue)
        if auto_delete:
            self.session.auto_delete.add(queue)

    def _has_queue(self, queue: str, **_kwargs: Any) -> bool:
        return any(info.queue_name == queue for info in self.session.queue.list_queues())

    def _size(self, queue: str) -> int:
        return self.session.queue.metrics(queue).queue_visible_length

    def _purge(self, queue: str) -> int:
        return self.session.queue.purge_queue(queue)

    def _delete(self, queue: str, *_args: Any, **_kwargs: Any) -> None:
        self.session.queue.drop_queue(queue)


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

    def __init__(self, client: Any, **kwargs: Any) -> None:
        """Called by kombu; nothing is connected yet.

        Raises:
            ArgumentError: The option `visibility_timeout` is out of range.
        """
        timeout_s = client.transport_options.get("visibility_timeout", _VISIBILITY_TIMEOUT_S)
        if timeout_s < _HEARTBEATS:
            raise ArgumentError(
                f"visibility_timeout is {timeout_s}; use {_HEARTBEATS} or more seconds"
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


def _by_queue(claims: Iterable[Claim]) -> dict[str, list[Message]]:
    by_queue: dict[str, list[Message]] = {}
    for queue_name, message in claims:
        by_queue.setdefault(queue_name, []).append(message)
    return by_queue
