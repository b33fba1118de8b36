"""Build the calls that send to a handler. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pgsluice.client.calls import (
    Call,
    deduplication,
    delayed,
    pgq,
    producing,
    reading,
)
from pgsluice.client.calls.arguments import one_per, require_options, several, whole, zoned_time
from pgsluice.client.headers import KEY_HEADER, message_headers
from pgsluice.client.log_records import NewEvent
from pgsluice.client.payload_type import PayloadType
from pgsluice.client.unique import Unique, checked_unique
from pgsluice.errors import ArgumentError
from pgsluice.worker.handlers.handler import ConsumerRoute, GroupRoute, QueueRoute, Route
from pgsluice.worker.handlers.options import SendManyOptions, SendOptions

# Options of `send_many` with one value per payload.
_PER_PAYLOAD = ("keys", "headers", "deduplication_keys")
_EXTRAS = ("ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")


@dataclass(frozen=True, slots=True)
class Sending:
    """Encodes payloads for the queue or log of a handler.

    Attributes:
        handler_name: Name of the handler, for errors.
        route: Queue or log of the handler.
        payload: Payload type.
        unique: Deduplication that the handler declares, or None.
    """

    handler_name: str
    route: Route
    payload: PayloadType
    unique: Unique | None = None

    def one(self, payload: Any, options: SendOptions) -> Call[Any]:
        """Return the call that sends one message or event.

        Raises:
            PayloadError: The payload does not match its type, or cannot be stored.
            ArgumentError: An option is unknown, out of range, or not supported here.
        """
        require_options(options, SendOptions.__annotations__, "send")
        delay = _delay_of(options)
        if isinstance(self.route, QueueRoute):
            message, headers = self._message(payload, options)
            unique = self._unique(options)
            key = _unique_key(options.get("deduplication_key"), unique, payload, message)
            after = options.get("after")
            return deduplication.send(
                self.route.queue_name,
                message,
                headers=headers,
                delay=delay,
                deduplication_key=key,
                unique=unique,
                after=None if after is None else _by_queue(after, self.route.queue_name),
                after_failure=options.get("after_failure"),
            )
        event = self._event(self.route, payload, options)
        if delay is None:
            return pgq.insert_event(self.route.log_name, **event._asdict())
        return delayed.insert_delayed_event(self.route.log_name, delay=delay, **event._asdict())

    def many(self, payloads: Sequence[Any], options: SendManyOptions) -> Call[list[int]]:
        """Return the call that sends one or more messages or events.

        Raises:
            PayloadError: As for `one`, with the position of the payload.
            ArgumentError: As for `one`; or the number of keys or headers differs.
        """
        require_options(options, SendManyOptions.__annotations__, "send_many")
        delay, qty = _delay_of(options), len(payloads)
        keys = _as_many(options.get("keys"), "keys", qty)
        headers = _as_many(options.get("headers"), "headers", qty)
        each: list[SendOptions] = [
            {
                "key": key,
                "headers": of_one,
                "priority": options.get("priority"),
                "event_type": options.get("event_type"),
            }
            for key, of_one in zip(keys, headers, strict=True)
        ]
        paths = [f"payloads[{position}]" for position in range(qty)]
        deduplication_keys = options.get("deduplication_keys")
        if isinstance(self.route, QueueRoute):
            messages = list(map(self._message, payloads, each, paths))
            all_headers = [of_one for _, of_one in messages]
            unique = self._unique(options)
            if unique is not None:
                given = _as_many(deduplication_keys, "deduplication_keys", qty)
                deduplication_keys = [
                    _unique_key(key, unique, payload, message)
                    for key, payload, (message, _) in zip(given, payloads, messages, strict=True)
                ]
            return deduplication.send_batch(
                self.route.queue_name,
                [message for message, _ in messages],
                headers=all_headers if any(all_headers) else None,
                delay=delay,
                deduplication_keys=deduplication_keys,
                unique=unique,
            )
        self._refuse(
            deduplication_keys=deduplication_keys, delay_s=delay, unique=options.get("unique")
        )
        route = self.route
        events = [self._event(route, *one) for one in zip(payloads, each, paths, strict=True)]
        return producing.insert_events(route.log_name, events)

    def _unique(self, options: SendOptions | SendManyOptions) -> Unique | None:
        given = options.get("unique")
        return self.unique if given is None else checked_unique(given)

    def part(
        self, payloads: Sequence[Any], options: SendManyOptions, positions: Sequence[int]
    ) -> Call[list[int]]:
        """Return the call that sends some of the payloads of `many`, by position."""
        of_part: dict[str, Any] = dict(options)
        for name in _PER_PAYLOAD:
            if (values := of_part.get(name)) is not None:
                of_part[name] = [values[position] for position in positions]
        chosen = [payloads[position] for position in positions]
        return self.many(chosen, cast("SendManyOptions", of_part))

    def cancel(self, message_id: int) -> Call[bool]:
        """Return the call that removes a message from the queue.

        Raises:
            ArgumentError: The handler is for a log, or the id is not a whole number.
        """
        return reading.delete(self._queue("cancel"), message_id)

    def retry_now(self, message_id: int) -> Call[bool]:
        """Return the call that makes a waiting message visible.

        Raises:
            ArgumentError: As for `cancel`.
        """
        return reading.retry_now(self._queue("retry_now"), message_id)

    def _queue(self, verb: str) -> str:
        if isinstance(self.route, QueueRoute):
            return self.route.queue_name
        raise ArgumentError(
            f"handler {self.handler_name!r} is for a log, whose events cannot be changed; {verb}() is for queues"
        )

    def _message(
        self, payload: Any, options: SendOptions, path: str = "payload"
    ) -> tuple[Any, dict[str, Any] | None]:
        """Return the message and headers that a queue stores for a payload."""
        self._refuse(event_type=options.get("event_type"))
        message = self.payload.encode(payload, path)
        return message, _headers(options)

    def _event(
        self,
        route: GroupRoute | ConsumerRoute,
        payload: Any,
        options: SendOptions,
        path: str = "payload",
    ) -> NewEvent:
        """Return the event that a log stores for a payload."""
        self._refuse(
            deduplication_key=options.get("deduplication_key"),
            unique=options.get("unique"),
            after=options.get("after"),
            priority=options.get("priority"),
        )
        extras = _headers(options, "ev_extra1") or {}
        if unknown := sorted(extras.keys() - set(_EXTRAS)):
            raise ArgumentError(f"an event has no header {unknown[0]!r}; use {', '.join(_EXTRAS)}")
        return NewEvent(
            self._event_type(route, options.get("event_type")),
            self.payload.encode_text(payload, path),
            *(extras.get(name) for name in _EXTRAS),
        )

    def scheduled(self, payload: Any, options: SendOptions) -> dict[str, Any]:
        """Return the arguments of `ScheduleSpec` for a payload.

        Raises:
            PayloadError: As for `one`.
            ArgumentError: As for `one`.
        """
        self.one(payload, options)  # validates now what the server would refuse at worker start
        if isinstance(self.route, QueueRoute):
            message, headers = self._message(payload, options)
            return {"queue_name": self.route.queue_name, "message": message, "headers": headers}
        event = self._event(self.route, payload, options)
        return {"queue_name": self.route.log_name, "event": event}

    def _event_type(self, route: GroupRoute | ConsumerRoute, event_type: str | None) -> str:
        known = route.event_types
        if event_type is None:
            if len(known) != 1:
                raise ArgumentError(
                    f"handler {self.handler_name!r} handles {'several event types' if known else 'any event type'}; "
                    "choose one with event_type="
                )
            return known[0]
        if known and event_type not in known:
            raise ArgumentError(
                f"handler {self.handler_name!r} does not handle events of type {event_type!r}; use "
                f"{' or '.join(map(repr, known))}"
            )
        return event_type

    def _refuse(self, **options: Any) -> None:
        for option, value in options.items():
            if value is not None:
                place = "a queue" if isinstance(self.route, QueueRoute) else "a log"
                raise ArgumentError(
                    f"handler {self.handler_name!r} is for {place}, which does not support {option} here; omit it"
                )


def _unique_key(key: str | None, unique: Unique | None, payload: Any, message: Any) -> str | None:
    """Return the deduplication key of a message: that given, else that of its payload."""
    return key if key is not None or unique is None else unique.key_of(payload, message)


def _delay_of(options: SendOptions | SendManyOptions) -> int | datetime | None:
    """Return the delay in seconds or the time, whichever is given."""
    delay_s, at = options.get("delay_s"), options.get("at")
    if delay_s is not None and at is not None:
        raise ArgumentError("delay_s and at are mutually exclusive; use one")
    if delay_s is not None:
        return whole(delay_s, "delay_s", 0)
    return zoned_time(at, "at")


def _by_queue(
    after: Sequence[int] | Mapping[Any, Sequence[int]], queue_name: str
) -> Mapping[str, Sequence[int]]:
    """Return the msg_ids of the messages to wait for, by queue."""
    if not isinstance(after, Mapping):
        return {queue_name: after}
    by_queue: dict[str, list[int]] = {}
    for place, msg_ids in after.items():  # a queue may be named twice, also by its handler
        ids = several(msg_ids, f"after[{place!r}]", "ids")
        by_queue.setdefault(_queue_of(place), []).extend(ids)
    return by_queue


def _queue_of(place: Any) -> str:
    if isinstance(place, str):
        return place
    route = getattr(getattr(place, "spec", None), "route", None)
    if not isinstance(route, QueueRoute):
        raise ArgumentError(f"after has the key {place!r}; use the name of a queue, or its handler")
    return route.queue_name


def _headers(options: SendOptions, key_header: str = KEY_HEADER) -> dict[str, Any] | None:
    """Return the headers of a message or event, with its key and priority."""
    return message_headers(
        options.get("headers"),
        key=options.get("key"),
        priority=options.get("priority"),
        key_header=key_header,
    )


def _as_many(values: Sequence[Any] | None, name: str, qty: int) -> Sequence[Any]:
    if values is None:
        return [None] * qty
    return one_per(values, name, name.replace("_", " "), qty, per="payload")


def listed(payloads: Iterable[Any]) -> list[Any]:
    """Return payloads as a list.

    Raises:
        ArgumentError: It is a single payload.
    """
    if isinstance(payloads, str | bytes | dict):
        raise ArgumentError(
            f"payloads is a single {type(payloads).__name__}; pass a list of payloads, or use send()"
        )
    return list(payloads)


def joined(parts: Iterable[tuple[list[int], list[int]]]) -> list[int]:
    """Return the ids of all parts, each with its positions, in the order of the positions."""
    by_position = {
        position: sent
        for positions, ids in parts
        for position, sent in zip(positions, ids, strict=True)
    }
    return [by_position[position] for position in range(len(by_position))]
