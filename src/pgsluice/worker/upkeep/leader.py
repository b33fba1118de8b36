"""One process at a time keeps a database in order; the others stand by, and take over when it ends."""

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
from pgsluice.worker.forks import close_in_forks
from pgsluice.worker.loops import run_in_thread
from pgsluice.worker.wakeups.link import shut_down

Work = Callable[[threading.Event], None]

_log = logging.getLogger(__name__)
# Between two signs of life of the leader; for how long none may come before those who stand by try; for how long an
# answer may not come. Together a leader that is killed is followed within two seconds.
_SIGN_S = 1.0
_SILENCE_S = 1.5
_ANSWER_S = 3.0
_SLICE_S = 0.25
_END_S = 5.0


class Standing(Enum):
    """How a process stands.

    Attributes:
        APART: It has no connection, or was not started.
        LEADER: It does the work.
        STANDBY: Another one does.
        POOLED: There is a pooler between it and the server: it cannot lead.
    """

    APART = "apart"
    LEADER = "leader"
    STANDBY = "standby"
    POOLED = "pooled"


class Leader:
    """Do work while this process leads. Any number may stand by; they send the server nothing meanwhile.

    It saves work and keeps nobody out: for a few seconds, when the network fails, two may lead.
    """

    def __init__(
        self, conninfo: str, *, connect_timeout_s: int = 10, works_pooled: bool = False
    ) -> None:
        """Prepare it.

        Args:
            conninfo: Where to connect, of a role that may maintain (`sluice_admin`); the connection is kept.
            connect_timeout_s: How long one attempt to connect may take, 2 or more seconds.
            works_pooled: Work also when there is a pooler between, where nobody can know who leads.
        """
        self._conninfo = conninfo
        self._connect_timeout_s = connect_timeout_s
        self._works_pooled = works_pooled
        self._standing = Standing.APART

    @property
    def standing(self) -> Standing:
        """How it stands now; may be asked from any thread."""
        return self._standing

    def run(self, stop: threading.Event, work: Work) -> None:
        """Stand by, and work as long as this process leads, until `stop` is set; or return when it cannot lead.

        Args:
            stop: Ends it.
            work: Runs in a thread of its own until the event it is given is set, or raises.

        Raises:
            SluiceError: What waiting does not mend, such as a role that may not maintain; or what `work` raised.
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
                    _hear(session, stop)
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
                "maintenance: there is a pooler before the server, so nobody can tell who leads; working in any case"
            )
            work(stop)
        else:
            _log.warning(
                "maintenance: there is a pooler before the server, so this one cannot lead; run `pgsluice maintain` "
                "with a connection to the server itself"
            )

    def _change(self, standing: Standing) -> None:
        if standing is not self._standing:
            self._standing = standing
            _log.info(
                "maintenance: %s",
                "this one leads"
                if standing is Standing.LEADER
                else "another one leads; standing by",
            )

    @contextlib.contextmanager
    def _session(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=None,  # it may be a pooler, which is yet to be found out
                connect_timeout=self._connect_timeout_s,
                fallback_application_name="pgsluice leader",
            ) as session:
                close_in_forks(session)
                yield session
        except psycopg.Error as error:
            raise translate(error) from error


class _Term:
    """The work, in a thread, from when this process leads."""

    def __init__(self, work: Work) -> None:
        self._end = threading.Event()
        self._work = run_in_thread("pgsluice maintenance", work, self._end)

    def check(self) -> None:
        """Raise what ended the work."""
        if self._work.done():
            self._work.result()

    def end(self) -> None:
        """End it, and wait a little: an answer that does not come is not waited for."""
        self._end.set()
        wait([self._work], _END_S)


def _hear(session: psycopg.Connection[Any], stop: threading.Event) -> None:
    """Return when the leader has given no sign of life for a while, or `stop` is set."""
    slices = round(_SILENCE_S * random.uniform(0.8, 1.0) / _SLICE_S)  # noqa: S311 - not all at once
    silent = 0
    while silent < slices and not stop.is_set():
        # Without a statement: who stands by costs the server nothing.
        heard = any(True for _ in session.notifies(timeout=_SLICE_S, stop_after=1))
        silent = 0 if heard else silent + 1


@contextlib.contextmanager
def _cut_after(session: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Cut a connection when the block takes longer: psycopg itself waits for an answer for ever."""
    timer = threading.Timer(seconds, shut_down, [session])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
