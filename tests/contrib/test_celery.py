"""Celery with a real worker: calls, workflows, control, events, lost connections, shutdown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import support.processes
from support import rows, value, wait_until

pytest.importorskip("celery", reason="Celery is not installed; pip install 'pgsluice[celery]'")

from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError
from celery.worker.consumer import gossip, mingle
from kombu import pools

from contrib.celery_tasks import make_app

TESTS = Path(__file__).parents[1]
NODE = "tests@here"
WAIT_S = 90


@pytest.fixture(scope="module")
def url(server_18) -> Iterator[str]:
    """A database for all tests of this file."""
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        connection.execute("create database celery_tests template sluice_template")
        yield server_18.url("celery_tests")
        connection.execute("drop database celery_tests with (force)")


@contextmanager
def worker_of(
    url: str, folder: Path, *options: str, **variables: str
) -> Iterator[subprocess.Popen]:
    """Run a worker, and wait until it is ready."""
    command = [sys.executable, "-m", "celery", "-A", "contrib.celery_tasks", "worker"]
    command += ["--loglevel=INFO", "--concurrency=2", *options]
    environment = {"PYTHONPATH": os.pathsep.join([str(TESTS), str(support.processes.SOURCE)])}
    variables = environment | {"CELERY_TEST_DSN": f"{url}&application_name=worker"} | variables
    log = folder / "log"
    with support.processes.running(command, folder, **variables) as process:
        wait_until(lambda: " ready." in log.read_text(), "the worker to be ready", WAIT_S)
        yield process


@pytest.fixture(scope="module")
def worker_folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def app(url, worker_folder) -> Iterator[Celery]:
    """The app, with a running worker."""
    app = make_app(url)
    with worker_of(url, worker_folder, f"--hostname={NODE}"):
        yield app
        close(app)


def close(app: Celery) -> None:
    """Close the app and its connections, whose listener threads `Celery.close` leaves running.

    kombu keeps a pool per URL in the process: a closed one would be the next app's.
    """
    app.close()
    pools.reset()


@pytest.fixture
def observer(url) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def result_of(result) -> object:
    return result.get(timeout=WAIT_S, interval=0.05)


def ask(app: Celery, command: str, *arguments, **options) -> object:
    """Send a remote control command, and return the reply of the only worker."""
    method = getattr(app.control, command)
    if command != "ping":
        options["reply"] = True
    (reply,) = method(*arguments, destination=[NODE], timeout=WAIT_S, **options)
    return reply[NODE]


def lines_of(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


class TestCalls:
    @pytest.mark.slow
    def test_a_database_backend_keeps_results(self, app):
        assert result_of(app.tasks["add"].delay(4, 4)) == 8

    def test_a_task_that_has_expired_is_not_run(self, app):
        result = app.tasks["add"].apply_async((1, 2), expires=-1)

        with pytest.raises(TaskRevokedError, match="expired"):
            result_of(result)

    def test_a_task_that_fails_is_retried_after_its_delay(self, app):
        assert result_of(app.tasks["flaky"].delay()) == 2

    @pytest.mark.slow
    def test_groups_chains_and_chords_run(self, app):
        add, total = app.tasks["add"], app.tasks["total"]

        pair = group(add.s(1, 1), add.s(2, 2))()
        links = chain(add.s(1, 2), add.s(3))()
        sum_of_all = chord([add.s(1, 1), add.s(2, 2)], total.s())()

        assert result_of(pair) == [2, 4]
        assert result_of(links) == 6
        assert result_of(sum_of_all) == 6

    def test_a_rejected_task_is_dead_lettered(self, app, observer):
        app.tasks["refuse"].delay()

        query = "select reason from sluice.dead_letter where queue_name = 'celery'"
        wait_until(lambda: rows(observer, query) == [("rejected",)], "the dead letter", WAIT_S)

    @pytest.mark.slow
    def test_a_task_whose_process_crashes_is_redelivered(self, app):
        assert result_of(app.tasks["crash_once"].delay()) == "survived"


class TestControl:
    def test_ping_reaches_the_worker(self, app):
        assert app.control.ping(timeout=WAIT_S, limit=1) == [{NODE: {"ok": "pong"}}]

    @pytest.mark.slow
    def test_celery_status_lists_the_worker(self, app, url, tmp_path):
        output = support.processes.run(
            [
                *(sys.executable, "-m", "celery", "-A", "contrib.celery_tasks"),
                *("status", "--timeout=10", f"--destination={NODE}"),
            ],
            tmp_path,
            CELERY_TEST_DSN=url,
            PYTHONPATH=os.pathsep.join([str(TESTS), str(support.processes.SOURCE)]),
        )

        assert "1 node online" in output

    def test_inspect_shows_what_a_worker_does(self, app, tmp_path):
        inspect = app.control.inspect(destination=[NODE], timeout=WAIT_S, limit=1)
        result = app.tasks["work"].delay(str(tmp_path), 1)
        wait_until(lambda: lines_of(tmp_path / "started"), "the task to start", WAIT_S)

        (active,) = inspect.active()[NODE]

        assert active["id"] == result.id
        assert "add" in inspect.registered()[NODE]
        assert [queue["name"] for queue in inspect.active_queues()[NODE]] == ["celery"]
        (tmp_path / "gate").touch()
        result_of(result)

    def test_a_task_that_is_revoked_before_it_starts_is_not_run(self, app, observer):
        result = app.tasks["add"].apply_async((1, 2), countdown=600)

        ask(app, "revoke", result.id)

        observer.execute(
            "select pgmq.set_vt('celery', msg_id, 0) from pgmq.q_celery"
            " where message -> 'headers' ->> 'id' = %s",
            [result.id],
        )

        with pytest.raises(TaskRevokedError, match="revoked"):
            result_of(result)

    def test_a_running_task_is_terminated_by_revoke(self, app, tmp_path):
        result = app.tasks["work"].delay(str(tmp_path), 1)
        wait_until(lambda: lines_of(tmp_path / "started"), "the task to start", WAIT_S)

        ask(app, "revoke", result.id, terminate=True, signal="SIGKILL")

        with pytest.raises(TaskRevokedError, match="terminated"):
            result_of(result)
        assert result_of(app.tasks["add"].delay(1, 2)) == 3
        assert lines_of(tmp_path / "started") == ["1"]

    def test_a_worker_is_changed_while_it_runs(self, app):
        assert "ok" in ask(app, "rate_limit", "total", "100/s")
        assert "ok" in ask(app, "pool_grow", 1)
        assert "ok" in ask(app, "add_consumer", "other")

        assert result_of(app.tasks["add"].apply_async((1, 2), queue="other")) == 3
        assert "ok" in ask(app, "cancel_consumer", "other")

    def test_events_reach_a_receiver(self, app):
        seen = []

        def on_event(event):
            seen.append(event["type"])
            # Heartbeats may arrive between the task's events and after the last one.
            receiver.should_stop = receiver.should_stop or event["type"] == "task-succeeded"

        with app.connection() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": on_event})
            with receiver.consumer_context() as (consuming, _, _):
                app.tasks["add"].delay(1, 2)
                deadline_s = time.monotonic() + WAIT_S
                while not receiver.should_stop and time.monotonic() < deadline_s:
                    consuming.drain_events(timeout=WAIT_S)

        assert [each for each in seen if each.startswith("task-")] == [
            "task-received",
            "task-started",
            "task-succeeded",
        ]

    def test_workers_neither_mingle_nor_gossip(self, app):
        for step in (mingle.Mingle, gossip.Gossip):
            assert not step.compatible_transport(step, app)

    def test_remote_control_goes_on_when_its_queue_was_dropped(self, app, observer):
        observer.execute("select pgmq.drop_queue(%s)", [f"{NODE}.celery.pidbox"])
        query = "select count(*) from pgmq.list_topic_bindings() where queue_name = %s"
        name = f"{NODE}.celery.pidbox"
        wait_until(
            lambda: value(observer, query, name) == 1, "the queue to be created again", WAIT_S
        )

        assert ask(app, "ping") == {"ok": "pong"}


@pytest.mark.slow
def test_a_worker_that_loses_its_connection_reconnects_and_runs_the_task_again(
    app, observer, worker_folder, tmp_path
):
    result = app.tasks["work"].delay(str(tmp_path), 1)
    wait_until(lambda: lines_of(tmp_path / "started"), "the task to start", WAIT_S)
    log = worker_folder / "log"

    observer.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'worker'"
    )

    wait_until(lambda: len(lines_of(tmp_path / "started")) == 2, "the redelivery", WAIT_S)
    (tmp_path / "gate").touch()
    query = "select count(*) from pgmq.q_celery"
    wait_until(lambda: value(observer, query) == 0, "the acknowledgement", WAIT_S)
    assert result_of(result) is None
    wait_until(
        lambda: "the connection of this channel was lost or closed" in log.read_text(),
        "the first run's acknowledgement to be refused",
        WAIT_S,
    )
    assert ask(app, "ping") == {"ok": "pong"}


def counts(folder: Path) -> Counter[str]:
    return Counter(lines_of(folder / "done"))


@pytest.mark.slow
def test_a_warm_shutdown_lets_tasks_finish_and_gives_back_the_others(url, observer, tmp_path):
    app = make_app(url, task_default_queue="warm")
    for number in range(20):
        app.tasks["work"].delay(str(tmp_path), number)
    with worker_of(url, tmp_path, "--queues=warm", "--hostname=warm@here") as process:
        wait_until(lambda: len(lines_of(tmp_path / "started")) == 2, "two tasks to start", WAIT_S)

        process.terminate()
        wait_until(
            lambda: "Warm shutdown" in (tmp_path / "log").read_text(),
            "the warm shutdown to start",
            WAIT_S,
        )
        (tmp_path / "gate").touch()

        assert process.wait(WAIT_S) == 0
    close(app)
    assert sorted(counts(tmp_path)) == sorted(lines_of(tmp_path / "started"))
    left = rows(observer, "select count(*), bool_and(vt <= now()) from pgmq.q_warm")
    assert left == [(20 - len(counts(tmp_path)), True)]
    query = "select count(*) from pgmq.list_queues() where queue_name like 'warm@%%'"
    assert value(observer, query) == 0


@pytest.mark.long
def test_a_cold_shutdown_leaves_tasks_to_other_workers(url, tmp_path):
    app = make_app(url, task_default_queue="cold")
    for number in range(4):
        app.tasks["work"].delay(str(tmp_path), number)
    with worker_of(url, tmp_path, "--queues=cold", "--hostname=cold@here") as process:
        wait_until(lambda: len(lines_of(tmp_path / "started")) == 2, "two tasks to start", WAIT_S)
        process.send_signal(signal.SIGQUIT)
        process.wait(WAIT_S)
    assert not counts(tmp_path)
    (tmp_path / "gate").touch()

    with worker_of(url, tmp_path, "--queues=cold", "--hostname=cold2@here"):
        wait_until(lambda: len(counts(tmp_path)) == 4, "all tasks to end", WAIT_S)
    close(app)


@pytest.mark.long
def test_without_late_acknowledgement_a_killed_worker_loses_what_it_runs(url, observer, tmp_path):
    app = make_app(url, task_default_queue="early", task_acks_late=False)
    app.tasks["work"].delay(str(tmp_path), 1)
    variables = {"CELERY_TEST_EARLY": "1"}
    with worker_of(
        url, tmp_path, "--queues=early", "--hostname=early@here", **variables
    ) as process:
        wait_until(lambda: lines_of(tmp_path / "started"), "the task to start", WAIT_S)
        query = "select count(*) from pgmq.q_early"
        wait_until(lambda: value(observer, query) == 0, "the acknowledgement", WAIT_S)
        support.processes.kill(process)
    (tmp_path / "gate").touch()
    app.tasks["work"].delay(str(tmp_path), 2)
    with worker_of(url, tmp_path, "--queues=early", "--hostname=early2@here", **variables):
        wait_until(lambda: counts(tmp_path)["2"] == 1, "the next task to end", WAIT_S)
    close(app)

    assert counts(tmp_path) == {"2": 1}


@pytest.mark.long
def test_two_workers_share_tasks_and_both_answer(url, tmp_path):
    app = make_app(url, task_default_queue="both")
    (tmp_path / "gate").touch()
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with (
        worker_of(url, folders[0], "--queues=both", "--hostname=one@here"),
        worker_of(url, folders[1], "--queues=both", "--hostname=two@here"),
    ):
        replies = app.control.ping(destination=["one@here", "two@here"], timeout=WAIT_S)
        for number in range(100):
            app.tasks["work"].delay(str(tmp_path), number)
        wait_until(lambda: len(counts(tmp_path)) == 100, "all tasks to end", WAIT_S)
    close(app)
    assert {*map(str, replies)} == {
        "{'one@here': {'ok': 'pong'}}",
        "{'two@here': {'ok': 'pong'}}",
    }
    assert set(counts(tmp_path).values()) == {1}
    assert all("Task work" in (folder / "log").read_text() for folder in folders)


@pytest.mark.long
@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_other_pools_run_tasks(url, tmp_path, pool):
    app = make_app(url, task_default_queue=pool)
    (tmp_path / "gate").touch()
    with worker_of(url, tmp_path, f"--queues={pool}", f"--pool={pool}", "--hostname=pool@here"):
        for number in range(20):
            app.tasks["work"].delay(str(tmp_path), number)
        wait_until(lambda: len(counts(tmp_path)) == 20, "all tasks to end", WAIT_S)
        assert app.control.ping(destination=["pool@here"], timeout=WAIT_S)
    close(app)


@pytest.mark.long
def test_a_worker_is_shut_down_by_remote_control(url, tmp_path):
    app = make_app(url)
    with worker_of(url, tmp_path, "--queues=none", "--hostname=end@here") as process:
        app.control.shutdown(destination=["end@here"])

        assert process.wait(WAIT_S) == 0
    close(app)


@pytest.mark.long
def test_beat_sends_what_is_due(url, observer, tmp_path):
    (tmp_path / "beaten.py").write_text(
        "from contrib.celery_tasks import app\n"
        "app.conf.task_default_queue = 'beaten'\n"
        "app.conf.beat_schedule = {'add': {'task': 'add', 'schedule': 0.2, 'args': (1, 2)}}\n"
    )
    path = os.pathsep.join([str(tmp_path), str(TESTS), str(support.processes.SOURCE)])
    command = [sys.executable, "-m", "celery", "-A", "beaten", "beat"]
    with support.processes.running(command, tmp_path, CELERY_TEST_DSN=url, PYTHONPATH=path):
        name = "select count(*) from pgmq.list_queues() where queue_name = 'beaten'"
        wait_until(lambda: value(observer, name) == 1, "the queue to be created", WAIT_S)
        query = "select count(*) from pgmq.q_beaten"
        wait_until(lambda: value(observer, query) >= 2, "two messages to be sent", WAIT_S)
