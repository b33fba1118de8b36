"""A pooler that sends statements outside a transaction block to a standby, as read/write splitters do."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg import conninfo

PRIMARY, STANDBY = 0, 1


def _open(url: str) -> socket.socket:
    parts = conninfo.conninfo_to_dict(url)
    opened = socket.socket(socket.AF_UNIX)
    opened.connect(f"{parts['host']}/.s.PGSQL.{parts['port']}")
    return opened


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def _message(source: socket.socket) -> tuple[bytes, bytes]:
    """Read a message; return its type and all of its bytes."""
    head = _exactly(source, 5)
    return head[:1], head + _exactly(source, struct.unpack("!I", head[1:])[0] - 4)


def _until_ready(source: socket.socket, client: socket.socket | None) -> bool:
    """Relay messages until the server is ready; return True if it is in a transaction."""
    while True:
        kind, data = _message(source)
        if client is not None:
            client.sendall(data)
        if kind == b"Z":
            return data[-1:] != b"I"


def _serve(client: socket.socket, urls: tuple[str, str]) -> None:
    servers = [_open(url) for url in urls]
    with suppress(ConnectionError), client, servers[PRIMARY], servers[STANDBY]:
        size = _exactly(client, 4)
        startup = size + _exactly(client, struct.unpack("!I", size)[0] - 4)
        for server in servers:
            server.sendall(startup)
        _until_ready(servers[PRIMARY], client)
        _until_ready(servers[STANDBY], None)
        in_transaction = False
        while True:
            batch, kind = b"", b""
            while kind not in (b"Q", b"S"):
                kind, data = _message(client)
                if kind == b"X":
                    return
                batch += data
            writes = in_transaction or b"BEGIN" in batch.upper()
            server = servers[PRIMARY if writes else STANDBY]
            server.sendall(batch)
            in_transaction = _until_ready(server, client)


@contextmanager
def splitting(primary: str, standby: str) -> Iterator[str]:
    """Split the statements between two servers; yield the connection string."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(
                        target=_serve, args=(client, (primary, standby)), daemon=True
                    ).start()

        threading.Thread(target=accept, daemon=True).start()
        yield conninfo.make_conninfo(
            primary,
            host="127.0.0.1",
            port=listener.getsockname()[1],
            sslmode="disable",
            gssencmode="disable",
        )
