"""Trace context inside messages and events: where it is stored, and how it is read. No OpenTelemetry.

A message holds W3C's `traceparent` and `tracestate` as headers. An event has no headers: it holds them as a JSON object
in `ev_extra4`, unless the producer uses this field itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from psycopg.types.json import Jsonb

EVENT_FIELD = "ev_extra4"
_PARENT = "traceparent"
_NAMES = (_PARENT, "tracestate")

# `pgmq`: work queues; `pgq`: event logs.
System = Literal["pgmq", "pgq"]
Carrier = Mapping[str, str]


class SpanPlace(NamedTuple):
    """Queue or log of a span.

    Attributes:
        system: Its kind.
        destination: Name of the queue or log; the routing key of messages sent to a topic.
        group: Share group or consumer of a log; None for producers and queues.
    """

    system: System
    destination: str
    group: str | None = None


class Sends(NamedTuple):
    """Mark of a call that sends messages or events.

    Attributes:
        system: Kind of the destination.
        destination: Name of the queue or log, or a routing key.
        position: Position of the headers, or of `ev_extra4`, among the parameters of the call or the columns of a row.
        qty: Number of messages of a batch; None: a single message, or a COPY of any number.
        returns_id: True if the call for a single message returns its id.
    """

    system: System
    destination: str
    position: int
    qty: int | None = None
    returns_id: bool = True

    @property
    def messages(self) -> int:
        """Number of messages."""
        return 1 if self.qty is None else self.qty

    def given(self, parameters: tuple[Any, ...]) -> list[Carrier]:
        """Return the trace contexts that the caller put into messages."""
        values = parameters[self.position]
        each = values if self.qty is not None and values is not None else [values]
        found = (carrier_of(value.obj if isinstance(value, Jsonb) else value) for value in each)
        return [carrier for carrier in found if carrier is not None]

    def with_context(self, parameters: tuple[Any, ...], carrier: Carrier) -> tuple[Any, ...]:
        """Return the parameters of the call with a trace context in each message that has none."""
        if not carrier:
            return parameters
        value = parameters[self.position]
        if self.qty is None:
            value = self._joined(value, carrier)
        else:
            value = [self._joined(each, carrier) for each in value or [None] * self.qty]
        return (*parameters[: self.position], value, *parameters[self.position + 1 :])

    def _joined(self, value: Any, carrier: Carrier) -> Any:
        if self.system == "pgq":
            return json.dumps(dict(carrier), separators=(",", ":")) if value is None else value
        if value is None:
            return Jsonb(dict(carrier))
        headers = value.obj
        if not isinstance(headers, dict) or _PARENT in headers:
            return value
        return Jsonb({**headers, **carrier}, dumps=value.dumps)


def carrier_of(value: Any) -> Carrier | None:
    """Return the trace context in the headers of a message, or in the text of an event's field; None without one."""
    if isinstance(value, str):
        value = _headers_of(value)
    if not isinstance(value, Mapping) or not isinstance(value.get(_PARENT), str):
        return None
    return {name: value[name] for name in _NAMES if isinstance(value.get(name), str)}


def _headers_of(text: str) -> Any:
    if _PARENT not in text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
