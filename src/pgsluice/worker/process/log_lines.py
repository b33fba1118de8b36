"""Log lines of a worker process, for people or for machines: without payloads, without secrets, and not too many."""

from __future__ import annotations

import json
import logging
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
from pgsluice.worker.engine import failure_log

# Of these an exception is shown without its message: it may be a handler's, and quote the payload.
_RUNTIME = ("pgsluice", "psycopg", "asyncio")
_LINES_PER_S = 2.0
_SECRET_LENGTH_MIN = 4  # shorter ones are found in every other word
_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_logs(*, form: str, level: str, secrets: Collection[str], number: int | None) -> None:
    """Let all loggers of this process write to standard error.

    Args:
        form: `text` or `json`, a line for each record either way; but a traceback of the user's own loggers, as text,
            takes several.
        level: The name of the lowest level that is written.
        secrets: What is never to be written; see `secrets_of`.
        number: Which of several processes this is, or None.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonLines if form == "json" else TextLines)(secrets, number))
    handler.addFilter(FewLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def secrets_of(target: str) -> tuple[str, ...]:
    """The passwords and keys in a conninfo, also as a URL writes them."""
    values = [
        str(value)
        for key, value in conninfo.conninfo_to_dict(target).items()
        if key in SECRET_KEYWORDS and value and len(str(value)) >= _SECRET_LENGTH_MIN
    ]
    forms = {form for value in values for form in (value, quote(value, safe=""))}
    return tuple(sorted(forms, key=len, reverse=True))


class FewLines(logging.Filter):
    """Lets two warnings a second of the runtime pass, and says with the next one how many it kept back."""

    def __init__(self) -> None:
        """Let the first ones pass."""
        super().__init__()
        self._lock = threading.Lock()
        self._tokens = _LINES_PER_S
        self._at_s = time.monotonic()
        self._kept_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it."""
        is_limited = _is_runtime(record) and record.name != failure_log.logger.name
        if record.levelno < logging.WARNING or not is_limited:
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

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """What was given as `extra`, without what is no plain value."""
        fields: dict[str, Any] = {} if self._number is None else {"process": self._number}
        if record.name == failure_log.logger.name:
            return fields  # the line has them
        for name, value in vars(record).items():
            if name not in _RECORD and isinstance(value, str | int | float | bool):
                fields[name] = self._clean(value) if isinstance(value, str) else value
        return fields


class TextLines(_Lines):
    """For people: time, level, logger, message, `name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; more for a traceback of the user's own."""
        fields = "".join(f" {name}={value}" for name, value in self._fields(record).items())
        line = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}{fields}"
        if _is_runtime(record):
            line = " ".join(line.split())
        return self._clean(line + _exception(record, before="\n"))


class JsonLines(_Lines):
    """For machines: an object for each line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        is_report = record.name == failure_log.logger.name
        reported: dict[str, Any] = vars(record).get("fields", {}) if is_report else {}
        entry = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(vars(record)["event"] if is_report else record.getMessage()),
            **self._fields(record),
            **{
                name: self._clean(value) if isinstance(value, str) else value
                for name, value in reported.items()
            },
        }
        if exception := self._clean(_exception(record, before="")):
            entry["exception"] = exception
        return json.dumps(entry, ensure_ascii=False)


def _exception(record: logging.LogRecord, *, before: str) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return before + record.exc_text if record.exc_text else ""
    error = record.exc_info[1]
    if not _is_runtime(record):
        return before + "".join(traceback.format_exception(error)).rstrip()
    return f" {type(error).__qualname__}{_places(error.__traceback__)}"


def _places(trace: TracebackType | None) -> str:
    """Where it was raised, the innermost first."""
    frames = traceback.extract_tb(trace)[::-1]
    return "".join(f" < {frame.filename}:{frame.lineno} {frame.name}" for frame in frames)


def _is_runtime(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] in _RUNTIME


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
