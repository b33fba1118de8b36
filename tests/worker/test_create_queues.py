"""Creating the queues and logs of an app, with the options that its handlers declare."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice import EventLog, WorkQueue
from pgsluice.errors import PrivilegeError, QueueNameError
from pgsluice.worker import App
from support import rows


@pytest.fixture
def names(queue_name):
    """Names of a queue and a log that do not exist, and of a queue that does."""
    return f"new_{queue_name}", f"log_{queue_name}", queue_name


@pytest.fixture
def app(worker_url, names):
    app = App(worker_url, name="tests")
    new, log, existing = names

    @app.handler(new, fleet_concurrency=3, priority_weights=[4, 1])
    def on_new(_payload): ...

    @app.handler(existing.upper())
    def on_existing(_payload): ...

    @app.handler(log=log, group="readers", event_types=["paid"])
    def on_paid(_payload): ...

    @app.handler(log=log, consumer="audit")
    def on_all(_payload): ...

    yield app
    app.close()


def existing(observer, names):
    queues = {each.queue_name for each in WorkQueue(observer).list_queues()}
    logs = {each.log_name for each in EventLog(observer).get_queue_info()}
    return [name in queues | logs for name in names]


def test_missing_queues_and_logs_are_created_with_the_declared_options(app, names, observer):
    assert existing(observer, names) == [False, False, True]

    app.create_queues()
    app.create_queues()

    assert existing(observer, names) == [True, True, True]
    options = WorkQueue(observer).queue_options(names[0])
    assert (options.fleet_concurrency, options.priority_weights) == (3, [4, 1])
    assert options.limits_by == f"{__name__}.on_new"


async def test_in_an_event_loop_the_same(app, names, observer):
    await app.create_queues_async()
    await app.aclose()

    assert existing(observer, names) == [True, True, True]


def test_options_that_an_operator_set_are_kept(app, names, observer):
    WorkQueue(observer).create(names[0])
    WorkQueue(observer).set_queue_options(names[0], rate=7)

    app.create_queues(observer)

    options = WorkQueue(observer).queue_options(names[0])
    assert (options.rate, options.fleet_concurrency, options.limits_by) == (7, None, None)


def test_all_are_created_in_the_transaction_of_the_connection_or_none(
    app, names, worker_url, observer
):
    with psycopg.connect(worker_url) as connection:
        app.create_queues(connection)
        assert existing(connection, names) == [True, True, True]
        connection.rollback()
    assert existing(observer, names) == [False, False, True]

    @app.handler("bad\nname")
    def on_bad(_payload): ...

    with pytest.raises(QueueNameError):
        app.create_queues()
    assert existing(observer, names) == [False, False, True]


def test_a_role_that_may_not_create_needs_no_rights_for_what_exists(app, names, observer):
    observer.execute("drop role if exists create_queues_reader")
    observer.execute("create role create_queues_reader in role sluice_reader, pgq_reader")
    observer.execute("set role create_queues_reader")
    with pytest.raises(PrivilegeError):
        app.create_queues(observer)
    observer.execute("reset role")
    app.create_queues(observer)
    before = rows(observer, "select created_at from pgmq.meta order by 1")
    observer.execute("set role create_queues_reader")

    app.create_queues(observer)

    observer.execute("reset role")
    assert rows(observer, "select created_at from pgmq.meta order by 1") == before
    observer.execute("drop role create_queues_reader")
