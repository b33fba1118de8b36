"""Leader election: one process at a time runs maintenance; the standbys take over when it stops."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from enum import Enum
from typing import Any

import psycopg

from pgsluice.backoff import Backoff
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import upkeep
from pgsluice.errors import translate
from pgsluice.sessions import SluiceConnection
from pgsluice.worker.forks import close_in_forks
from pgsluice.worker.loops import run_in_thread
from pgsluice.worker.wakeups.listener_connection import shut_down

Work = Callable[[threading.Event], None]

_log = logging.getLogger(__name__)
# Interval between heartbeats of the leader; silence after which a standby tries to lead; response timeout of the
# server. With these, failover after a killed leader takes less than two seconds.
_SIGN_S = 1.0
_SILENCE_S = 1.5
_ANSWER_S = 3.0
_SLICE_S = 0.25
_END_S = 5.0


class Standing(Enum):
    """Role of a process.

    Attributes:
        APART: Not connected, or not started.
        LEADER: It runs the work.
        STANDBY: Another process is the leader.
        POOLED: Connected through a pooler: it cannot lead.
    """

    APART = "apart"
    LEADER = "leader"
    STANDBY = "standby"
    POOLED = "pooled"


class Leader:
    """Run work while this process is the leader. Any number of standbys may wait; they send no statements meanwhile.

    This saves duplicate work but is not a lock: during a network failure two leaders may run for a few seconds.
    """

    def __init__(
        self, conninfo: str, *, connect_timeout_s: int = 10, works_pooled: bool = False
    ) -> None:
        """Prepare a candidate.

        Args:
            conninfo: Connection string, of a role that may run maintenance (`sluice_admin`); holds one connection.
            connect_timeout_s: Connection timeout in seconds, 2 or more.
            works_pooled: Run the work also through a pooler, where no leader can be elected.
        """
        self._conninfo = conninfo
        self._connect_timeout_s = connect_timeout_s
        self._works_pooled = works_pooled
        self._standing = Standing.APART

    @property
    def standing(self) -> Standing:
        """The current role. Thread-safe."""
        return self._standing

    def run(self, stop: threading.Event, work: Work) -> None:
        """Run `work` while this process is the leader, until `stop` is set; return early if it cannot lead.

        Args:
            stop: Stops the candidate.
            work: Runs in its own thread until the event passed to it is set, or raises.

        Raises:
            SluiceError: A permanent error, such as a missing privilege; or the exception of `work`.
        """
        backoff = Backoff("maintenance", _log.log)
        while not stop.is_set():
            with backoff.attempt(stop):
                try:
                    with self._session() as session:
                        self._serve(session, stop, work, backoff)
                        return
                finally:
                    self._standing = Standing.APART

    def _serve(
        self, session: psycopg.Connection[Any], stop: threading.Event, work: Work, backoff: Backoff
    ) -> None:
        term: _Term | None = None
        try:
            while not stop.is_set():
                leads = self._lead(session)
                backoff.succeeded()
                if leads is None:
                    self._pooled(stop, work)
                    return
                if not leads:
                    self._change(Standing.STANDBY)
                    _await_heartbeat(session, stop)
                    continue
                if term is None:
                    self._change(Standing.LEADER)
                    term = _Term(work)
                term.check()
                stop.wait(_SIGN_S)
        finally:
            if term is not None:
                term.end()

    def _lead(self, session: psycopg.Connection[Any]) -> bool | None:
        with _cut_after(session, _ANSWER_S):
            return Runner(session).run(upkeep.lead(session.info.backend_pid))

    def _pooled(self, stop: threading.Event, work: Work) -> None:
        self._standing = Standing.POOLED
        if self._works_pooled:
            _log.warning(
                'leader election impossible reason="connected through a pooler" hint="running maintenance anyway"'
            )
            work(stop)
        else:
            _log.warning(
                'leader election impossible reason="connected through a pooler" hint="run `pgsluice maintain` with a '
                'direct connection"'
            )

    def _change(self, standing: Standing) -> None:
        if standing is not self._standing:
            self._standing = standing
            _log.info(
                "leader election component=maintenance role=%s",
                "leader" if standing is Standing.LEADER else "standby",
            )

    @contextlib.contextmanager
    def _session(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with SluiceConnection.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=None,  # in case of a pooler
                connect_timeout=self._connect_timeout_s,
                fallback_application_name="pgsluice leader",
            ) as session:
                close_in_forks(session)
                yield session
        except psycopg.Error as error:
            raise translate(error) from error


class _Term:
    """The work of a leader, in a thread."""

    def __init__(self, work: Work) -> None:
        self._end = threading.Event()
        self._work = run_in_thread("pgsluice maintenance", work, self._end)

    def check(self) -> None:
        """Raise the exception of the work, if it ended."""
        if self._work.done():
            self._work.result()

    def end(self) -> None:
        """Stop the work, and wait a few seconds."""
        self._end.set()
        wait([self._work], _END_S)


def _await_heartbeat(session: psycopg.Connection[Any], stop: threading.Event) -> None:
    """Return when the leader's heartbeat is overdue, or `stop` is set."""
    slices = round(_SILENCE_S * random.uniform(0.8, 1.0) / _SLICE_S)  # noqa: S311 - jitter
    silent = 0
    while silent < slices and not stop.is_set():
        # Notifications need no statement, so a standby costs the server nothing.
        heard = any(True for _ in session.notifies(timeout=_SLICE_S, stop_after=1))
        silent = 0 if heard else silent + 1


@contextlib.contextmanager
def _cut_after(session: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Shut the connection down if the block exceeds the timeout; psycopg itself has no response timeout."""
    timer = threading.Timer(seconds, shut_down, [session])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
