"""An object store with the S3 protocol, moto's, in a process of its own, which can be made to fail.

python object_store.py PORT
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

BUCKET = "lake"
_PORTS = itertools.count()
_FAULTS = "/_faults"
_KINDS = ("500", "503", "cut", "lost")


def free_port() -> int:
    """Return a free port below those that the system gives to connections, so it stays free until it is used."""
    # Elsewhere in each process, and each time another one.
    for number in _PORTS:
        port = 10_000 + (os.getpid() * 100 + number) % 22_000
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("unreachable")


def environment(port: int) -> dict[str, str]:
    """Return the variables by which delta-rs and pyiceberg find the store."""
    url = f"http://127.0.0.1:{port}"
    return {
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "sesame-object-store",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "PYICEBERG_CATALOG__STORE__S3__ENDPOINT": url,
        "PYICEBERG_CATALOG__STORE__S3__ACCESS_KEY_ID": "tests",
        "PYICEBERG_CATALOG__STORE__S3__SECRET_ACCESS_KEY": "sesame-object-store",
        "PYICEBERG_CATALOG__STORE__S3__REGION": "us-east-1",
    }


class ObjectStore:
    """A running store with one bucket."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def fail(self, how: str, *, method: str = "PUT", path: str = "", count: int = 1) -> None:
        """Make the next requests fail.

        Args:
            how: A status such as `503` without effect; `lost` for an effect without an answer; `cut` for a closed
                connection without effect; `hang` and `hang-after` for an open connection without an answer, without
                and with the effect.
            method: HTTP method.
            path: Part of the object's path.
            count: Number of requests.
        """
        self._post({"how": how, "method": method, "path": path, "count": count})

    def disturb(self, *, every: int) -> None:
        """Make one of `every` requests fail, in turn with 500, 503, cut and lost, until `faults_left`."""
        self._post({"every": every, "count": 0})

    def faults_left(self) -> int:
        """Return the number of requests that `fail` still lets fail; end all faults."""
        return self._post(None)

    def _post(self, fault: dict[str, Any] | None) -> int:
        request = urllib.request.Request(self._url + _FAULTS, json.dumps(fault).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.read())


@contextmanager
def running_object_store(port: int) -> Iterator[ObjectStore]:
    """Run a store on a port of this machine."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment(port)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", "moto did not start"
        yield ObjectStore(port)
    finally:
        process.kill()
        process.communicate()


class _Faulty:
    """WSGI application before moto's."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._faults: list[dict[str, Any]] = []
        self._every = self._requests = 0
        self._lock, self._writes = threading.Lock(), threading.Lock()

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if request["PATH_INFO"] == _FAULTS:
            return self._control(request, start)
        how = self._fault_for(request)
        if how is None:
            return self._answer(request, start)
        if how in ("lost", "hang-after"):
            self._answer(request, lambda *_: lambda _: None)
        if how in ("hang", "hang-after"):
            _wait_for_close(request["werkzeug.socket"])
        if how in ("lost", "cut", "hang", "hang-after"):
            with suppress(OSError):
                request["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        start(f"{how if how.isdigit() else 500} Failed", [("Content-Length", "0")])
        return []

    def _answer(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer with moto, one write at a time: it does not check `If-None-Match` and write in one step, as S3 does."""
        if request["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._application(request, start)
        with self._writes:
            return list(self._application(request, start))

    def _control(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        fault = json.loads(request["wsgi.input"].read(int(request["CONTENT_LENGTH"])))
        with self._lock:
            left = sum(one["count"] for one in self._faults)
            self._faults = [] if fault is None else [*self._faults, fault]
            self._every = 0 if fault is None else fault.get("every", self._every)
        start("200 OK", [])
        return [str(left).encode()]

    def _fault_for(self, request: dict[str, Any]) -> str | None:
        with self._lock:
            self._requests += 1
            if self._every and self._requests % self._every == 0:
                return _KINDS[self._requests // self._every % len(_KINDS)]
            for fault in self._faults:
                matches = fault["count"] and (
                    request["REQUEST_METHOD"] == fault["method"]
                    and fault["path"] in request["PATH_INFO"]
                )
                if matches:
                    fault["count"] -= 1
                    return str(fault["how"])
        return None


def _wait_for_close(connection: socket.socket) -> None:
    """Wait until the client closes the connection; discard what it sends."""
    with suppress(OSError):
        while connection.recv(65536):
            pass


def _serve(port: int) -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = _Faulty(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", port, application, threaded=True)  # type: ignore[arg-type]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    put = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
    put.add_header(
        "Authorization", "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request"
    )
    urllib.request.urlopen(put, timeout=30).close()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
