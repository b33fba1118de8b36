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
from pgsluice.client.calls.call import Call
from pgsluice.errors import SluiceError, translate
from pgsluice.sessions import SluiceConnection
from pgsluice.worker.forks import close_in_forks
from pgsluice.worker.loops import run_in_thread
from pgsluice.worker.wakeups.listener_connection import shut_down

Work = Callable[[threading.Event], None]

_log = logging.getLogger(__name__)
_ROLE = "maintenance"
# Interval of the leader's calls of sluice.lead; time after its last call in which no other candidate leads, and half of
# it if the session of the leader has ended; maximum interval of a standby's calls; response timeout of the server. With
# these, failover after a killed leader takes about two seconds, and four through a pooler.
_SIGN_S = 1.0
_LEASE_S = 3.0
_LOOK_S = 1.0
_ANSWER_S = 3.0
_END_S = 5.0


class Standing(Enum):
    """Role of a process.

    Attributes:
        APART: Not connected, or not started.
        LEADER: It runs the work.
        STANDBY: Another process is the leader.
    """

    APART = "apart"
    LEADER = "leader"
    STANDBY = "standby"


class Leader:
    """Run work while this process is the leader. Any number of standbys may wait, which ask every second.

    This saves duplicate work but is not a lock: during a network failure two leaders may run for a few seconds.
    """

    def __init__(self, conninfo: str, *, connect_timeout_s: int = 10) -> None:
        """Prepare a candidate.

        Args:
            conninfo: Connection string, of a role that may run maintenance (`sluice_admin`); holds one connection.
            connect_timeout_s: Connection timeout in seconds, 2 or more.
        """
        self._conninfo = conninfo
        self._connect_timeout_s = connect_timeout_s
        self._standing = Standing.APART

    @property
    def standing(self) -> Standing:
        """The current role. Thread-safe."""
        return self._standing

    def run(self, stop: threading.Event, work: Work) -> None:
        """Run `work` while this process is the leader, until `stop` is set.

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
                leads = self._call(session, upkeep.lead(_ROLE, _candidate(session), _LEASE_S))
                backoff.succeeded()
                if leads:
                    self._change(Standing.LEADER)
                    term = term or _Term(work)
                    term.check()
                    stop.wait(_SIGN_S)
                    continue
                if term is not None:
                    term.end()
                    term = None
                self._change(Standing.STANDBY)
                stop.wait(random.uniform(0.5, 1.0) * _LOOK_S)  # noqa: S311 - jitter
        finally:
            if term is not None:
                term.end()
                with contextlib.suppress(SluiceError):
                    self._call(session, upkeep.resign(_ROLE, _candidate(session)))

    def _call(self, session: psycopg.Connection[Any], call: Call[bool]) -> bool:
        with _cut_after(session, _ANSWER_S):
            return Runner(session).run(call)

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


def _candidate(session: psycopg.Connection[Any]) -> int:
    """Return the number by which sluice.lead knows this process: the pid of its session, or the pooler's for it."""
    return session.info.backend_pid & 0x3FFFFF


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
