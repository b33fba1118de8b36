"""Pytest fixtures for projects that use pgsluice: a database per test, or a transaction per test that is rolled back.

A module outside the package: pytest imports it in every run, and must not import the package before a test uses a
fixture.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

    from pgsluice.testing.databases import Databases


@dataclass(frozen=True, slots=True)
class PgsluiceDatabase:
    """An empty database with the schemas installed.

    Attributes:
        dsn: Connection string, as accepted by all of pgsluice.
    """

    dsn: str

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Open a connection, by default in autocommit mode; the caller closes it."""
        import psycopg

        return psycopg.connect(self.dsn, **{"autocommit": True, **options})


@pytest.fixture(scope="session")
def _pgsluice_databases() -> Iterator[Databases]:
    from pgsluice import Settings
    from pgsluice.testing.databases import Databases

    with contextlib.closing(Databases(Settings.load().embedded_version)) as made:
        yield made


@pytest.fixture
def pgsluice_database(
    _pgsluice_databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PgsluiceDatabase]:
    """Yield a database of the test's own with the schemas installed, on an embedded server started by the first test.

    During the test `PGSLUICE_DSN` names it, so an `App()` without another DSN uses it.
    """
    name = _pgsluice_databases.make()
    dsn = _pgsluice_databases.url(name)
    monkeypatch.setenv("PGSLUICE_DSN", dsn)
    yield PgsluiceDatabase(dsn)
    _pgsluice_databases.drop(name)


@pytest.fixture(scope="session")
def pgsluice_shared_database(_pgsluice_databases: Databases) -> PgsluiceDatabase:
    """Return a database for the whole run, for tests that roll back; a session fixture may create tables in it."""
    return PgsluiceDatabase(_pgsluice_databases.url(_pgsluice_databases.make()))


@pytest.fixture
def pgsluice_connection(
    pgsluice_shared_database: PgsluiceDatabase,
) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection in a transaction that is rolled back after the test."""
    import psycopg

    with (
        contextlib.closing(psycopg.connect(pgsluice_shared_database.dsn)) as connection,
        connection.transaction(force_rollback=True),  # refuses commit() and rollback()
    ):
        yield connection


async def _async_connection(
    pgsluice_shared_database: PgsluiceDatabase,
) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Like `pgsluice_connection`, for tests in an event loop."""
    import psycopg

    async with (
        await psycopg.AsyncConnection.connect(pgsluice_shared_database.dsn) as connection,
        connection.transaction(force_rollback=True),
    ):
        yield connection


def _async_fixture() -> Any:
    # In its strict mode pytest-asyncio runs only its own fixtures; without it, the plugin of anyio runs any.
    if find_spec("pytest_asyncio") is None:
        return pytest.fixture
    import pytest_asyncio

    return pytest_asyncio.fixture


pgsluice_async_connection = _async_fixture()(name="pgsluice_async_connection")(_async_connection)
