"""Azurite, Microsoft's emulator of Azure Blob Storage, in a process of its own.

Behind a proxy, because Azurite 3.35 ignores the parameter `startFrom` of List Blobs, by which delta-rs lists the newest
versions of a table: it then gets older ones too, and refuses them.
"""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from support.programs import require

CONTAINER = "lake"
ACCOUNT = "devstoreaccount1"
# Azurite's fixed key, as in its documentation.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_BLOB = re.compile(rb"<Blob><Name>([^<]*)</Name>.*?</Blob>", re.DOTALL)


def program() -> str | None:
    """Return the path of azurite-blob, in PATH or where .ci/run installs it; None if it is not installed."""
    installed = Path(sys.prefix, "azurite", "node_modules", ".bin", "azurite-blob")
    return str(installed) if installed.exists() else shutil.which("azurite-blob")


def environment(port: int) -> dict[str, str]:
    """Return the variables by which delta-rs and pgsluice find the store."""
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}",
        "AZURE_ALLOW_HTTP": "true",
    }


@contextmanager
def running_azurite(command: str) -> Iterator[int]:
    """Run it on this machine; yield the port."""
    require("node", purpose="azurite")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    process = subprocess.Popen(
        [
            command, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence",
            "--blobHost", "127.0.0.1", "--blobPort", str(port),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "successfully listens" in line:
                break
        else:
            raise RuntimeError(f"Azurite did not start: {said}")
        # In a process of its own, as delta-rs holds the lock of this interpreter while it waits for an answer.
        with subprocess.Popen(
            [sys.executable, "-m", "support.azurite", str(port)],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            text=True,
        ) as proxy:
            try:
                assert proxy.stdout is not None
                yield int(proxy.stdout.readline())
            finally:
                proxy.kill()
    finally:
        process.kill()
        process.communicate()


def _proxy_to(port: int) -> type[BaseHTTPRequestHandler]:
    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            there = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            there.request(self.command, self.path, content, dict(self.headers.items()))
            answer = there.getresponse()
            body = answer.read()
            start = parse_qs(urlsplit(self.path).query).get("startFrom")
            if start:
                body = _BLOB.sub(lambda blob: b"" if blob[1] < start[0].encode() else blob[0], body)
            self.send_response(answer.status, answer.reason)
            is_head = self.command == "HEAD"
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "keep-alive") and (
                    is_head or name.lower() != "content-length"
                ):
                    self.send_header(name, value)
            if not is_head:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            there.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

        def log_message(self, *_: object) -> None:
            pass

    return Proxy


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), _proxy_to(int(sys.argv[1]))) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
