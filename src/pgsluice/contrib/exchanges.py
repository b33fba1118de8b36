"""Bindings of exchanges to queues, stored in the database and shared by all clients of a transport.

A binding is a row of `pgmq.topic_bindings`, so it is dropped with its queue. Its pattern is
`exchange.<type>.<exchange>[.<routing key>]`, or starts with `temporary` if the queue is deleted with its client.
Names are encoded, including wildcards: the transport matches them by the rules of AMQP.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Self

_NAME_BYTES_MAX = 47  # limit of queue names
_PLAIN = re.compile(r"[^A-Za-z0-9_]")
_ENCODED = re.compile(r"-([0-9a-f]+)-")
TYPES = ("direct", "topic", "fanout")
_DURABLE, _TEMPORARY = "exchange", "temporary"


@dataclass(frozen=True, slots=True)
class Binding:
    """Binding of a queue to an exchange.

    Attributes:
        type: `direct`, `topic` or `fanout`.
        exchange: The exchange.
        routing_key: The routing key, or the pattern of a topic exchange.
        is_temporary: True if the queue is deleted with its client.
    """

    type: str
    exchange: str
    routing_key: str
    is_temporary: bool = False

    @classmethod
    def parse(cls, pattern: str) -> Self | None:
        """Parse a pattern; return None if it is not a transport's."""
        prefix, *parts = pattern.split(".")
        if (
            prefix not in (_DURABLE, _TEMPORARY)
            or len(parts) not in (2, 3)
            or parts[0] not in TYPES
        ):
            return None
        names = [*map(_decode, parts[1:]), ""]
        return cls(parts[0], names[0], names[1], prefix == _TEMPORARY)

    @property
    def pattern(self) -> str:
        """The pattern to store."""
        prefix = _TEMPORARY if self.is_temporary else _DURABLE
        parts = [prefix, self.type, _encode(self.exchange)]
        if self.routing_key:
            parts.append(_encode(self.routing_key))
        return ".".join(parts)

    def matches(self, routing_key: str) -> bool:
        """True if a message with this routing key goes to the queue."""
        if self.type == "fanout":
            return True
        if self.type == "direct":
            return self.routing_key == routing_key
        return _matches(self.routing_key.split("."), routing_key.split("."))


def queue_name_of(name: str) -> str:
    """Return the name of the work queue; names over the limit are truncated and end with their hash."""
    encoded = name.encode()
    if len(encoded) <= _NAME_BYTES_MAX:
        return name
    digest = hashlib.sha256(encoded).hexdigest()[:16]
    start = encoded[: _NAME_BYTES_MAX - len(digest) - 1].decode(errors="ignore")
    return f"{start}-{digest}"


def _matches(pattern: list[str], parts: list[str]) -> bool:
    """Match as AMQP does: `*` is one word, `#` zero or more words."""
    if not pattern:
        return not parts
    first, *rest = pattern
    if first == "#":
        return any(_matches(rest, parts[start:]) for start in range(len(parts) + 1))
    return bool(parts) and first in ("*", parts[0]) and _matches(rest, parts[1:])


def _encode(name: str) -> str:
    return _PLAIN.sub(lambda found: f"-{ord(found[0]):x}-", name)


def _decode(encoded: str) -> str:
    return _ENCODED.sub(lambda found: chr(int(found[1], 16)), encoded)
