"""Databases that are shards, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import shards as calls
from pgsluice.shards import Directory, Shards

KEY = "x-pgmq-group"
FIRST = json.dumps({"names": ["a", "b"], "pins": {}})
SECOND = json.dumps({"names": ["a", "b"], "pins": {"acme": "b"}})
CHECK = "select sluice.check_shard(%s, %s)"
BEGIN = "select sluice.begin_directory(%s, %s, %s, %s)"
FINISH = "select sluice.finish_directory(%s)"


def key_of(directory: Directory, name: str, number: int = 0) -> str:
    """Return a key that belongs to a shard."""
    homes = (f"key {each}" for each in range(10_000))
    return [key for key in homes if directory.home(key) == name][number]


@dataclass
class Fleet:
    """Databases by the name of their shard."""

    urls: dict[str, str]
    generation: int = 0
    directory: Directory | None = None

    @property
    def shards(self) -> Shards:
        return Shards.of(self.urls)

    def on(self, name: str, query: str, *parameters: object) -> list[tuple]:
        """Run a statement in the database of a shard; return its rows, if it has any."""
        with psycopg.connect(self.urls[name], autocommit=True) as connection:
            cursor = connection.execute(query, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def begin(self, pins: Mapping[str, str] | None = None, *, on: str | None = None) -> None:
        """Begin a directory in all databases, or in those of these names."""
        directory, before = Directory(tuple(sorted(self.urls)), dict(pins or {})), self.directory
        self.generation, self.directory = self.generation + 1, directory
        for name in on or self.urls:
            self._run(name, calls.begin_directory(name, self.generation, directory, before))

    def finish(self, *, on: str | None = None) -> None:
        """Finish it."""
        for name in on or self.urls:
            self._run(name, calls.finish_directory(self.generation))

    def apply(self, pins: Mapping[str, str] | None = None) -> None:
        """Change the directory, without moving messages."""
        self.begin(pins)
        self.finish()

    def create_queue(self, queue_name: str = "jobs") -> None:
        for name in self.urls:
            self.on(name, "select pgmq.create(%s)", queue_name)

    def messages(self, queue_name: str = "jobs") -> dict[str, list[tuple[Any, Any]]]:
        """Return message and key of each message, by shard."""
        query = f"select message, headers ->> '{KEY}' from pgmq.q_{queue_name} order by msg_id"
        return {name: self.on(name, query) for name in self.urls}

    def key(self, name: str, number: int = 0) -> str:
        assert self.directory is not None
        return key_of(self.directory, name, number)

    def file(self, folder: Path, pins: Mapping[str, str] | None = None) -> Path:
        """Write the file of shards."""
        lines = [f'{name} = {{ dsn = "{url}" }}' for name, url in self.urls.items()]
        pinned = [f'"{key}" = "{name}"' for key, name in (pins or {}).items()]
        path = folder / "shards.toml"
        path.write_text("\n".join(["[shards]", *lines, "[pins]", *pinned]) + "\n")
        return path

    def _run(self, name: str, call: Any) -> None:
        with psycopg.connect(self.urls[name], autocommit=True) as connection:
            Runner(connection).run(call)


def fleet_of(make_database: Callable[[], Any], names: str = "ab") -> Fleet:
    """Return new databases with an active directory."""
    fleet = Fleet({name: make_database().url for name in names})
    fleet.apply()
    return fleet


def error_of(
    connection: psycopg.Connection, query: str, parameters: tuple[object, ...]
) -> psycopg.Error:
    """Return the error of a statement."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(query, parameters)
    return caught.value
