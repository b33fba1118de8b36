"""What a worker tells an orchestrator: whether it lives, whether it is ready, and what it does."""

from __future__ import annotations

import json
import logging
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from pgsluice.errors import ConfigurationError
from pgsluice.worker.forks import close_in_forks

_log = logging.getLogger(__name__)
_FILE_PERIOD_S = 1.0


class Health:
    """What is known of one process, or of several; asked and told from any thread."""

    def __init__(self, *, processes: int, stall_s: float) -> None:
        """Know nothing yet.

        Args:
            processes: How many there are to be.
            stall_s: After how long without a sign of its own a process counts as stuck; 0: never.
        """
        self._processes = processes
        self._stall_s = stall_s
        self._lock = threading.Lock()
        self._statuses: dict[int, dict[str, Any]] = {}
        self._beat_at_s: float | None = None

    def beat(self) -> None:
        """Note that the process that answers does not hang."""
        self._beat_at_s = time.monotonic()

    def tell(self, number: int, status: dict[str, Any] | None) -> None:
        """Note what a process says of itself; None: there is none."""
        with self._lock:
            if status is None:
                self._statuses.pop(number, None)
            else:
                self._statuses[number] = status

    @property
    def is_live(self) -> bool:
        """Whether it does not hang. True while the server is away: to be started anew would not help."""
        if self._beat_at_s is None or self._stall_s == 0:
            return True  # it starts, which takes as long as the user's modules take
        return time.monotonic() - self._beat_at_s < self._stall_s

    @property
    def is_ready(self) -> bool:
        """Whether every process handles messages: all sources of each can be reached."""
        with self._lock:
            statuses = list(self._statuses.values())
        return (
            self.is_live
            and len(statuses) == self._processes
            and all(_is_ready(status) for status in statuses)
        )

    def report(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        with self._lock:
            processes = {str(number): status for number, status in sorted(self._statuses.items())}
        return {
            "live": self.is_live,
            "ready": self.is_ready,
            "processes": processes,
        }


def _is_ready(status: dict[str, Any]) -> bool:
    sources = status.get("sources", ())
    return status.get("state") == "running" and all(source["is_reachable"] for source in sources)


class HealthEndpoint:
    """`GET /live` and `GET /ready` answer 200 or 503, `GET /` always 200; each with the report as JSON."""

    def __init__(self, health: Health, host: str, port: int) -> None:
        """Take the port.

        Raises:
            ConfigurationError: It cannot be had.
        """

        class Answer(_Answer):
            told = health

        try:
            self._server = ThreadingHTTPServer((host, port), Answer)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {host}:{port} for --health-port ({error.strerror}); choose another port"
            ) from error
        close_in_forks(self._server)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="pgsluice health", daemon=True
        )

    @property
    def port(self) -> int:
        """The port, also where 0 was asked for."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        """Answer from now on."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Give the port back."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Answer(BaseHTTPRequestHandler):
    told: Health
    timeout = 5.0  # for who connects and asks nothing

    def do_GET(self) -> None:
        """Answer one of the three; the name is what http.server calls."""
        verdicts = {"/": True, "/live": self.told.is_live, "/ready": self.told.is_ready}
        path = self.path.partition("?")[0]
        if path not in verdicts:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = json.dumps(self.told.report(), default=str).encode()
        self.send_response(HTTPStatus.OK if verdicts[path] else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing: a probe comes every few seconds."""


class HealthFile:
    """A file that is written anew every second while the process lives, and taken away at its end."""

    def __init__(self, health: Health, path: Path) -> None:
        """Look that it can be written.

        Raises:
            ConfigurationError: It cannot.
        """
        self._health = health
        self._path = path
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgsluice health", daemon=True)
        try:
            self._write()
        except OSError as error:
            raise ConfigurationError(
                f"cannot write {path} for --health-file ({error.strerror}); name a file in a folder that may be written"
            ) from error

    def __enter__(self) -> Self:
        """Write from now on."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Take the file away."""
        self._end.set()
        self._thread.join()
        self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._end.wait(_FILE_PERIOD_S):
            if not self._health.is_live:
                continue
            try:
                self._write()
            except OSError as error:
                _log.warning("cannot write %s: %s", self._path, error.strerror)

    def _write(self) -> None:
        # Whole at any moment, for whoever reads it.
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text(json.dumps(self._health.report(), default=str) + "\n", encoding="utf-8")
        new.replace(self._path)
