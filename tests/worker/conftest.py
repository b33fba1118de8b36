"""A database per test file, a queue per test, and a table for the effects of handlers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from support.site_settings import set_if_odd

_names = itertools.count(1)


@pytest.fixture(scope="module")
def worker_url(server_18: Any) -> Iterator[str]:
    name = f"worker_{next(_names)}"
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template sluice_template")
        set_if_odd(connection, name)
        connection.execute(f"alter database {name} set search_path = public")  # of handlers
        with psycopg.connect(server_18.url(name), autocommit=True) as inside:
            inside.execute("create table effect (queue_name text, msg_id bigint, note text)")
        yield server_18.url(name)
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture(scope="module")
def pool(worker_url: str) -> Iterator[ConnectionPool]:
    with ConnectionPool(worker_url, min_size=1, max_size=8, open=True) as pool:
        yield pool


@pytest.fixture
def observer(worker_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(worker_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def queue_name(observer: psycopg.Connection) -> str:
    name = f"work_{next(_names)}"
    observer.execute("select pgmq.create(%s)", [name])
    return name
