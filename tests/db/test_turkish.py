"""A database in which lower('I') is not 'i'."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice import EventLog, WorkQueue, schema
from support import value


@pytest.fixture
def turkish(servers):
    server = servers.get("15")
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(
            "create database turkish template template0 encoding 'UTF8' locale_provider icu icu_locale 'tr-TR'"
        )
    with psycopg.connect(server.url("turkish"), autocommit=True) as connection:
        assert value(connection, "select lower('I')") == "\u0131"
        schema.install(connection)
        yield connection
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("drop database turkish")


@pytest.mark.slow
def test_queues_logs_and_schedules_work_under_turkish_rules_for_letters(turkish):
    queue, log = WorkQueue(turkish), EventLog(turkish)
    for name in ("ISTANBUL", "istanbul", "IŞIK"):
        queue.create(name)
        queue.send(name, {"name": name})
        (message,) = queue.read(name)
        assert queue.archive(name, message.msg_id)
    log.create("INSERTS")
    turkish.execute("select pgq.grant_perms('INSERTS')")
    turkish.execute(
        "select sluice.schedule('FRIDAY', 'ISTANBUL', '{}'::jsonb, cron => '0 9 * * FRI', time_zone => 'EUROPE/ISTANBUL')"
    )

    assert schema.verify(turkish) == ()
    assert schema.install(turkish) == ()
