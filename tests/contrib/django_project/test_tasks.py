"""A backend of Django's tasks: django.tasks of Django 6, or the package django-tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from contrib.django_project.conftest import manage
from pgsluice import DeadLetters, WorkQueue
from pgsluice.testing import drain
from support import rows, value


@pytest.fixture
def backend(connection: Any, observer: Any) -> Iterator[Any]:
    """The backend, with queues of three priorities."""
    from contrib.django_project.shop import tasks  # noqa: F401
    from pgsluice.contrib.django.tasks import backends

    [backend] = backends()
    queues = WorkQueue(observer)
    for name in ("default", "mail"):
        queues.create(name)
        queues.set_queue_options(name, priority_weights=[4, 2, 1])
    yield backend
    for name in ("default", "mail"):
        queues.drop_queue(name)
        DeadLetters(observer, name).purge(older_than=timedelta())  # they outlive it


@pytest.fixture
def finished() -> Iterator[list[Any]]:
    """Results that the signal task_finished had."""
    from pgsluice.contrib.django.tasks import task_enqueued, task_finished, task_started

    seen: list[Any] = []

    def receive(signal: Any, task_result: Any, **_others: Any) -> None:
        name = {task_enqueued: "enqueued", task_started: "started"}.get(signal, "finished")
        seen.append((name, task_result.id, str(task_result.status), task_result))

    for signal in (task_enqueued, task_started, task_finished):
        signal.connect(receive)
    yield seen
    for signal in (task_enqueued, task_started, task_finished):
        signal.disconnect(receive)


def notes(observer: Any) -> list[Any]:
    return rows(observer, "select order_id, note from shop_parcel order by order_id")


def failures(observer: Any) -> list[Any]:
    return [
        row[0] for row in rows(observer, "select error from sluice.dead_letter order by msg_id")
    ]


def test_task_is_enqueued_in_the_transaction_of_atomic_and_run(backend, observer, finished):
    from django.db import transaction

    from contrib.django_project.shop.tasks import mail, pack

    with suppress(ZeroDivisionError), transaction.atomic():
        pack.enqueue(1)
        raise ZeroDivisionError
    with transaction.atomic():
        result = pack.enqueue(2, note="two")
        assert value(observer, "select count(*) from pgmq.q_default") == 0
    mail.enqueue(order_id=3)
    finished.clear()
    counts = drain(backend.app)

    assert [count.done for count in counts.values()] == [1, 1]
    assert notes(observer) == [(2, "two"), (3, "async task")]
    states = [each[:3] for each in finished if each[1] == result.id]
    assert states == [("started", result.id, "RUNNING"), ("finished", result.id, "SUCCESSFUL")]
    [of_task] = {id(each[3]): each[3] for each in finished if each[1] == result.id}.values()
    assert of_task.return_value == "parcel 2"
    assert of_task.enqueued_at <= of_task.started_at <= of_task.finished_at
    assert of_task.worker_ids


def test_task_is_enqueued_in_an_event_loop(backend, observer):
    from asgiref.sync import async_to_sync

    from contrib.django_project.shop.tasks import pack

    result = async_to_sync(pack.aenqueue)(1)

    [(msg_id, message)] = rows(observer, "select msg_id, message from pgmq.q_default")
    assert result.id == f"{msg_id}:default"
    assert result.status == "READY"
    assert message == {
        "task": "contrib.django_project.shop.tasks.pack",
        "args": [1],
        "kwargs": {},
    }


def test_options_of_a_task_are_those_of_its_message(backend, observer):
    from contrib.django_project.shop.tasks import pack

    after = datetime.now(UTC) + timedelta(hours=1)
    pack.using(run_after=after).enqueue(1)
    for priority in (-100, -34, -33, 0, 33, 34, 100):
        pack.using(priority=priority, queue_name="mail").enqueue(priority)

    assert value(observer, "select vt from pgmq.q_default") == after
    query = "select (message -> 'args' -> 0)::int, (headers ->> 'x-pgmq-priority')::int from pgmq.q_mail order by msg_id"
    levels = [(-100, 3), (-34, 3), (-33, 2), (0, 2), (33, 2), (34, 1), (100, 1)]
    assert rows(observer, query) == levels


def test_time_without_a_zone_is_in_that_of_the_settings(backend, observer):
    from django.test import override_settings

    from contrib.django_project.shop.tasks import pack

    naive = datetime(2100, 1, 1, 9, tzinfo=UTC).replace(tzinfo=None)
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        result = pack.using(run_after=naive).enqueue(1)

    assert result.enqueued_at.tzinfo is None
    assert value(observer, "select vt from pgmq.q_default") == datetime(2100, 1, 1, tzinfo=UTC)


def test_task_with_a_context_gets_its_result(backend, observer):
    from contrib.django_project.shop.tasks import describe

    describe.enqueue(7)
    drain(backend.app)

    assert notes(observer) == [(7, "1 RUNNING describe [7]")]


def test_task_that_fails_is_retried_or_dead_lettered_by_the_queue(backend, observer, finished):
    from contrib.django_project.shop.tasks import odd, refuse

    WorkQueue(observer).set_queue_options("default", max_attempts=1)
    refuse.enqueue(1)
    odd.enqueue()
    drain(backend.app)

    assert any("no" in each for each in failures(observer))
    results = [each[3] for each in finished if each[0] == "finished"]
    assert [str(each.status) for each in results] == ["FAILED", "FAILED"]
    errors = sorted(each.errors[0].exception_class_path for each in results)
    assert errors == ["builtins.TypeError", "builtins.ValueError"]
    assert "raise ValueError" in "".join(each.errors[0].traceback for each in results)
    assert notes(observer) == [(1, "")]  # in autocommit


def test_result_of_a_task_follows_its_message(backend, observer):
    from contrib.django_project.shop.tasks import pack, refuse

    WorkQueue(observer).set_queue_options("default", max_attempts=1)
    result = pack.enqueue(1, note="n")
    failing = refuse.enqueue(2)
    waiting = pack.get_result(result.id)
    observer.execute(
        "update pgmq.q_default set vt = now() + interval '1 hour', last_read_at = now()"
    )
    running = pack.get_result(result.id)
    observer.execute("update pgmq.q_default set vt = now(), last_read_at = null")
    drain(backend.app)
    result.refresh()
    failing.refresh()

    assert waiting.status == "READY"
    assert (waiting.args, waiting.kwargs, waiting.task.func) == ([1], {"note": "n"}, pack.func)
    assert running.status == "RUNNING"
    assert result.status == "SUCCESSFUL"
    assert result.return_value == "parcel 1"
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert (result.attempts, failing.attempts) == (1, 1)
    assert failing.status == "FAILED"
    [error] = failing.errors
    assert error.exception_class is ValueError
    assert 'raise ValueError("no")' in error.traceback
    assert failing.finished_at >= failing.started_at


def test_missing_result_and_that_of_another_task_are_refused(backend, observer):
    from contrib.django_project.shop.tasks import pack, refuse
    from pgsluice.contrib.django import tasks

    mismatch = import_module(tasks.TaskResultDoesNotExist.__module__).TaskResultMismatch
    result = pack.enqueue(1)

    with pytest.raises(mismatch):
        refuse.get_result(result.id)
    for identity in (
        "7:default",
        f"{result.id}s",
        "x:default",
        "1:elsewhere",
        "1" * 30 + ":default",
        "",
    ):
        with pytest.raises(tasks.TaskResultDoesNotExist):
            pack.get_result(identity)
    observer.execute("delete from pgmq.q_default")
    with pytest.raises(tasks.TaskResultDoesNotExist):
        pack.get_result(result.id)


def test_exception_class_of_an_error_is_that_of_its_traceback():
    from pgsluice.contrib.django.tasks import _path_of

    trace = "Traceback\n  File\ndjango.db.utils.Error: x\nmore\n"
    assert _path_of("Error", trace) == "django.db.utils.Error"
    assert _path_of("ValueError", "Traceback\nValueError\n") == "builtins.ValueError"
    assert _path_of("timeout", "timeout of 3 s") == "pgsluice.errors.HandlerError"
    assert _path_of(None, "") == "pgsluice.errors.HandlerError"


def test_message_that_names_no_task_is_rejected(backend, observer):
    for path in ("contrib.django_project.shop.tasks.no_task", "os.system"):
        WorkQueue(observer).send("default", {"task": path, "args": ["ls"], "kwargs": {}})
    drain(backend.app)

    assert len([each for each in failures(observer) if "is not a task" in each]) == 2


def test_checks_name_a_backend_without_queues_or_postgresql(url):
    from pgsluice.contrib.django.tasks import PgsluiceBackend

    backend = PgsluiceBackend("other", {"QUEUES": [], "OPTIONS": {}})

    assert [each.id for each in backend.check()] == ["pgsluice.E004"]


@pytest.mark.slow
def test_worker_of_the_project_runs_its_tasks(database_18):
    variables = {"PGSLUICE_DSN": database_18.url}
    manage("migrate", **variables)
    manage("shell", "-c", ENQUEUE, **variables)

    manage("pgsluice_worker", "--until-empty", **variables)

    with database_18.connect() as connection:
        assert notes(connection) == [(1, "task"), (2, "async task"), (3, "thread")]


@pytest.mark.slow
def test_tasks_in_a_second_database_run_in_the_worker_of_that_database(
    database_18, make_database_18
):
    other = make_database_18()
    variables = {"PGSLUICE_DSN": database_18.url, "SHOP_OTHER_DSN": other.url}
    for alias in ("default", "other"):
        manage("migrate", "--database", alias, **variables)
    manage("shell", "-c", ENQUEUE, **variables)
    manage("shell", "-c", ENQUEUE_IN_OTHER, **variables)

    assert "`manage.py pgsluice_worker --database other`" in manage("check", **variables)
    manage("pgsluice_worker", "--until-empty", **variables)
    with other.connect() as connection:
        assert notes(connection) == []

    manage("pgsluice_worker", "--database", "other", "--until-empty", **variables)
    with other.connect() as connection, database_18.connect() as first:
        assert notes(connection) == [(4, "report")]
        assert len(notes(first)) == 3


@pytest.mark.slow
def test_worker_of_a_database_without_handlers_names_those_with_tasks(
    database_18, make_database_18
):
    variables = {"PGSLUICE_DSN": database_18.url, "SHOP_OTHER_DSN": make_database_18().url}

    unknown = manage("pgsluice_worker", "--database", "third", status=3, **variables)
    assert "--database third: DATABASES has no such alias" in unknown
    app = "contrib.django_project.shop.handlers:app"
    given = manage("pgsluice_worker", app, "--database", "other", status=2, **variables)
    assert "an app has its own" in given


ENQUEUE_IN_OTHER = """
from django.db import connections
from pgsluice import WorkQueue
from contrib.django_project.shop.other import report
WorkQueue(connections["other"]).create("reports")
report.enqueue(4)
"""
ENQUEUE = """
from django.db import connection
from pgsluice import WorkQueue
from contrib.django_project.shop import handlers
from contrib.django_project.shop.tasks import mail, pack
handlers.app.create_queues(connection)
for name in ("default", "mail"):
    WorkQueue(connection).create(name)
    WorkQueue(connection).set_queue_options(name, priority_weights=[4, 2, 1])
pack.enqueue(1)
mail.enqueue(2)
handlers.pack.send(3)
"""
