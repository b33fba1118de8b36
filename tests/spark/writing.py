"""Writers whose transactions commit late or roll back."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from spark.conftest import LOG
from support.servers import Database


def insert(connection: psycopg.Connection, data: str) -> None:
    connection.execute("select pgq.insert_event(%s, 'test', %s)", (LOG, data))


class Writers:
    """Threads that insert events: some transactions stay open for a while, some roll back.

    They reconnect after an outage; commits without a reply are `unknown`.
    """

    def __init__(self, database: Database, *, count: int, seed: int) -> None:
        self.committed: list[str] = []
        self.unknown: list[str] = []
        self._database = database
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(f"{seed}/{number}",))
            for number in range(count)
        ]
        self._failed: list[BaseException] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self.stop()
        assert self._failed == []

    def stop(self) -> None:
        """Stop after the current transactions, which may be committed or not."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _write(self, seed: str) -> None:
        dice = random.Random(seed)
        try:
            while not self._stop.is_set():
                with suppress(psycopg.OperationalError):
                    self._write_until_lost(dice)
                self._stop.wait(0.1)
        except BaseException as error:
            self._failed.append(error)

    def _write_until_lost(self, dice: random.Random) -> None:
        with self._database.connect(autocommit=False) as connection:
            while not self._stop.is_set():
                self._transaction(connection, dice)
                self._stop.wait(dice.uniform(0, 0.1))

    def _transaction(self, connection: psycopg.Connection, dice: random.Random) -> None:
        kept = [str(uuid.uuid4()) for _ in range(dice.randint(1, 4))]
        for data in kept:
            insert(connection, data)
        if dice.random() < 0.2:
            kept += self._savepoint(connection, dice)
        if dice.random() < 0.1:
            self._stop.wait(dice.uniform(0, 2))
        if dice.random() < 0.07:
            connection.rollback()
            return
        try:
            connection.commit()
        except psycopg.OperationalError:
            self.unknown += kept
            raise
        self.committed += kept

    def _savepoint(self, connection: psycopg.Connection, dice: random.Random) -> list[str]:
        data = str(uuid.uuid4())
        connection.execute("savepoint s")
        insert(connection, data)
        if dice.random() < 0.5:
            connection.execute("rollback to savepoint s")
            return []
        connection.execute("release savepoint s")
        return [data]


class NaiveReader:
    """A thread that reads events with a higher id than the last one, a common mistake."""

    def __init__(self, database: Database) -> None:
        self.found: set[str] = set()
        self._database = database
        self._last_id = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(30)

    def _read(self) -> None:
        while not self._stop.is_set():
            with suppress(psycopg.OperationalError), self._database.connect() as connection:
                while not self._stop.wait(0.05):
                    for ev_id, data in connection.execute(
                        "select ev_id, ev_data from pgq.event_1 where ev_id > %s order by ev_id",
                        (self._last_id,),
                    ):
                        self.found.add(data)
                        self._last_id = ev_id
