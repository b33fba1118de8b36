"""Build the calls that send to a handler. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgsluice.client.calls import Call, deduplication, delayed, pgq, producing
from pgsluice.client.calls.arguments import whole, zoned_time
from pgsluice.client.log_records import NewEvent
from pgsluice.client.payload_type import PayloadType
from pgsluice.errors import ArgumentError
from pgsluice.worker.handlers.handler import ConsumerRoute, GroupRoute, QueueRoute, Route

# The header in which PGMQ stores the ordering key of a message.
KEY_HEADER = "x-pgmq-group"
_PRIORITY_HEADER = "x-pgmq-priority"
_EXTRAS = ("ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")


@dataclass(frozen=True, slots=True)
class Sending:
    """Encodes payloads for the queue or log of a handler.

    Attributes:
        handler_name: Name of the handler, for errors.
        route: Queue or log of the handler.
        payload: Payload type.
    """

    handler_name: str
    route: Route
    payload: PayloadType

    def one(
        self,
        payload: Any,
        *,
        delay: int | datetime | None,
        key: str | None,
        headers: dict[str, Any] | None,
        deduplication_key: str | None,
        event_type: str | None,
    ) -> Call[Any]:
        """Return the call that sends one message or event.

        Raises:
            PayloadError: The payload does not match its type, or cannot be stored.
            ArgumentError: An option is out of range, or not supported here.
        """
        if isinstance(self.route, QueueRoute):
            self._refuse(event_type=event_type)
            message, with_key = self.message(payload, key=key, headers=headers)
            return deduplication.send(
                self.route.queue_name,
                message,
                headers=with_key,
                delay=delay,
                deduplication_key=deduplication_key,
            )
        self._refuse(deduplication_key=deduplication_key)
        event = self.event(self.route, payload, key=key, headers=headers, event_type=event_type)
        if delay is None:
            return pgq.insert_event(self.route.log_name, **event._asdict())
        return delayed.insert_delayed_event(self.route.log_name, delay=delay, **event._asdict())

    def many(
        self,
        payloads: Sequence[Any],
        *,
        delay: int | datetime | None,
        keys: Sequence[str | None] | None,
        headers: Sequence[dict[str, Any] | None] | None,
        deduplication_keys: Sequence[str | None] | None,
        event_type: str | None,
    ) -> Call[list[int]]:
        """Return the call that sends one or more messages or events.

        Raises:
            PayloadError: As for `one`.
            ArgumentError: As for `one`; or the number of keys or headers differs.
        """
        qty = len(payloads)
        each_key = _as_many(keys, "keys", qty)
        each_headers = _as_many(headers, "headers", qty)
        if isinstance(self.route, QueueRoute):
            self._refuse(event_type=event_type)
            with_keys = [
                _keyed(one_of, KEY_HEADER, key)
                for one_of, key in zip(each_headers, each_key, strict=True)
            ]
            return deduplication.send_batch(
                self.route.queue_name,
                [
                    self.payload.encode(payload, f"payloads[{i}]")
                    for i, payload in enumerate(payloads)
                ],
                headers=with_keys if any(with_keys) else None,
                delay=delay,
                deduplication_keys=deduplication_keys,
            )
        self._refuse(deduplication_keys=deduplication_keys, delay_s=delay)
        events = [
            self.event(
                self.route,
                payload,
                f"payloads[{i}]",
                key=key,
                headers=one_of,
                event_type=event_type,
            )
            for i, (payload, key, one_of) in enumerate(
                zip(payloads, each_key, each_headers, strict=True)
            )
        ]
        return producing.insert_events(self.route.log_name, events)

    def message(
        self, payload: Any, *, key: str | None, headers: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any] | None]:
        """Return the message and headers that a queue stores for a payload.

        Raises:
            PayloadError: As for `one`.
            ArgumentError: The key is not a string, or conflicts with the headers.
        """
        return self.payload.encode(payload), _keyed(headers, KEY_HEADER, key)

    def event(
        self,
        route: GroupRoute | ConsumerRoute,
        payload: Any,
        path: str = "payload",
        *,
        key: str | None,
        headers: dict[str, Any] | None,
        event_type: str | None,
    ) -> NewEvent:
        """Return the event that a log stores for a payload.

        Raises:
            PayloadError: As for `one`, with the path.
            ArgumentError: As for `one`.
        """
        extras = _keyed(headers, "ev_extra1", key) or {}
        if unknown := sorted(extras.keys() - set(_EXTRAS)):
            raise ArgumentError(f"an event has no header {unknown[0]!r}; use {', '.join(_EXTRAS)}")
        return NewEvent(
            self._event_type(route, event_type),
            self.payload.encode_text(payload, path),
            *(extras.get(name) for name in _EXTRAS),
        )

    def scheduled(
        self,
        payload: Any,
        *,
        key: str | None,
        headers: dict[str, Any] | None,
        event_type: str | None,
    ) -> dict[str, Any]:
        """Return the arguments of `ScheduleSpec` for a payload.

        Raises:
            PayloadError: As for `one`.
            ArgumentError: As for `one`.
        """
        self.one(  # validates now what the server would refuse at worker start
            payload,
            delay=None,
            key=key,
            headers=headers,
            deduplication_key=None,
            event_type=event_type,
        )
        if isinstance(self.route, QueueRoute):
            message, with_key = self.message(payload, key=key, headers=headers)
            return {"queue_name": self.route.queue_name, "message": message, "headers": with_key}
        event = self.event(self.route, payload, key=key, headers=headers, event_type=event_type)
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


def delay_of(delay_s: int | None, at: datetime | None) -> int | datetime | None:
    """Return the delay in seconds or the time, whichever is given.

    Raises:
        ArgumentError: Both are given, or the delay is negative or not whole, or the time has no time zone.
    """
    if delay_s is not None and at is not None:
        raise ArgumentError("delay_s and at are mutually exclusive; use one")
    if delay_s is not None:
        return whole(delay_s, "delay_s", 0)
    return zoned_time(at, "at")


def prioritised(headers: dict[str, Any] | None, priority: int | None) -> dict[str, Any] | None:
    """Return the headers with the priority added.

    Raises:
        ArgumentError: It is not a whole number of 1 or more, or conflicts with the headers.
    """
    if priority is None:
        return headers
    if whole(priority, "priority", 1) != (headers or {}).get(_PRIORITY_HEADER, priority):
        raise ArgumentError(f"priority and the header {_PRIORITY_HEADER!r} differ; omit one")
    return {**(headers or {}), _PRIORITY_HEADER: priority}


def all_prioritised(
    headers: Sequence[dict[str, Any] | None] | None, priority: int | None, qty: int
) -> Sequence[dict[str, Any] | None] | None:
    """Like `prioritised`, for `qty` messages."""
    if priority is None:
        return headers
    return [prioritised(each, priority) for each in _as_many(headers, "headers", qty)]


def _keyed(headers: dict[str, Any] | None, name: str, key: str | None) -> dict[str, Any] | None:
    if key is None:
        return headers
    if not isinstance(key, str):
        raise ArgumentError(f"key is of type {type(key).__name__}; use a str")
    if headers is not None and headers.get(name, key) != key:
        raise ArgumentError(f"key and the header {name!r} differ; omit one")
    return {**(headers or {}), name: key}


def _as_many(values: Sequence[Any] | None, name: str, qty: int) -> Sequence[Any]:
    if values is None:
        return [None] * qty
    if isinstance(values, str) or len(values) != qty:
        raise ArgumentError(
            f"got {len(values)} {name} for {qty} payloads; pass a list with one per payload, None for none"
        )
    return values


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
