"""Django in the process of the tests, on a database of theirs."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest

from contrib.django_project.databases import database_of
from support.processes import environment

SETTINGS = "contrib.django_project.settings"
TESTS = Path(__file__).parents[2]
_names = itertools.count(1)


@pytest.fixture(scope="module")
def url(server_18: Any) -> Iterator[str]:
    """Address of a database with the schemas and the tables of the project, which Django uses as `default`."""
    name = f"django_{next(_names)}"
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template sluice_template")
        for _ in django_on(server_18.url(name)):
            from django.core.management import call_command

            call_command("migrate", verbosity=0)
            yield server_18.url(name)
        # Without `force`: tests and workers leave no session.
        connection.execute(f"drop database {name}")


def django_on(dsn: str) -> Iterator[None]:
    """Set up Django once in this process; processes that tests start do not inherit its settings."""
    with mock.patch.dict(os.environ, DJANGO_SETTINGS_MODULE=SETTINGS, PGSLUICE_DSN=dsn):
        import django

        django.setup()
    from django.db import connections

    before = dict(connections.settings["default"])
    connections.settings["default"].update(database_of(dsn))
    yield
    connections.close_all()
    connections.settings["default"].update(before)


@pytest.fixture
def connection(url: str) -> Iterator[Any]:
    """Django's connection of the test's thread."""
    from django.db import connection

    from contrib.django_project.shop.models import Parcel

    yield connection
    Parcel.objects.all().delete()
    connection.close()


@pytest.fixture
def max_age(connection: Any) -> Iterator[Callable[[int | None], None]]:
    """A function that sets CONN_MAX_AGE."""
    before = connection.settings_dict["CONN_MAX_AGE"]

    def set_to(seconds: int | None) -> None:
        connection.settings_dict["CONN_MAX_AGE"] = seconds

    yield set_to
    set_to(before)


@pytest.fixture
def observer(url: str) -> Iterator[psycopg.Connection]:
    """A connection that is not Django's."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def queue(observer: psycopg.Connection) -> str:
    """A queue of the test."""
    name = f"queue_{next(_names)}"
    observer.execute("select pgmq.create(%s)", [name])
    return name


@pytest.fixture
def empty_database_18(server_18: Any, make_database_18: Callable[[], Any]) -> Any:
    """A database without the schemas, on PostgreSQL 18."""
    database = make_database_18()
    with psycopg.connect(server_18.url(), autocommit=True) as admin:
        admin.execute(f"drop database {database.name}")
        admin.execute(f"create database {database.name} template template0")
    return database


def manage(*arguments: str, status: int = 0, **variables: str) -> str:
    """Run a command of the project to its end; return its output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "django", *arguments],
        cwd=TESTS,
        env=environment(TESTS, DJANGO_SETTINGS_MODULE=SETTINGS, **variables),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == status, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
