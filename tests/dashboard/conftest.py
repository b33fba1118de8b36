"""Dashboards over the test's database: in this process, and served for a browser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from playwright.sync_api import Browser, Page
from psycopg.conninfo import make_conninfo
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pgsluice.client import EventLog, WorkQueue
from pgsluice.dashboard import app
from pgsluice.dashboard.serving import serving as serve
from pgsluice.embedded import EmbeddedServer
from support.browsing import chromium
from support.dashboard import KEY, LOCAL, SAME_ORIGIN, make_world, with_key
from support.lively import fill
from support.servers import TEMPLATE, Database
from support.site_settings import set_if_odd


@pytest.fixture
def connection(database_18: Database) -> Iterator[psycopg.Connection]:
    with database_18.connect() as connection:
        yield connection


@pytest.fixture
def work(connection: psycopg.Connection) -> WorkQueue:
    return WorkQueue(connection)


@pytest.fixture
def logs(connection: psycopg.Connection) -> EventLog:
    return EventLog(connection)


@pytest.fixture
def opened(database_18: Database) -> Iterator[Callable[..., TestClient]]:
    """Opens a dashboard with the given options; its client is on this machine."""
    with ExitStack() as stack:

        def open_one(url: str = "", **options: Any) -> TestClient:
            if options.get("allow_actions") and "authenticate" not in options:
                options.setdefault("key", KEY)
            dashboard = app(url or database_18.url, **{"refresh_s": 0.1, **options})
            client = stack.enter_context(TestClient(dashboard, **LOCAL))
            return with_key(client) if options.get("key") else client

        yield open_one


@pytest.fixture
def client(opened: Callable[..., TestClient]) -> TestClient:
    """A read-only dashboard."""
    return opened()


@pytest.fixture
def acting(opened: Callable[..., TestClient]) -> TestClient:
    """A dashboard that offers actions; forms are of the same origin."""
    client = opened(allow_actions=True)
    client.headers.update(SAME_ORIGIN)
    return client


@pytest.fixture
def monitor(database_18: Database, opened: Callable[..., TestClient]) -> Iterator[TestClient]:
    """A dashboard whose role has sluice_monitor only."""
    name = f"dashboard_monitor_{os.getpid()}"  # roles are those of the whole server
    with database_18.connect() as admin:
        admin.execute(f"drop role if exists {name}")
        admin.execute(f"create role {name} login in role sluice_monitor")
        yield opened(make_conninfo(database_18.url, user=name))
        admin.execute(f"drop role {name}")


@contextmanager
def serving(dashboard: Starlette, port: int = 0) -> Iterator[str]:
    """Serve an app in a thread; yield its address, without a slash at the end."""
    with serve(dashboard, "127.0.0.1", port, "--port") as address:
        yield address.rstrip("/")


@contextmanager
def filled(server: EmbeddedServer, name: str) -> Iterator[str]:
    """Yield the address of a new database in which much goes on."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"create database {name} template {TEMPLATE} strategy file_copy")
        set_if_odd(admin, name)
        with psycopg.connect(server.url(name), autocommit=True) as connection:
            fill(connection)
            yield server.url(name)
        admin.execute(f"drop database {name} with (force)")


@pytest.fixture(scope="module")
def lively(server_18: EmbeddedServer) -> Iterator[str]:
    """The address of a database in which much goes on, for tests that change nothing."""
    with filled(server_18, "lively") as url:
        yield url


# Not of the session: Playwright keeps an event loop running, and tests of other files start their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@contextmanager
def tab_of(browser: Browser, **options: Any) -> Iterator[Page]:
    """A tab whose console, errors and refused resources must stay empty."""
    context = browser.new_context(timezone_id="Europe/Berlin", **options)
    context.set_default_timeout(20_000)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith(("http://127.0.0.1:", "data:"))
            else said.append(f"request to {request.url}")
        ),
    )
    yield page
    context.close()
    assert said == []


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    with tab_of(browser) as page:
        yield page


@pytest.fixture(scope="module")
def world(server_18: EmbeddedServer) -> Iterator[Database]:
    """A database with something for each act; tests of a module share it."""
    database = Database(server_18, f"world_{uuid4().hex[:12]}")
    with psycopg.connect(server_18.url(), autocommit=True) as admin:
        admin.execute(f"create database {database.name} template {TEMPLATE} strategy file_copy")
        set_if_odd(admin, database.name)
        with database.connect() as connection:
            make_world(connection)
        yield database
        admin.execute(f"drop database {database.name} with (force)")


@pytest.fixture(scope="module")
def as_role(server_18: EmbeddedServer) -> Iterator[Callable[[Database, str], str]]:
    """Returns the address of a database for a new role, which is a member of another."""
    with psycopg.connect(server_18.url(), autocommit=True) as admin, ExitStack() as stack:

        def make(database: Database, member_of: str) -> str:
            name = f"role_{uuid4().hex[:12]}"
            admin.execute(f"create role {name} login in role {member_of}")
            stack.callback(admin.execute, f"drop role {name}")
            return make_conninfo(database.url, user=name)

        yield make
