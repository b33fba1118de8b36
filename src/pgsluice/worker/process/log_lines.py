"""Log formatters of a worker process: text or JSON, without payloads or secrets, rate-limited."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Collection
from datetime import UTC, datetime
from types import TracebackType
from typing import Any
from urllib.parse import quote

from psycopg import conninfo

from pgsluice.connection import SECRET_KEYWORDS
from pgsluice.printable import printable, printable_block, printable_json
from pgsluice.worker.engine.settle import failure_log

# Their exceptions are logged without messages, which may come from a handler and quote the payload.
_RUNTIME = ("pgsluice", "psycopg", "asyncio")
_LINES_PER_S = 2.0
_SECRET_LENGTH_MIN = 4  # shorter values match parts of ordinary text too often
_PLACEHOLDER = re.compile(r"%(?:%|[-#0 +]*[\d.]*[a-zA-Z])")
# A `name=value` in the text of a record of ours; a value with spaces has quotes.
_PAIR = re.compile(r'(?<!\S)(\w+|%s)=("[^"]*"|\S+)')
_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_logs(*, form: str, level: str, secrets: Collection[str], number: int | None) -> None:
    """Configure all loggers of this process to write to standard error.

    Args:
        form: `text` or `json`, one line per record; tracebacks of the user's own loggers as text take further lines,
            which are indented.
        level: Minimum level.
        secrets: Values to mask; see `secrets_of`.
        number: Number of this process among several, or None.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonLines if form == "json" else TextLines)(secrets, number))
    handler.addFilter(FewLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def secrets_of(target: str) -> tuple[str, ...]:
    """Return the passwords and keys in a conninfo, also URL-encoded."""
    values = [
        str(value)
        for key, value in conninfo.conninfo_to_dict(target).items()
        if key in SECRET_KEYWORDS and value and len(str(value)) >= _SECRET_LENGTH_MIN
    ]
    forms = {form for value in values for form in (value, quote(value, safe=""))}
    return tuple(sorted(forms, key=len, reverse=True))


class FewLines(logging.Filter):
    """Rate limit of two warnings per second for the runtime; the next one carries the number suppressed.

    Errors count as warnings. The reason why a process ends is critical, and always written.
    """

    def __init__(self) -> None:
        """Start with a full token bucket."""
        super().__init__()
        self._lock = threading.Lock()
        self._tokens = _LINES_PER_S
        self._at_s = time.monotonic()
        self._kept_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record is to be written."""
        is_limited = _is_runtime(record) and record.name != failure_log.logger.name
        if not is_limited or not logging.WARNING <= record.levelno < logging.CRITICAL:
            return True
        with self._lock:
            now_s = time.monotonic()
            earned = (now_s - self._at_s) * _LINES_PER_S
            self._tokens, self._at_s = min(_LINES_PER_S, self._tokens + earned), now_s
            if self._tokens < 1:
                self._kept_back += 1
                return False
            self._tokens -= 1
            if self._kept_back:
                record.kept_back, self._kept_back = self._kept_back, 0
        return True


class _Lines(logging.Formatter):
    def __init__(self, secrets: Collection[str], number: int | None) -> None:
        super().__init__()
        self._secrets = secrets
        self._number = number

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _message(self, record: logging.LogRecord) -> str:
        """Return the message; in `name="%s"` of ours, quotes and line breaks of the value are escaped."""
        if not _is_runtime(record) or not isinstance(record.args, tuple):
            return record.getMessage()
        values, text = list(record.args), str(record.msg)
        used = [found for found in _PLACEHOLDER.finditer(text) if found[0] != "%%"]
        for position, found in enumerate(used):
            if text[found.start() - 1 : found.end() + 1] == '"%s"':
                values[position] = json.dumps(str(values[position]), ensure_ascii=False)[1:-1]
        return text % tuple(values)

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the fields passed as `extra` that are plain values."""
        fields: dict[str, Any] = {} if self._number is None else {"process": self._number}
        if record.name == failure_log.logger.name:
            return fields  # already in the line
        for name, value in vars(record).items():
            if name not in _RECORD and isinstance(value, str | int | float | bool):
                fields[name] = self._clean(value) if isinstance(value, str) else value
        return fields


class TextLines(_Lines):
    """Text lines: time, level, logger, message, `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one line; several for a traceback of the user's own loggers."""
        fields = "".join(f" {name}={value}" for name, value in self._fields(record).items())
        line = f"{_time(record)} {record.levelname} {record.name}: {self._message(record)}{fields}"
        if _is_runtime(record):
            line = " ".join(line.split())
        # Secrets first, as they may have characters that are escaped.
        return printable(self._clean(line)) + printable_block(
            self._clean(_exception(record, before="\n"))
        )


class JsonLines(_Lines):
    """JSON lines: one object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one line."""
        reported: dict[str, Any]
        if record.name == failure_log.logger.name:
            message, reported = vars(record)["event"], vars(record).get("fields", {})
        elif _is_runtime(record) and isinstance(record.args, tuple | None):
            message, reported = _structured(str(record.msg), list(record.args or ()))
        else:
            message, reported = self._message(record), {}
        entry = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(message),
            **self._fields(record),
            **{
                name: self._clean(value) if isinstance(value, str) else value
                for name, value in reported.items()
            },
        }
        if exception := self._clean(_exception(record, before="")):
            entry["exception"] = exception
        return printable_json(entry)


def _structured(template: str, values: list[Any]) -> tuple[str, dict[str, Any]]:
    """Return the text of a record of ours without its `name=value`, and these as fields; numbers stay numbers."""
    with_values = bool(values)

    def take(part: str) -> tuple[Any, ...]:
        count = sum(found[0] != "%%" for found in _PLACEHOLDER.finditer(part))
        taken, values[:count] = tuple(values[:count]), []
        return taken

    def filled(part: str) -> str:
        return part % take(part) if with_values else part

    texts, fields, end = [], {}, 0
    for pair in _PAIR.finditer(template):
        texts.append(filled(template[end : pair.start()]).strip())
        end = pair.end()
        name, value = filled(pair[1]), pair[2].strip('"')
        if with_values and _PLACEHOLDER.fullmatch(value) and value != "%%":
            (given,) = take(value)
            is_plain = given is None or isinstance(given, int | float | bool)
            fields[name] = given if is_plain else str(given)
            if isinstance(given, float):
                fields[name] = float(value % given)
        else:
            fields[name] = filled(value)
    texts.append(filled(template[end:]).strip())
    return " ".join(filter(None, texts)), fields


def _exception(record: logging.LogRecord, *, before: str) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return before + record.exc_text if record.exc_text else ""
    error = record.exc_info[1]
    if not _is_runtime(record):
        return before + "".join(traceback.format_exception(error)).rstrip()
    return f" {type(error).__qualname__}{_places(error.__traceback__)}"


def _places(trace: TracebackType | None) -> str:
    """Return the frames of a traceback, the innermost first."""
    frames = traceback.extract_tb(trace)[::-1]
    return "".join(f" < {frame.filename}:{frame.lineno} {frame.name}" for frame in frames)


def _is_runtime(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] in _RUNTIME


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
