"""Writers whose transactions end late, or not at all."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from conftest import Database
from spark.conftest import LOG


def insert(connection: psycopg.Connection, data: str) -> None:
    connection.execute("select pgq.insert_event(%s, 'test', %s)", (LOG, data))


class Writers:
    """Threads that insert events: some transactions stay open for a while, some roll back."""

    def __init__(self, database: Database, *, count: int, seed: int) -> None:
        self.committed: list[str] = []
        self._database = database
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(seed + number,)) for number in range(count)
        ]
        self._failed: list[BaseException] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(30)
        assert self._failed == []

    def _write(self, seed: int) -> None:
        dice = random.Random(seed)
        try:
            with self._database.connect(autocommit=False) as connection:
                while not self._stop.is_set():
                    self._transaction(connection, dice)
                    self._stop.wait(dice.uniform(0, 0.1))
        except BaseException as error:
            self._failed.append(error)

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
        else:
            connection.commit()
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
