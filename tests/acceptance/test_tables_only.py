"""Commands in a database with the tables of queues, and without functions."""

from __future__ import annotations

import json

import psycopg
from click.testing import CliRunner

from pgsluice.cli.main import cli
from pgsluice.client import TableQueue
from pgsluice.errors import SluiceError


def test_tables_only_is_known_to_every_command(empty_database):
    """One installation for all: it is the same state."""
    only = "only the tables are installed"

    def ran(*arguments, code=0):
        done = CliRunner().invoke(cli, [*arguments, "--dsn", empty_database.url])
        error = f"error: {done.exception}" if isinstance(done.exception, SluiceError) else ""
        assert done.exit_code == code or error, done.output
        return done.output + error

    ran("schema", "install", "--tables-only")
    with psycopg.connect(empty_database.url) as connection:
        TableQueue(connection).create("orders")

    verified = ran("schema", "verify")
    assert only in verified
    assert verified.endswith("the schema matches this release\n")
    assert "nothing to do" in ran("schema", "upgrade", "--plan")
    assert only in ran("schema", "upgrade")
    with psycopg.connect(empty_database.url) as connection:
        assert connection.execute("select to_regclass('pgq.queue')").fetchone() == (None,)
    status = json.loads(ran("status", "--json"))
    assert status["queues"] == ["orders"]
    assert only in status["installed"][0]
    assert status["problems"] == []
    assert "orders" in ran("queue", "list")
    assert "0 unknown" in ran("doctor")
    assert only in ran("queue", "send", "orders", "1", code=1)
    assert only in ran("dead-letters", "list", "orders", code=1)
    with psycopg.connect(empty_database.url, autocommit=True) as connection:
        connection.execute("alter table pgmq.q_orders drop column headers")
        connection.execute("alter table pgmq.meta drop column is_unlogged")
    assert "+column pgmq.meta.is_unlogged is missing" in ran("schema", "verify", code=1)
