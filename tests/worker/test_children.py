"""Processes that handlers start: their signals, and their termination with the handler."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from pgsluice import WorkQueue
from support import rows, value, wait_until

TESTS = Path(__file__).parents[1]
QUEUES = (
    *("forks", "terminates", "threads", "sleeps_in_thread", "sleeps_in_loop"),
    *("leaves", "escapes", "outlives"),
    *("forks_in_thread", "forks_in_loop", "forks_in_process"),
)
WAYS = ("return", "exit", "raise", "before", "multiprocessing")


@pytest.fixture(scope="module")
def _queues(worker_url):
    with psycopg.connect(worker_url, autocommit=True) as connection:
        for name in QUEUES:
            connection.execute("select pgmq.create(%s)", [name])


@pytest.fixture
def pids(tmp_path):
    """Return a function for the recorded pids of a name; kill these processes after the test."""

    def of(name):
        return [int(path.read_text()) for path in sorted(tmp_path.glob(f"{name}-*"))]

    yield of
    for pid in of("*"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def start(worker_url, tmp_path, pids, _queues):
    """Return a function that starts a worker for one queue."""
    started = []

    def run(queue, *options):
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "pgsluice", "worker", "run"),
                    *("worker.forking_handlers:app", "--queues", queue, "--no-maintenance"),
                    *options,
                ],
                env=os.environ
                | {
                    "PGSLUICE_DSN": worker_url,
                    "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
                    "FORKING_FOLDER": str(tmp_path),
                },
                stdout=log,
                stderr=log,
            )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def is_alive(pid):
    """True if a process runs and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def is_gone(pids, names=("started", "forked")):
    found = [pid for name in names for pid in pids(name)]
    return found and not any(map(is_alive, found))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
class TestProcesses:
    def test_a_handler_that_times_out_takes_its_processes_with_it(self, start, observer, pids):
        WorkQueue(observer).send("forks", "sleep")
        start("forks")
        wait_until(lambda: pids("handler"), "the handler to start", 15)
        (pid,) = pids("handler")
        assert os.getpgid(pid) == os.getsid(pid) == pid

        wait_until(lambda: not is_alive(pid), "its timeout", 30)

        wait_until(lambda: is_gone(pids), "its processes to end", 5)
        observer.execute("select pgmq.purge_queue('forks')")

    @pytest.mark.slow
    def test_a_handler_whose_process_dies_takes_its_processes_with_it(self, start, observer, pids):
        WorkQueue(observer).send("forks", "exit")
        start("forks")

        wait_until(lambda: pids("handler"), "the handler to start", 15)
        wait_until(lambda: is_gone(pids), "its processes to end", 5)

        note = "select count(*) from sluice.attempt where queue_name = 'forks' and error = 'exit code 3'"
        wait_until(lambda: value(observer, note) == 1, "the failure to be settled", 5)
        observer.execute("select pgmq.purge_queue('forks')")

    @pytest.mark.slow
    def test_a_worker_that_is_killed_takes_the_processes_of_its_handlers_with_it(
        self, start, observer, pids
    ):
        WorkQueue(observer).send("forks", "sleep")
        worker = start("forks")
        wait_until(lambda: pids("handler"), "the handler to start", 15)

        worker.kill()

        wait_until(lambda: is_gone(pids, ("started", "forked", "handler")), "all to end", 5)
        observer.execute("select pgmq.purge_queue('forks')")

    @pytest.mark.slow
    def test_a_process_that_is_left_when_the_handler_returns_goes_on(self, start, observer, pids):
        WorkQueue(observer).send("leaves", 1)
        start("leaves")

        done = "select count(*) from pgmq.a_leaves"
        wait_until(lambda: value(observer, done) == 1, "the handler to end", 30)
        assert all(map(is_alive, pids("left")))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("queue", "program"), [("escapes", "escaped"), ("outlives", "outlived")]
    )
    def test_a_program_with_a_session_of_its_own_or_of_a_thread_outlives_the_timeout(
        self, start, observer, pids, tmp_path, queue, program
    ):
        WorkQueue(observer).send(queue, 1)
        start(queue)

        timeout = "handler failed" if queue == "escapes" else "hung=1 threads=2"
        wait_until(lambda: timeout in (tmp_path / "log").read_text(), "its timeout", 30)
        assert pids(program)
        assert all(map(is_alive, pids(program)))
        observer.execute("select pgmq.purge_queue(%s)", [queue])


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["terminates", "threads"])
def test_processes_that_handlers_start_end_by_sigterm(start, observer, pids, queue):
    WorkQueue(observer).send(queue, 1)
    start(queue)

    wait_until(lambda: pids("forked*"), "the handler to end", 60)

    assert pids("started15")
    assert pids("forked15")


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["forks_in_thread", "forks_in_loop", "forks_in_process"])
def test_a_fork_of_a_handler_ends_where_it_leaves_it_and_touches_nothing_of_the_worker(
    start, observer, pids, queue
):
    WorkQueue(observer).send_batch(queue, [*WAYS, *WAYS])
    start(queue)

    wait_until(
        lambda: value(observer, f"select count(*) from pgmq.q_{queue}") == 0,
        "all to be handled",
        60,
    )

    assert value(observer, f"select count(*) from pgmq.a_{queue} where read_ct = 1") == 2 * len(
        WAYS
    )
    assert pids("endless") == []
    assert pids("atexit") == []
    if queue != "forks_in_process":
        effects = rows(observer, "delete from effect returning msg_id, note")
        assert len(effects) == 2 * len(WAYS)
        assert len({note for _, note in effects}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["sleeps_in_thread", "sleeps_in_loop"])
def test_a_fork_does_not_keep_the_sessions_and_the_port_of_a_worker_that_was_killed(
    start, observer, pids, queue, free_port
):
    WorkQueue(observer).send(queue, 1)
    worker = start(queue, "--health-port", str(free_port))
    wait_until(lambda: pids("sleeper"), "the handler to start", 30)

    worker.kill()
    worker.wait()

    sessions = (
        "select count(*) from pg_stat_activity where application_name like 'pgsluice%'"
        " and datname = current_database()"
    )
    wait_until(lambda: value(observer, sessions) == 0, "the sessions to end", 10)
    assert is_alive(pids("sleeper")[0])
    with socket.create_server(("127.0.0.1", free_port)):
        pass
    observer.execute(f"select pgmq.purge_queue('{queue}')")


LIBRARY = """
import os, sys
from psycopg_pool import ConnectionPool
from pgsluice import EventConsumer

def fork(connection, _event):
    connection.execute("insert into effect values ('library', 0, %s)", [str(os.getpid())])
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)

with ConnectionPool(sys.argv[1], min_size=1, max_size=2, open=True) as pool:
    EventConsumer(pool, "forks_in_library", "consumer", on_event=fork).run_once()
print("end")
"""


@pytest.mark.slow
def test_a_fork_of_a_handler_of_the_library_ends_where_it_leaves_it(worker_url, observer):
    observer.execute("select pgq.create_queue('forks_in_library')")
    observer.execute("select pgq.register_consumer('forks_in_library', 'consumer')")
    observer.execute("select pgq.insert_event('forks_in_library', 't', 'd')")
    observer.execute("select pgq.force_tick('forks_in_library')")
    observer.execute("select pgq.ticker('forks_in_library')")

    ran = subprocess.run(
        [sys.executable, "-c", LIBRARY, worker_url], capture_output=True, text=True, timeout=60
    )

    assert (ran.stdout, ran.returncode) == ("end\n", 0), ran.stderr
    assert value(observer, "select count(*) from effect where queue_name = 'library'") == 1
    observer.execute("delete from effect")
