"""A TCP proxy to a server's Unix socket that can silently drop traffic."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import Self


class BlackHole:
    """Forwards bytes in both directions until `swallow`; then it reads and drops them."""

    def __init__(self, server_path: str) -> None:
        self._server_path = server_path
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._swallowed: set[socket.socket] = set()
        self._servers: set[socket.socket] = set()
        self._losing: set[socket.socket] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def port(self) -> int:
        return self._listening.getsockname()[1]

    def swallow(self) -> None:
        """Drop all traffic of the existing connections; new ones work."""
        self._swallowed |= set(self._peers)

    def lose_the_next_reply(self) -> None:
        """Drop the server's next reply on each existing connection, and close the connection."""
        self._losing |= self._servers

    def cut(self) -> None:
        """Close the existing connections."""
        for end in list(self._peers):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join()
        for opened in (*self._peers, self._listening):
            opened.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listening:
                    self._accept()
                else:
                    self._pass_on(key.fileobj)

    def _accept(self) -> None:
        client, _ = self._listening.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server_path)
        self._servers.add(server)
        for one, other in ((client, server), (server, client)):
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, source: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = source.recv(65536)
        if source in self._losing:
            data = b""  # drop the reply
        if source in self._swallowed:
            if not data:
                self._selector.unregister(source)
            return
        if data:
            with contextlib.suppress(OSError):
                self._peers[source].sendall(data)
            return
        for end in (source, self._peers[source]):
            with contextlib.suppress(KeyError):
                self._selector.unregister(end)
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
