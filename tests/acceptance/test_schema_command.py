"""`pgsluice schema` in a database that has or had PGMQ: output and exit codes."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest

from support import rows, value
from support.adopt import fill
from support.pgmq import upstream_sql


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        connection.execute("drop schema pgmq, pgq, pgq_coop, sluice cascade")
        yield connection


@pytest.fixture
def run(command, connection):
    return partial(command, "schema")


@pytest.mark.slow
def test_pgmq_is_planned_adopted_and_verified(run, connection):
    connection.execute(upstream_sql())
    fill(connection)

    planned = run("adopt", "--plan").stdout.splitlines()
    assert value(connection, "select to_regnamespace('sluice') is null") is True
    adopted = run("adopt").stdout.splitlines()

    assert "make the sequences of unlogged queues logged: 1" in planned
    assert adopted == [*(f"done: {line}" for line in planned), "the schema is adopted"]
    assert run("verify").stdout == "the schema matches this release\n"
    assert run("adopt", "--plan").stdout == "nothing to do\n"
    assert run("adopt").stdout == "the schema is adopted\n"
    assert rows(connection, "select msg_id from pgmq.read('orders', 1, 1)") == [(101,)]


def test_obstacles_to_adoption_are_printed_and_nothing_changes(run, connection):
    connection.execute(upstream_sql())
    connection.execute("select pgmq.create('Orders'), pgmq.create('orders')")

    planned = run("adopt", "--plan", code=1).stdout.splitlines()
    refused = run("adopt", code=3).stderr

    obstacle = "queues 'Orders' and 'orders' share the table pgmq.q_orders; keep the name that your clients use"
    assert planned[-1].startswith(f"obstacle: {obstacle}")
    assert refused.startswith(f"pgsluice: PGMQ cannot be adopted: {obstacle}")
    assert value(connection, "select to_regnamespace('sluice') is null") is True


@pytest.mark.slow
def test_a_table_that_stays_locked_is_named_after_the_deadline(run, connection, database_18):
    connection.execute(upstream_sql())
    fill(connection)
    with database_18.connect(autocommit=False) as long:
        long.execute("select pgmq.send('orders', '1'::jsonb)")

        refused = run("adopt", "--lock-timeout", "200ms", code=3).stderr
        long.rollback()

    assert "could not lock the tables within 0.2 s; end long-running transactions" in refused
    assert "pgmq.q_orders" in refused


def test_adopt_without_pgmq_is_an_error(run):
    assert "this database has neither PGMQ nor PgQ to adopt" in run("adopt", code=3).stderr


@pytest.mark.slow
def test_the_older_names_are_installed_when_asked_for_and_stay(run, connection):
    older = "select to_regprocedure('public.pgmq_send(text, jsonb)') is not null"
    run("install")
    assert value(connection, older) is False

    assert "ran migration legacy/0001_names" in run("install", "--with", "legacy").stdout
    connection.execute("drop function public.pgmq_send(text, jsonb)")
    assert "+function public.pgmq_send" in run("verify", code=1).stdout
    run("upgrade")

    assert value(connection, older) is True
    assert run("upgrade", "--plan").stdout == "nothing to do\n"
    run("uninstall", "--yes")
    assert value(connection, older) is False


@pytest.mark.slow
def test_the_older_names_are_printed_when_asked_for():
    command = [
        sys.executable,
        "-c",
        "from pgsluice.cli.main import main; main()",
        "schema",
        "install",
        "--print",
    ]

    without, with_them = (
        subprocess.run([*command, *more], capture_output=True, text=True, check=True).stdout
        for more in ([], ["--with", "legacy"])
    )

    assert "public.pgmq_send" not in without
    assert "create or replace function public.pgmq_send(" in with_them
