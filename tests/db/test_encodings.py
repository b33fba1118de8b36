"""Databases of other encodings than UTF-8."""

from __future__ import annotations

import psycopg
import pytest
from psycopg_pool import ConnectionPool

import pgsluice
from pgsluice import (
    DeadLetters,
    EventLog,
    Operations,
    PayloadError,
    ServerError,
    ShareGroup,
    WorkQueue,
    schema,
)
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls.operations import WorkerIdentity, report_worker
from pgsluice.client.calls.pipelines import hold_pipeline
from pgsluice.sessions import SluiceConnection
from pgsluice.worker import App, EventConsumer, RetryPolicy
from pgsluice.worker.engine.flow.worker import Worker
from support import rows, value


@pytest.fixture
def make_url(server_18):
    made = []

    def make(encoding):
        name = f"encoded_{encoding.lower()}"
        with psycopg.connect(server_18.url(), autocommit=True) as connection:
            connection.execute(
                f"create database {name} template template0 encoding '{encoding}' locale 'C'"
            )
        made.append(name)
        return server_18.url(name)

    yield make
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        for name in made:
            connection.execute(f"drop database {name} with (force)")


async def test_queues_logs_and_workers_work_in_a_database_in_latin1(make_url):
    url = make_url("LATIN1")
    with pgsluice.connect(url, autocommit=True) as connection:
        schema.install(connection)
        assert schema.verify(connection) == ()
        queue, log = WorkQueue(connection), EventLog(connection)
        queue.create("jobs")
        with pytest.raises(PayloadError, match="has no equivalent in encoding"):
            queue.send("jobs", {"n": "東京"})
        queue.send("jobs", {"n": "Zürich"})
        log.create("log")
        group = ShareGroup(connection, "log", "group")
        group.create(key="ev_data")
        log.insert_event("log", "t", "ü" * 600)
        log.log_tick("log")
        assert [event.ev_data for event in group.claim(5)] == ["ü" * 600]

        app, seen = App(url, name="tests"), []

        @app.handler("jobs", retry=RetryPolicy(max_attempts=1))
        def fails(payload):
            seen.append(payload)
            raise ValueError("東京 is not in Zürich")

        (counts,) = (await Worker(app).run_until_empty(idle_s=0.2)).values()

        assert (seen, counts.dead) == ([{"n": "Zürich"}], 1)
        error = value(connection, "select error from sluice.dead_letter")
        assert error == r"\u6771\u4eac is not in Zürich"


def test_dead_letters_of_consumers_and_reports_are_stored_in_a_database_in_latin1(make_url):
    url = make_url("LATIN1")
    with pgsluice.connect(url, autocommit=True) as connection:
        schema.install(connection)
        log = EventLog(connection)
        log.create("log")
        log.register_consumer("log", "batches")
        log.insert_event("log", "t", "Zürich")
        log.log_tick("log")

        def fails(_connection, _event):
            raise ValueError("東京 is not in Zürich")

        with ConnectionPool(url, connection_class=SluiceConnection, min_size=1, open=True) as pool:
            consumed = EventConsumer(
                pool, "log", "batches", on_event=fails, retry=RetryPolicy(max_attempts=1), dead_letters=True
            ).run_once()  # fmt: skip
        (letter,) = DeadLetters(connection, "log", "batches").browse()
        runner = Runner(connection)
        identity = WorkerIdentity("w", "東京", "host", 1, "0", ["queue jobs"], 1)
        runner.run(report_worker(identity, 1.0, [], {"東京": {"done": 1}}, None))
        pid = connection.info.backend_pid
        is_held, _ = runner.run(hold_pipeline("log", "batches", "events", "/lake/東京", pid))

        assert consumed is not None
        assert consumed.dead == 1
        assert letter.error == r"\u6771\u4eac is not in Zürich"
        (worker,) = Operations(connection).list_workers()
        assert worker.app == r"\u6771\u4eac"
        assert is_held


def test_a_database_in_sql_ascii_is_refused_at_once(make_url):
    with pgsluice.connect(make_url("SQL_ASCII"), autocommit=True) as connection:
        with pytest.raises(ServerError, match="the encoding of database .* is SQL_ASCII"):
            schema.install(connection)
        assert rows(connection, "select from pg_namespace where nspname = 'pgmq'") == []
