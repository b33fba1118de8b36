"""Adoption of PGMQ's extension: the extension is dropped and its objects are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgsluice import schema
from pgsluice.errors import SchemaError
from support import rows, value
from support.adopt import add_users, contents, extension_files, fill, rights
from support.pgmq import UPSTREAM_VERSION, upstream_sql

EXTENSIONS = "select extname from pg_extension where extname ~ 'pgmq'"


FILES = {
    "pgmq.control": f"default_version = '{UPSTREAM_VERSION}'\nschema = 'pgmq'\nrelocatable = false\n",
    "on_pgmq.control": "default_version = '1'\nrequires = 'pgmq'\n",
    "on_pgmq--1.sql": "",
}


@pytest.fixture
def extension(empty_database, server, servers_folder: Path) -> Iterator[psycopg.Connection]:
    """A session in a database with `create extension pgmq`."""
    files = {**FILES, f"pgmq--{UPSTREAM_VERSION}.sql": upstream_sql()}
    with (
        extension_files(server, servers_folder, files) as path,
        empty_database.connect() as connection,
    ):
        connection.execute(path)
        connection.execute("create extension pgmq")
        yield connection


@pytest.fixture
def client(extension, role):
    """A role of another application."""
    yield role
    extension.execute("reset role")
    extension.execute(f"drop owned by {role} cascade")


def test_the_extension_is_dropped_and_everything_stays(extension, client):
    fill(extension)
    add_users(extension, client)
    extension.execute("select pgmq.enable_notify_insert('orders', 40)")
    before = (contents(extension), rights(extension))

    plan = schema.plan_adoption(extension)
    steps = schema.adopt(extension)

    assert plan.steps == steps
    [detached] = [line for line in steps if line.startswith("detach")]
    assert detached.startswith("detach objects from the extension pgmq 1.13.0, and drop it: ")
    assert int(detached.split()[-1]) >= 76 + 3 + 3
    assert any("init_extension=False" in line for line in steps)
    assert (contents(extension), rights(extension)) == before
    assert rows(extension, EXTENSIONS) == []
    assert schema.verify(extension) == ()
    extension.execute(f"set role {client}")
    assert rows(extension, "select msg_id from pgmq.read('orders', 9, 1)") == [(101,)]


@pytest.mark.slow
def test_tables_of_queues_that_belong_to_the_extension_stay(extension):
    # Before PGMQ 1.6, pgmq.create made the tables members of the extension.
    fill(extension)
    extension.execute(
        """alter extension pgmq add table pgmq.q_orders; alter extension pgmq add table pgmq.a_orders;
        alter extension pgmq add sequence pgmq.q_orders_msg_id_seq"""
    )
    before = contents(extension)

    schema.adopt(extension)

    assert contents(extension) == before


def test_an_extension_that_needs_it_is_named(extension):
    extension.execute("create extension on_pgmq")

    with pytest.raises(
        SchemaError, match="extension on_pgmq needs the extension pgmq; drop extension on_pgmq"
    ):
        schema.adopt(extension)

    assert len(rows(extension, EXTENSIONS)) == 2
    extension.execute("drop extension on_pgmq")
    schema.adopt(extension)


@pytest.mark.parametrize("version", ["1.4.5", "1.14.0", "2.0.0", "unknown"])
def test_a_version_that_is_not_known_is_refused(extension, version):
    extension.execute("update pg_extension set extversion = %s where extname = 'pgmq'", (version,))

    with pytest.raises(
        SchemaError,
        match=f"the extension pgmq is version {version}; this release adopts 1.5 to 1.13",
    ):
        schema.adopt(extension)

    assert value(extension, "select count(*) from pg_extension where extname = 'pgmq'") == 1


def test_the_owner_of_the_extension_is_named_to_others(extension, empty_database, client):
    extension.execute(f"grant usage on schema pgmq to {client}")

    with psycopg.connect(
        empty_database.url.replace("postgres@", f"{client}@"), autocommit=True
    ) as stranger:
        plan = schema.plan_adoption(stranger)

    assert any("extension" in line and "belong to postgres" in line for line in plan.objections)
