"""Read the database for all viewers: with a timeout, in read-only transactions, each result shared for a moment."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

import psycopg
from psycopg.abc import AdaptContext, Buffer, PQGen
from psycopg.adapt import Loader
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import set_json_loads
from psycopg_pool import ConnectionPool, PoolTimeout

from pgsluice.client import (
    Archive,
    DeadLetters,
    EventLog,
    Operations,
    Schedules,
    ShareGroup,
    WorkQueue,
)
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import samples
from pgsluice.client.calls.call import Call
from pgsluice.connection import Target, connection_failed, session_options
from pgsluice.errors import ConnectionFailedError, PrivilegeError, SluiceError, translate
from pgsluice.worker.engine.connections._sync.pool import PoolConnection
from pgsluice.worker.engine.connections.pools import LastFailure, end_at

Value = TypeVar("Value")

_CONNECT_S = 3.0
# The server's response may be this late after a statement's timeout. Neither TCP nor a pooler may ever report a silent
# server, and the viewers of a page share its reading.
_LATE_S = 3.0
_KEPT = 1000  # shared results; one with 1,000 queues has about 300 kB
_CANCELED = "57014"
_LOCKED = "55P03"


class PageSession:
    """The clients of one transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.queues = WorkQueue(connection)
        self.archive = Archive(connection)
        self.operations = Operations(connection)
        self.logs = EventLog(connection)
        self.schedules = Schedules(connection)

    def group(self, log_name: str, group_name: str) -> ShareGroup:
        """Return the client of a share group."""
        return ShareGroup(self.connection, log_name, group_name)

    def dead_letters(self, queue_name: str, consumer_name: str | None) -> DeadLetters:
        """Return the client of the dead letters of a queue, or of a share group or consumer of a log."""
        return DeadLetters(self.connection, queue_name, consumer_name)

    def run(self, call: Call[Value]) -> Value:
        """Run a call that no client has."""
        return Runner(self.connection).run(call)


@dataclass(frozen=True, slots=True)
class PagePart(Generic[Value]):
    """A part of a page: a value, or the reason why it is missing.

    Attributes:
        value: The value, or None.
        problem: One sentence, or None.
        is_timeout: True if the statement took too long: a narrower filter may help.
    """

    value: Value | None = None
    problem: str | None = None
    is_timeout: bool = False


class _Connection(PoolConnection):
    """A connection that is closed if the server does not respond.

    Attributes:
        answer_s: Timeout of a response in seconds.
    """

    answer_s = _LATE_S

    def wait(self, gen: PQGen[Any], *args: Any, **options: Any) -> Any:
        """Wait for a response, at most `answer_s`."""
        until_s = time.monotonic() + self.answer_s
        try:
            return super().wait(end_at(gen, until_s), *args, **options)
        except psycopg.OperationalError:
            if time.monotonic() > until_s:
                self.close()
            raise


class Database:
    """The database that a dashboard shows.

    Results are shared: viewers that ask for the same within `share_s` get one reading, also if they ask at once.
    Thread-safe.
    """

    def __init__(
        self, target: Target, *, timeout_s: float, share_s: float, connections_max: int
    ) -> None:
        """Prepare to connect; `open` connects.

        Args:
            target: The database.
            timeout_s: Timeout of each statement in seconds.
            share_s: Time for which a result is shared, in seconds.
            connections_max: Maximum number of connections.
        """
        self.target = target
        self._timeout_ms = round(timeout_s * 1000)
        self._share_s = share_s
        self._lock = threading.Lock()
        self._shared: dict[Hashable, _Shared] = {}
        self._last_failure = LastFailure()
        self._pool = ConnectionPool[Any](
            target.conninfo,
            connection_class=_Connection,
            min_size=1,
            max_size=connections_max,
            max_idle=60,
            timeout=_CONNECT_S,
            reconnect_timeout=_CONNECT_S,
            kwargs={
                "application_name": "pgsluice dashboard",
                "connect_timeout": 3,
                "last_failure": self._last_failure,
                **session_options(target.conninfo),
            },
            configure=_configure,
            check=self._check,
            open=False,
        )

    def open(self) -> None:
        """Start to connect; an unreachable server is reported by the first reading."""
        self._pool.open()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    @contextmanager
    def session(
        self, *, writes: bool = False, timeout_s: float | None = None
    ) -> Iterator[PageSession]:
        """Open a transaction with the statement timeout: read-only, except with `writes`.

        Args:
            writes: It may write.
            timeout_s: Another timeout of each statement, in seconds.

        Raises:
            ConnectionFailedError: There is no connection; the error has the server's reason, if it gave one.
            SluiceError: The commit failed.
        """
        try:
            with self._pool.connection() as connection:
                connection.read_only = not writes
                try:
                    with connection.transaction():
                        session = PageSession(connection)
                        limit_ms = (
                            self._timeout_ms if timeout_s is None else round(timeout_s * 1000)
                        )
                        connection.answer_s = limit_ms / 1000 + _LATE_S
                        session.run(samples.limit_statements(limit_ms))
                        yield session
                finally:
                    connection.answer_s = _LATE_S
                    if not connection.closed:
                        connection.read_only = True
        except PoolTimeout as error:
            raise self._no_connection() from error
        except psycopg.Error as error:
            raise translate(error) from error

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        try:
            ConnectionPool.check_connection(connection)
        except psycopg.Error:
            self._pool.drain()  # a lost connection is seldom the only one
            raise

    def _no_connection(self) -> ConnectionFailedError:
        failure = self._last_failure.error
        if isinstance(failure, psycopg.OperationalError):
            return connection_failed(failure, self.target)
        return ConnectionFailedError(
            f"no connection to {self.target.safe or 'the server'} within {_CONNECT_S:g} s"
        )

    def read(self, read: Callable[[PageSession], Value], *key: Hashable) -> Value:
        """Return what `read` returns in a read-only transaction, at most `share_s` old if there is a key.

        Args:
            read: Reads the database.
            key: What is read: the name of the reading and its arguments. Without a key, the result is not shared.

        Raises:
            SluiceError: The reading failed.
        """
        if not key:
            with self.session() as session:
                return read(session)
        now_s = time.monotonic()
        with self._lock:
            shared = self._shared.get(key)
            # One that is still read is waited for, however long it takes.
            if shared is None or (shared.is_read and shared.read_at_s + self._share_s <= now_s):
                shared = self._shared[key] = _Shared()
                while len(self._shared) > _KEPT:
                    del self._shared[next(iter(self._shared))]
        with shared.lock:
            if not shared.is_read:
                try:
                    with self.session() as session:
                        shared.value = read(session)
                except SluiceError:
                    self._forget(key, shared)
                    raise
                shared.read_at_s = time.monotonic()
                shared.is_read = True
            value: Value = shared.value
            return value

    def part(self, read: Callable[[PageSession], Value], *key: Hashable) -> PagePart[Value]:
        """Return what `read` returns as a part of a page: a timeout, a lock or a missing right concerns this part only.

        Raises:
            SluiceError: The reading failed for another reason.
        """
        return self.attempt(lambda: self.read(read, *key))

    def attempt(self, read: Callable[[], Value]) -> PagePart[Value]:
        """Return what `read`, which calls `read` of this class, returns as a part of a page, as `part` does.

        Raises:
            SluiceError: The reading failed for another reason.
        """
        try:
            return PagePart(read())
        except PrivilegeError as error:
            return PagePart(problem=str(error))
        except SluiceError as error:
            if error.sqlstate == _LOCKED:
                return PagePart(problem="locked by another transaction; it is read again soon")
            if error.sqlstate != _CANCELED:
                raise
            return PagePart(
                problem=f"not read within {self._timeout_ms / 1000:g} s: narrow your filter",
                is_timeout=True,
            )

    def forget(self) -> None:
        """Share no result that was read before now: an act has changed what viewers see."""
        with self._lock:
            self._shared.clear()

    def _forget(self, key: Hashable, shared: _Shared) -> None:
        with self._lock:
            if self._shared.get(key) is shared:
                del self._shared[key]


class _Shared:
    """A result, and the lock under which the first viewer reads it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.read_at_s = 0.0
        self.is_read = False
        self.value: Any = None


def _configure(connection: psycopg.Connection[Any]) -> None:
    connection.read_only = True
    # A pooler gives each transaction another server session, without the statements prepared in the last one.
    connection.prepare_threshold = None
    set_json_loads(_loads, connection)
    connection.adapters.register_loader("timestamptz", _FiniteTimeLoader)


class _FiniteTimeLoader(Loader):
    """Loads times; infinite ones, which datetime does not have, as None."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._finite = TimestamptzLoader(oid, context)

    def load(self, data: Buffer) -> datetime | None:
        return None if bytes(data) in (b"infinity", b"-infinity") else self._finite.load(data)


def _loads(text: str | bytes) -> Any:
    """Parse JSON without a loss of digits: 1.10 stays 1.10, and 1e400 is not infinite."""
    return json.loads(text, parse_float=Decimal)
