"""Plugin of pytest for the tests of an example: that of the package, on the server of $EXAMPLE_SERVER.

The embedded server, which the plugin of the package starts, has no PostgreSQL 15.
"""

from __future__ import annotations

import itertools
import os

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgsluice_pytest import (
    pgsluice_async_connection,
    pgsluice_connection,
    pgsluice_database,
    pgsluice_shared_database,
)

__all__ = [
    "pgsluice_async_connection",
    "pgsluice_connection",
    "pgsluice_database",
    "pgsluice_shared_database",
]


class Databases:
    """Databases with the schemas, see `pgsluice.testing.databases.Databases`."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._numbers = itertools.count(1)

    def make(self) -> str:
        name = f"example_{os.getpid()}_{next(self._numbers)}"
        self._run(f"create database {name} template sluice_template")
        return name

    def url(self, name: str) -> str:
        return make_conninfo(self._server, dbname=name)

    def drop(self, name: str) -> None:
        self._run(f"drop database {name} with (force)")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def _pgsluice_databases() -> Databases:
    return Databases(os.environ["EXAMPLE_SERVER"])
