"""Notification channels and running notifiers, for tests of the notifier and its listeners."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg


class Channel:
    """Listens to the channel of a queue; with None to that of the notifiers' heartbeats."""

    def __init__(self, url: str, queue_name: str | None) -> None:
        self._session = psycopg.connect(url, autocommit=True)
        self._session.execute("select sluice.listen(%s)", [queue_name])
        if queue_name is not None:
            self._session.execute('unlisten "sluice.notifier"')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._session.close()

    @property
    def backend_pid(self) -> int:
        return self._session.info.backend_pid

    def wait(self, deadline_s: float) -> bool:
        """True if a notification arrives before the deadline; consumes the first."""
        return any(self._session.notifies(timeout=deadline_s, stop_after=1))

    def drain(self, seconds: float) -> int:
        """Return the number of notifications that arrive within a time."""
        return len(list(self._session.notifies(timeout=seconds)))


@contextmanager
def running(worker: Any) -> Iterator[Any]:
    """Run an object with `run(stop)` in a thread; fail with its error. `stop_now` ends it early."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            worker.run(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def stop_now() -> None:
        stop.set()
        thread.join(30)

    worker.stop_now = stop_now
    try:
        yield worker
    finally:
        stop_now()
        assert not thread.is_alive(), "it did not stop within 30 s"
        assert not failed, failed
