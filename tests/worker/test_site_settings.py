"""Sessions of ours do not depend on what a role, a database or the environment sets."""

from __future__ import annotations

import json
import re
import threading

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import AsyncConnection, conninfo
from psycopg.types.json import set_json_loads
from psycopg_pool import ConnectionPool

import pgsluice
from pgsluice import AsyncWorkQueue, ConfigurationError, EventLog, ShareGroup, WorkQueue
from pgsluice.cli.main import cli
from pgsluice.connection import resolve
from pgsluice.ops.doctor import diagnose
from pgsluice.sessions import AsyncSluiceConnection, Session, SessionUse, SluiceConnection
from pgsluice.worker import App, Context, Maintenance, SyncContext
from pgsluice.worker.engine.claim import start_checks
from pgsluice.worker.engine.connections.pooler import require_transactions
from pgsluice.worker.engine.flow.worker import Worker
from pgsluice.worker.upkeep.maintainer import Maintainer
from support import rows, value
from support.pooler import pooling
from support.site_settings import ODD, set_for_database
from worker.test_worker import drained

TEXT = "Zürich → 東京"
DROPPED = (
    "a pooler drops the startup options, and default_transaction_isolation = 'serializable' is set .* "
    "run: alter role \"postgres\" set default_transaction_isolation = 'read committed'"
)
FORMS = ("client_encoding", "DateStyle", "IntervalStyle")


def show(*settings):
    columns = ", ".join(f"current_setting('{name}')" for name in settings)
    return f"select {columns}"


@pytest.fixture
def odd_url(make_database_18):
    database = make_database_18()
    with database.connect() as connection:
        connection.execute("create table public.effect (queue_name text, msg_id bigint, note text)")
        set_for_database(connection, database.name, ODD)
        if connection.info.server_version >= 170_000:
            set_for_database(connection, database.name, {"transaction_timeout": "'1h'"})
    return database.url


@pytest.fixture
def admin(odd_url):
    with pgsluice.connect(odd_url, autocommit=True) as connection:
        yield connection


def test_session_of_connect_has_our_settings_and_keeps_the_order_of_day_and_month(admin):
    changed = [name for name in ODD if name not in ("timezone", "search_path", "jit_above_cost")]
    changed.append("transaction_timeout")

    found = dict(zip(changed, admin.execute(show(*changed)).fetchone(), strict=True))

    assert found == {
        "client_encoding": "UTF8",
        "datestyle": "ISO, DMY",
        "intervalstyle": "postgres",
        "default_transaction_isolation": "read committed",
        "standard_conforming_strings": "on",
        "bytea_output": "hex",
        "extra_float_digits": "1",
        **dict.fromkeys(["lock_timeout", "statement_timeout", "transaction_timeout"], "0"),
        **dict.fromkeys(["idle_in_transaction_session_timeout", "idle_session_timeout"], "0"),
        "jit": "off",
        "plan_cache_mode": "auto",
        "quote_all_identifiers": "off",
        "client_min_messages": "notice",
    }
    assert value(admin, "show timezone") == "Asia/Kathmandu"


async def test_worker_handles_messages_and_events_under_settings_of_the_database(
    odd_url, admin, caplog
):
    app, seen = App(odd_url, name="tests"), []
    WorkQueue(admin).create("jobs")
    log = EventLog(admin)
    log.create("events")
    log.register_consumer("events", "batches")
    ShareGroup(admin, "events", "group").create()
    settings = show(*FORMS, "transaction_isolation", "statement_timeout", "idle_session_timeout")

    @app.handler("jobs", mode="transaction", key_concurrency=1)
    async def in_loop(payload, context: Context):
        async with context.transaction() as connection:
            cursor = await connection.execute(settings)
            seen.append(("loop", payload, await cursor.fetchone()))

    @app.handler(log="events", group="group")
    def in_thread(payload, context: SyncContext):
        with context.transaction() as connection:
            seen.append(("thread", payload, connection.execute(settings).fetchone()))

    WorkQueue(admin).send("jobs", {"n": TEXT})
    log.insert_event("events", "t", f'"{TEXT}"')
    log.log_tick("events")

    counts = await Worker(app).run_until_empty(idle_s=0.2)

    expected = ("UTF8", "ISO, DMY", "postgres", "read committed", "20s", "0")
    assert [count.done for count in counts.values()] == [1, 1]
    assert "discarding closed connection" not in caplog.text  # reset, and lent again
    assert sorted(seen, key=lambda call: call[0]) == [
        ("loop", {"n": TEXT}, expected),
        ("thread", f'"{TEXT}"', expected),
    ]


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
async def test_options_of_the_dsn_choose_the_isolation_level_of_handlers(
    worker_url, observer, queue_name, is_async
):
    dsn = conninfo.make_conninfo(
        worker_url, options="-c default_transaction_isolation=serializable"
    )
    app, seen = App(dsn, name="tests"), []
    query = show("transaction_isolation")

    async def in_loop(_payload, context: Context):
        async with context.transaction() as connection:
            seen.append(await (await connection.execute(query)).fetchone())

    def in_thread(_payload, context: SyncContext):
        with context.transaction() as connection:
            seen.append(connection.execute(query).fetchone())

    app.handler(queue_name, name="tested", mode="transaction")(in_loop if is_async else in_thread)
    WorkQueue(observer).send(queue_name, 1)

    assert (await drained(app)).done == 1
    assert seen == [("serializable",)]
    with pgsluice.connect(dsn) as connection:
        assert value(connection, query) == "read committed"


def test_limits_and_other_options_that_are_given_apply(worker_url, monkeypatch, tmp_path):
    settings = show("statement_timeout", "application_name", "work_mem", "DateStyle")
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=7s -c datestyle=SQL")
    with pgsluice.connect(worker_url) as connection:
        assert connection.execute(settings).fetchone()[::3] == ("7s", "ISO, MDY")
    service = tmp_path / "services"
    parts = conninfo.conninfo_to_dict(worker_url)
    lines = [f"{name}={setting}" for name, setting in parts.items()]
    service.write_text("\n".join(["[far]", *lines, "options=-c work_mem=5MB", ""]))
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    with pgsluice.connect("service=far") as connection:
        assert connection.execute(settings).fetchone()[:3] == ("0", "", "5MB")
    with pgsluice.connect(worker_url, options="-c work_mem=6MB") as connection:
        assert connection.execute(settings).fetchone()[2] == "6MB"


@pytest.mark.parametrize("name", FORMS)
def test_session_that_cannot_be_read_is_refused_before_anything_is_claimed(
    worker_url, observer, queue_name, name
):
    queue = WorkQueue(observer)
    queue.send_batch(queue_name, [1, 2])
    setting = {"client_encoding": "LATIN1", "DateStyle": "SQL, DMY", "IntervalStyle": "iso_8601"}

    with psycopg.connect(worker_url, autocommit=True) as connection:
        connection.execute("select set_config(%s, %s, false)", [name, setting[name]])
        for call in (
            lambda: WorkQueue(connection).read(queue_name),
            lambda: WorkQueue(connection).pop(queue_name),
        ):
            with pytest.raises(
                ConfigurationError,
                match=f"the session has {name} = '{setting[name]}'.* run in it: set {name} to ",
            ):
                call()

    assert rows(observer, f"select msg_id, read_ct from pgmq.q_{queue_name} order by 1") == [
        (1, 0),
        (2, 0),
    ]


async def test_async_session_that_cannot_be_read_is_refused(worker_url, observer, queue_name):
    WorkQueue(observer).send(queue_name, 1)

    async with await AsyncConnection.connect(worker_url, client_encoding="LATIN1") as connection:
        with pytest.raises(
            ConfigurationError, match="connection_class=pgsluice.sessions.AsyncSluiceConnection"
        ):
            await AsyncWorkQueue(connection).pop(queue_name)
    async with await AsyncSluiceConnection.connect(
        worker_url, client_encoding="LATIN1"
    ) as connection:
        (message,) = await AsyncWorkQueue(connection).pop(queue_name)

    assert message.message == 1


def test_message_that_the_loader_of_an_application_fails_on_does_not_lose_its_neighbours(
    worker_url, observer, queue_name
):
    WorkQueue(observer).send_batch(queue_name, [{"a": 1}, {"b": 2}])

    with psycopg.connect(worker_url, autocommit=True) as connection:
        set_json_loads(lambda text: {"a": json.loads(text)["a"]}, connection)
        first, second = WorkQueue(connection).pop(queue_name, 2)

    assert (first.message, second.message) == ({"a": 1}, '{"b": 2}')


def test_pooler_that_refuses_startup_options_gets_what_it_tracks(odd_url, admin, servers_folder):
    WorkQueue(admin).create("jobs")
    odd = {"intervalstyle": "'postgres'", "default_transaction_isolation": "'read committed'"}
    set_for_database(admin, admin.info.dbname, odd)

    with pooling(odd_url, servers_folder) as pooled:
        with pgsluice.connect(pooled, autocommit=True) as connection:
            queue = WorkQueue(connection)
            queue.send("jobs", {"n": TEXT})
            (message,) = queue.pop("jobs")
            found = connection.execute(show("DateStyle", "standard_conforming_strings")).fetchone()
        with psycopg.connect(pooled, autocommit=True) as other:
            left = other.execute(show(*FORMS[:2], "statement_timeout")).fetchone()

    assert message.message == {"n": TEXT}
    assert found == ("ISO, DMY", "on")
    assert left == ("LATIN1", "SQL, DMY", "20s")


def test_pool_asks_a_pooler_that_refuses_options_only_once():
    session = Session("-c work_mem=5MB", SessionUse.APPLICATION)

    assert "standard_conforming_strings=on" in session.arguments()["options"]
    assert session.refused(
        psycopg.OperationalError("FATAL:  unsupported startup parameter: options")
    )

    assert session.arguments()["options"] == "-c work_mem=5MB"
    assert not session.refused(psycopg.OperationalError("unsupported startup parameter: options"))


def test_maintenance_completes_under_settings_of_the_database(odd_url, admin):
    EventLog(admin).create("events")
    with ConnectionPool(
        odd_url, connection_class=SluiceConnection, min_size=1, max_size=2, open=True
    ) as pool:
        steps = Maintenance(pool).run_once()

    assert [step for step in steps if not step.is_done] == []


async def test_worker_and_maintenance_are_read_committed_behind_a_pooler_that_refuses_options(
    make_database_18, servers_folder
):
    database = make_database_18()
    with database.connect() as connection:
        set_for_database(
            connection, database.name, {"default_transaction_isolation": "'repeatable read'"}
        )
    with pooling(database.url, servers_folder) as url:
        with pgsluice.connect(url, autocommit=True) as connection:
            require_transactions(connection)
            WorkQueue(connection).create("jobs")
            WorkQueue(connection).send("jobs", 1)
            log = EventLog(connection)
            log.create("events")
            ShareGroup(connection, "events", "group").create()
            log.insert_event("events", "t", "2")
            log.log_tick("events")
        app, seen = App(url, name="tests"), []

        @app.handler("jobs", mode="transaction", key_concurrency=1)
        async def in_loop(payload, context: Context):
            async with context.transaction() as connection:
                cursor = await connection.execute(show("transaction_isolation"))
                seen.append((payload, *await cursor.fetchone()))

        @app.handler(log="events", group="group")
        def in_thread(payload, context: SyncContext):
            with context.transaction() as connection:
                seen.append(
                    (payload, *connection.execute(show("transaction_isolation")).fetchone())
                )

        counts = await Worker(app).run_until_empty(idle_s=0.2)
        with ConnectionPool(
            url, connection_class=SluiceConnection, min_size=1, max_size=2, open=True
        ) as pool:
            steps = Maintenance(pool).run_once()

    assert [count.done for count in counts.values()] == [1, 1]
    assert sorted(seen, key=str) == [("2", "read committed"), (1, "read committed")]
    assert [step for step in steps if not step.is_done] == []


def test_pooler_that_drops_the_isolation_level_is_refused_with_the_setting(
    make_database_18, servers_folder
):
    database = make_database_18()
    with database.connect() as connection:
        set_for_database(
            connection, database.name, {"default_transaction_isolation": "'serializable'"}
        )
    ignored = {"ignore_startup_parameters": "extra_float_digits,options"}
    with pooling(database.url, servers_folder, **ignored) as url:
        target = resolve(url)
        with pytest.raises(ConfigurationError, match=DROPPED):
            start_checks.require(target, [])
        maintainer, stop = Maintainer(url), threading.Event()
        with pytest.raises(ConfigurationError, match=DROPPED):
            maintainer.run(stop)
        with pgsluice.connect(url, autocommit=True) as connection:
            (found,) = diagnose(connection, only=["settings"])
        shown = CliRunner().invoke(cli, ["status", "--dsn", url, "--json"])
        once = CliRunner().invoke(cli, ["maintain", "--once", "--dsn", url])

    assert found.status == "fail"
    assert "a pooler drops the startup options" in found.what
    assert found.commands[0].endswith("set default_transaction_isolation = 'read committed'")
    assert re.search(DROPPED, json.loads(shown.stdout)["problems"][0])
    assert once.exit_code != 0
    assert re.search(DROPPED, str(once.exception or once.output))


def test_pooler_in_statement_mode_is_refused_at_the_start(worker_url, servers_folder):
    with (
        pooling(worker_url, servers_folder, mode="statement") as url,
        pytest.raises(ConfigurationError, match="set pool_mode = transaction or session"),
    ):
        start_checks.require(resolve(url), [])
