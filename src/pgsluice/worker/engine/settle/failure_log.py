"""Log failed attempts and dead letters: each kind of failure in full, repeats as sums.

    handler failed queue=orders msg_id=7 handler=pack attempt=1 next_retry_s=1 error="UndefinedTable: …"
    Traceback (most recent call last): …
    handler failed repeatedly queue=orders handler=pack count=412 seconds=10 last_msg_id=419 error="…"
    message dead-lettered queue=orders msg_id=7 handler=pack attempts=5 error="UndefinedTable: …"

A kind of failure is its handler, the type of the exception and the lines of code in its traceback. The first failure
of a kind is logged with its traceback. Each kind is limited to five lines in ten seconds; further ones are counted, and
the count is logged after the ten seconds and when the worker stops. Payload values and secrets are masked; see
`redaction`.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgsluice.worker.engine.delivery import Failure
from pgsluice.worker.engine.settle.redaction import values_of, without_secrets, without_values
from pgsluice.worker.handlers.handler import HandlerSpec

_WINDOW_S = 10.0
_LINES_PER_WINDOW = 5
# Handlers times raising code paths; beyond, all counts are logged and forgotten.
_KINDS_MAX = 1_000
_ERROR_CHARS = 500
_TRACE_CHARS = 8_000
_PLAIN = re.compile(r"[^\s\"'=]+")
# Results of an attempt, and their log level and events.
_EVENTS: Mapping[str, tuple[int, str, str]] = {
    "retry": (logging.WARNING, "handler failed", "handler failed repeatedly"),
    "released": (logging.WARNING, "handler lost its session", "handlers lost their sessions"),
    "not started": (logging.ERROR, "handler not started", "handlers not started"),
    "stale": (logging.WARNING, "handler failed", "handler failed repeatedly"),
    "unsettled": (logging.WARNING, "handler failed", "handler failed repeatedly"),
    "acknowledged": (logging.WARNING, "handler failed", "handler failed repeatedly"),
    "blocked": (logging.ERROR, "handler failed", "handler failed repeatedly"),
    "dead": (logging.ERROR, "message dead-lettered", "messages dead-lettered"),
}

logger = logging.getLogger("pgsluice.worker.failures")


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a message in log lines.

    Attributes:
        fields: Names and values: `queue`; `log` and `group`; `log` and `consumer`.
        id_name: `msg_id` or `ev_id`.
        handler: The name of the handler, or None.
    """

    fields: tuple[tuple[str, str], ...]
    id_name: str
    handler: str | None = None

    @classmethod
    def of(cls, spec: HandlerSpec) -> Origin:
        """Return the origin of a handler's messages."""
        return cls(tuple(spec.route.fields.items()), spec.route.id_name, spec.name)


@dataclass(slots=True)
class _Kind:
    """One kind of failure in its current window."""

    origin: Origin
    result: str
    began_s: float
    lines: int = 0
    repeats: int = 0
    last: tuple[int, Failure, Any] | None = None

    def begin(self, now_s: float) -> None:
        """Start a new window."""
        self.began_s, self.lines, self.repeats, self.last = now_s, 0, 0, None


class FailureLog:
    """Rate-limited log of handler failures. Thread-safe."""

    def __init__(self) -> None:
        """Prepare a log; a timer runs only while counts are pending."""
        self._lock = threading.Lock()
        self._kinds: dict[tuple[Any, ...], _Kind] = {}
        self._timer: threading.Timer | None = None

    def report(
        self,
        origin: Origin,
        message_id: int,
        attempt: int,
        failure: Failure,
        result: str,
        *,
        next_retry_s: float | None = None,
        payload: Any = None,
    ) -> None:
        """Log a failed attempt, or count it if its kind exceeded its rate limit.

        Args:
            origin: Origin of the message.
            message_id: `msg_id` or `ev_id`.
            attempt: The number of the attempt that failed, the first is 1.
            failure: Error that the handler raised or returned.
            result: `retry`; `released`, its session was lost or it did not start, and the attempt does not count;
                `dead`, dead-lettered; `blocked`, the consumer is blocked on the event; `stale`, another worker has the
                message; `acknowledged`, it failed after its transaction acknowledged the message; `unsettled`, the
                worker stopped before it settled the message.
            next_retry_s: Maximum seconds until the next attempt, or None if unknown.
            payload: The message's; its values are masked in the texts.
        """
        kind_of = _event_of(result, failure)
        level, event, _ = _EVENTS[kind_of]
        if failure.error_type == "Retry" and result == "retry":
            level = logging.INFO  # requested by the handler, not an error
        if not logger.isEnabledFor(level):
            return
        key = (origin, result, failure.error_type, failure.place)
        with self._lock:
            now_s = time.monotonic()
            kind = self._kinds.get(key)
            is_first = kind is None
            if kind is None:
                if len(self._kinds) >= _KINDS_MAX:
                    self._log_counts(now_s, everything=True)
                    self._kinds.clear()
                kind = self._kinds[key] = _Kind(origin, kind_of, now_s)
            if now_s - kind.began_s >= _WINDOW_S:
                self._log_count(kind, now_s)
                kind.begin(now_s)
            if kind.lines >= _LINES_PER_WINDOW:
                kind.repeats += 1
                kind.last = (message_id, failure, payload)
                self._arm()
                return
            kind.lines += 1
        values = values_of(payload)
        fields: dict[str, Any] = {**dict(origin.fields), origin.id_name: message_id}
        if origin.handler is not None:
            fields["handler"] = origin.handler
        fields["attempts" if result == "dead" else "attempt"] = attempt
        if result not in ("retry", "dead"):
            fields["outcome"] = result
        if next_retry_s is not None and result in ("retry", "blocked"):
            fields["next_retry_s"] = round(next_retry_s, 3)
        fields["error"] = _error_of(failure, values)
        trace = None
        if is_first and failure.trace is not None:
            trace = without_values(without_secrets(failure.trace), values)[-_TRACE_CHARS:].strip()
        _write(level, event, fields, trace)

    def flush(self) -> None:
        """Log all pending counts; called when the worker stops."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._log_counts(time.monotonic(), everything=True)

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(_WINDOW_S, self._on_timer)
            self._timer.daemon = True
            try:
                self._timer.start()
            except RuntimeError:  # no thread can be started
                self._timer = None  # a later report or `flush` logs the counts

    def _on_timer(self) -> None:
        with self._lock:
            self._timer = None
            self._log_counts(time.monotonic(), everything=False)
            if any(kind.repeats for kind in self._kinds.values()):
                self._arm()

    def _log_counts(self, now_s: float, *, everything: bool) -> None:
        for kind in self._kinds.values():
            if everything or now_s - kind.began_s >= _WINDOW_S:
                self._log_count(kind, now_s)
                kind.begin(now_s)

    def _log_count(self, kind: _Kind, now_s: float) -> None:
        if kind.last is None:
            return
        message_id, failure, payload = kind.last
        level, _, event = _EVENTS[kind.result]
        fields: dict[str, Any] = dict(kind.origin.fields)
        if kind.origin.handler is not None:
            fields["handler"] = kind.origin.handler
        fields |= {
            "count": kind.repeats,
            "seconds": round(now_s - kind.began_s, 1),
            f"last_{kind.origin.id_name}": message_id,
            "error": _error_of(failure, values_of(payload)),
        }
        _write(level, event, fields, None)


def _event_of(result: str, failure: Failure) -> str:
    """Return the key of the log event: a call that did not start is released without a traceback."""
    return "not started" if result == "released" and failure.trace is None else result


def line_of(event: str, fields: Mapping[str, Any]) -> str:
    """Format an event and its fields as `<event> key=value …`."""
    return " ".join([event, *(f"{name}={_value(value)}" for name, value in fields.items())])


def _value(value: Any) -> str:
    if not isinstance(value, str):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def _error_of(failure: Failure, values: list[str]) -> str:
    text = without_values(without_secrets(failure.message), values).strip()
    if len(text) > _ERROR_CHARS:
        text = f"{text[:_ERROR_CHARS]}…"
    return f"{failure.error_type}: {text}" if text else failure.error_type


def _write(level: int, event: str, fields: Mapping[str, Any], trace: str | None) -> None:
    record = logger.makeRecord(
        logger.name, level, __file__, 0, line_of(event, fields), (), None, "report"
    )
    record.event, record.fields = event, dict(fields)
    record.exc_text = trace  # formatters print it below the line
    logger.handle(record)
