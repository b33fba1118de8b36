"""Health of a worker: liveness, readiness and status, over HTTP or in a file."""

from __future__ import annotations

import json
import logging
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from pgsluice.errors import ConfigurationError, MissingExtraError
from pgsluice.extras import require_packages
from pgsluice.worker.forks import close_in_forks

_log = logging.getLogger(__name__)
_FILE_PERIOD_S = 1.0


class Health:
    """Status of one or several processes. Thread-safe."""

    def __init__(self, *, processes: int, stall_s: float) -> None:
        """Start without any status.

        Args:
            processes: Expected number of processes.
            stall_s: Seconds without a heartbeat after which the process counts as hung; 0: never.
        """
        self._processes = processes
        self._stall_s = stall_s
        self._lock = threading.Lock()
        self._statuses: dict[int, dict[str, Any]] = {}
        self._beat_at_s: float | None = None

    def beat(self) -> None:
        """Record a heartbeat of this process."""
        self._beat_at_s = time.monotonic()

    def record(self, number: int, status: dict[str, Any] | None) -> None:
        """Record the status of a process; None: it has exited."""
        with self._lock:
            if status is None:
                self._statuses.pop(number, None)
            else:
                self._statuses[number] = status

    @property
    def is_live(self) -> bool:
        """True if the process does not hang. Also True while the server is unreachable: a restart would not help."""
        if self._beat_at_s is None or self._stall_s == 0:
            return True  # startup may take long, as it imports the user's modules
        return time.monotonic() - self._beat_at_s < self._stall_s

    @property
    def is_ready(self) -> bool:
        """True if every process is running, reaches all its sources and can start its handlers.

        With shards, a process must reach all sources of one of them: a shard that is down is reported, and holds up
        neither the others nor the deployment of a new version.
        """
        with self._lock:
            statuses = list(self._statuses.values())
        return (
            self.is_live
            and len(statuses) == self._processes
            and all(_is_ready(status) for status in statuses)
        )

    def report(self) -> dict[str, Any]:
        """Return the full status, JSON-serializable."""
        with self._lock:
            processes = {str(number): status for number, status in sorted(self._statuses.items())}
        return {
            "live": self.is_live,
            "ready": self.is_ready,
            "processes": processes,
        }


def _is_ready(status: dict[str, Any]) -> bool:
    sources = status.get("sources", ())
    handlers = status.get("handlers", ())
    shards = status.get("shards", ())
    is_reaching = all(source["is_reachable"] for source in sources)
    return (
        status.get("state") == "running"
        and (any(shard["is_up"] for shard in shards) if shards else is_reaching)
        and not any(handler.get("unstarted") for handler in handlers)
    )


class HealthEndpoint:
    """HTTP endpoint: `GET /live` and `GET /ready` return 200 or 503, `GET /` 200, all with the status as JSON;
    `GET /metrics` returns metrics for Prometheus.
    """

    def __init__(self, health: Health, host: str, port: int) -> None:
        """Bind the port.

        Raises:
            ConfigurationError: The port is not available.
        """

        class RequestHandler(_RequestHandler):
            process_health = health

        try:
            self._server = ThreadingHTTPServer((host, port), RequestHandler)
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
        """The bound port, also if 0 was requested."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        """Start serving."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop serving and close the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _RequestHandler(BaseHTTPRequestHandler):
    process_health: Health
    timeout = 5.0  # for clients that connect without a request

    def do_GET(self) -> None:
        """Serve a GET request; named by http.server."""
        verdicts = {
            "/": True,
            "/live": self.process_health.is_live,
            "/ready": self.process_health.is_ready,
        }
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._send_metrics()
            return
        if path not in verdicts:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = json.dumps(self.process_health.report(), default=str).encode()
        verdict = HTTPStatus.OK if verdicts[path] else HTTPStatus.SERVICE_UNAVAILABLE
        self._send(verdict, "application/json", body)

    def _send_metrics(self) -> None:
        try:
            require_packages("metrics need", ["prometheus_client"], "metrics")
        except MissingExtraError as error:
            self._send(
                HTTPStatus.NOT_IMPLEMENTED, "text/plain; charset=utf-8", f"{error}\n".encode()
            )
            return
        from pgsluice.worker.process.metrics import metrics_of

        body, content_type = metrics_of(self.process_health.report(), self.headers.get("Accept"))
        self._send(HTTPStatus.OK, content_type, body)

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Suppress access logs: probes arrive every few seconds."""


class HealthFile:
    """A status file, updated every second while the process is live, and removed at exit."""

    def __init__(self, health: Health, path: Path) -> None:
        """Write the file once.

        Raises:
            ConfigurationError: It cannot be written.
        """
        self._health = health
        self._path = path
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgsluice health", daemon=True)
        try:
            self._write()
        except OSError as error:
            raise ConfigurationError(
                f"cannot write {path} for --health-file ({error.strerror}); choose a file in a writable directory"
            ) from error

    def __enter__(self) -> Self:
        """Start updating the file."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Remove the file."""
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
                _log.warning(
                    'health file not written path=%s error="%s"', self._path, error.strerror
                )

    def _write(self) -> None:
        # Replaced atomically, so that readers never see a partial file.
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text(json.dumps(self._health.report(), default=str) + "\n", encoding="utf-8")
        new.replace(self._path)
