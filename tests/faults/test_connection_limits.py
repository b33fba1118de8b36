"""Workers, commands and dashboards that get no connection because a connection limit is reached."""

from __future__ import annotations

import html
import tempfile
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from faults.workers import QUEUES, Workers
from pgsluice import WorkQueue, schema
from pgsluice.cli.main import cli
from pgsluice.dashboard import app
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import ConnectionFailedError
from support import value
from support.dashboard import LOCAL

EACH = 5


@pytest.fixture
def member(connection):
    """A role that may run workers, and is no superuser."""
    name = f"member_of_{value(connection, 'select current_database()::text')}"
    connection.execute(f"create role {name} login in role sluice_admin")
    connection.execute(f"grant all on effect to {name}")
    yield name
    connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", [name]
    )
    connection.execute(f"drop owned by {name}")
    connection.execute(f"drop role {name}")


@pytest.mark.parametrize("limited", ["role", "database"])
def test_a_worker_that_gets_no_connection_names_the_limit_and_starts_when_there_is_room(
    connection, queue, workers, database_18, member, limited
):
    name = member if limited == "role" else database_18.name
    url = psycopg.conninfo.make_conninfo(database_18.url, user=member)
    queue.send_batch("threads", [{"n": n} for n in range(EACH)])
    connection.execute(f"alter {limited} {name} connection limit 0")
    some = workers("threads", "--no-maintenance", url=url)
    process = some.start()

    warning = f'too many connections for {limited} "{name}"'
    some.wait_until(lambda: some.log().count(warning) >= 2, "two warnings")
    assert process.poll() is None
    connection.execute(f"alter {limited} {name} connection limit -1")
    some.wait_until(lambda: len(some.lines("done")) == EACH, "all messages to be handled")

    lines = [line for line in some.log().splitlines() if warning in line]
    assert all("WARNING pgsluice.worker.process.process: cannot connect" in line for line in lines)


@pytest.mark.long
def test_a_worker_that_finds_the_server_full_names_it_and_starts_when_there_is_room(
    servers_folder, tmp_path
):
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "full", options={"fsync": "off", "max_connections": "10"})
    server.start()
    try:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            schema.install(connection)
            connection.execute("create table effect (n bigint, attempt integer)")
            for name in QUEUES:
                WorkQueue(connection).create(name)
            WorkQueue(connection).send_batch("threads", [{"n": n} for n in range(EACH)])
            others = [psycopg.connect(server.url()) for _ in range(9)]
            with Workers(server.url(), tmp_path, queues="threads") as some:
                process = some.start()
                some.wait_until(lambda: some.log().count("too many clients already") > 3, "lines")
                assert process.poll() is None
                for other in others:
                    other.close()
                some.wait_until(
                    lambda: len(some.lines("done")) == EACH, "all messages to be handled"
                )
            assert value(connection, "select count(*) from effect") == EACH
    finally:
        server.stop("immediate")


@pytest.mark.slow
def test_all_programs_that_lose_their_connections_name_the_limit_and_continue_when_there_is_room(
    connection, queue, workers, database_18, member
):
    url = psycopg.conninfo.make_conninfo(database_18.url, user=member)
    some = workers("threads", url=url)
    some.start()
    queue.send("threads", {"n": 0})
    some.wait_for("done", 0)
    warning = f'too many connections for role "{member}"'
    dsn = ["--dsn", url]

    with TestClient(app(url, refresh_s=0.1), **LOCAL) as dashboard:
        assert dashboard.get("/queues").status_code == 200
        connection.execute(f"alter role {member} connection limit 0")
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", [member]
        )
        queue.send_batch("threads", [{"n": n} for n in range(1, EACH)])
        for command in (
            ["status"],
            ["doctor"],
            ["queue", "send", "threads", "{}"],
            ["worker", "check", "faults.app:app"],
        ):
            done = CliRunner().invoke(cli, [*command, *dsn])
            assert isinstance(done.exception, ConnectionFailedError), command
            assert warning in str(done.exception)
        for page in ("/", "/messages?queue=threads"):
            shown = dashboard.get(page)
            assert shown.status_code == 503
            assert warning in html.unescape(shown.text)
        some.wait_until(lambda: warning in some.log(), "a warning")

        connection.execute(f"alter role {member} connection limit -1")
        some.wait_until(lambda: len(some.lines("done")) == EACH, "all messages to be handled", 10)
        some.wait_until(lambda: dashboard.get("/").status_code == 200, "the dashboard", 10)
    assert value(connection, "select count(*) from effect") == EACH
