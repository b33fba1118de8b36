"""The supervisor, with child processes that run a few lines of Python; without a database."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgsluice.errors import ConfigurationError
from pgsluice.worker.process.health import Health, HealthEndpoint, HealthFile
from pgsluice.worker.process.shutdown import Level, Shutdown
from pgsluice.worker.process.supervisor import Supervisor
from support import wait_until

RUNNING = {"state": "running", "sources": [{"is_reachable": True}]}
# The protocol without our package, whose import would take most of the time.
CHILD = """
import faulthandler, json, os, select, sys, time

faulthandler.enable()
settings = json.loads(os.read(0, 65536))
number = settings["number"]
with open(settings["tally"], "a") as file:
    file.write(f"{number}\\n")
tally = open(settings["tally"]).read().split()
started, mine = len(tally), tally.count(str(number))
def report():
    os.write(settings["status_fd"], b'{"state": "running", "sources": [{"is_reachable": true}]}\\n')
def beat():
    while not select.select([0], [], [], 0.02)[0]:
        report()
"""


class Supervised:
    """A supervisor with its shutdown and health."""

    def __init__(self, tmp_path: Path, body: str, *, processes=1, stall_s=0.0, ends_itself=False):
        self.tally = tmp_path / "tally"
        self.tally.touch()
        script = tmp_path / "child.py"
        script.write_text(CHILD + textwrap.dedent(body))
        self.shutdown = Shutdown(grace_s=60)
        self.health = Health(processes=processes, stall_s=30)
        self._supervisor = Supervisor(
            [sys.executable, str(script)],
            {"tally": str(self.tally)},
            processes=processes,
            stall_s=stall_s,
            ends_itself=ends_itself,
            shutdown=self.shutdown,
            health=self.health,
            kill_s=0.5,
        )

    @property
    def started(self) -> int:
        return self.tally.read_text().count("\n")

    async def run_and(self, then) -> int:
        """Run it while a thread runs `then`, and stop it afterwards; return the exit code."""

        async def ending():
            try:
                await asyncio.to_thread(then)
            finally:
                self.shutdown.request(Level.FINISH, "the test is over")

        code, _ = await asyncio.gather(self._supervisor.run(), ending())
        return code


@pytest.mark.slow
async def test_a_process_that_dies_is_started_anew_also_when_it_then_cannot_start(tmp_path):
    supervised = Supervised(
        tmp_path,
        """
        report()
        if started == 1: os._exit(9)
        if started == 2: os.kill(os.getpid(), 11)
        if started == 3: os._exit(75)
        if started == 4: os._exit(3)
        beat()
        """,
    )

    code = await supervised.run_and(
        lambda: wait_until(
            lambda: supervised.started == 5 and supervised.health.is_ready, "the fifth process"
        )
    )

    assert code == 0


async def test_first_process_failing_to_start_stops_the_supervisor_with_its_exit_code(tmp_path):
    supervised = Supervised(
        tmp_path,
        """
        if number == 2: sys.exit(3)
        select.select([0], [], [])
        """,
        processes=2,
    )

    assert await supervised.run_and(lambda: supervised.shutdown.event.wait(30)) == 3
    assert supervised.started == 2


@pytest.mark.slow
async def test_process_failing_to_restart_is_retried_and_others_continue(tmp_path, caplog):
    fixed = tmp_path / "fixed"
    supervised = Supervised(
        tmp_path,
        f"""
        if number == 2 and mine == 1:
            report()
            os._exit(9)
        if number == 2 and not os.path.exists({str(fixed)!r}): sys.exit(3)
        beat()
        """,
        processes=2,
    )

    def deploy():
        wait_until(lambda: supervised.started >= 4, "a second attempt to start the process")
        wait_until(lambda: not supervised.health.is_ready, "the supervisor not to be ready")
        report = supervised.health.report()["processes"]
        assert report["1"]["state"] == "running"
        wait_until(
            lambda: (
                supervised.health.report()["processes"]["2"]
                == {"state": "restarting", "reason": "exited with code 3"}
            ),
            "the reason to be reported",
        )
        fixed.touch()
        wait_until(lambda: supervised.health.is_ready, "the supervisor to be ready")

    assert await supervised.run_and(deploy) == 0
    assert supervised.tally.read_text().splitlines().count("1") == 1
    failed = 'process cannot start process=2 reason="exited with code 3"'
    assert any(message.startswith(failed) for message in caplog.messages)


async def test_in_a_batch_job_one_that_cannot_start_later_ends_all_with_its_code(tmp_path):
    supervised = Supervised(
        tmp_path,
        """
        if number == 2 and mine == 1:
            report()
            os._exit(9)
        if number == 2: sys.exit(3)
        beat()
        """,
        processes=2,
        ends_itself=True,
    )

    assert await supervised.run_and(lambda: supervised.shutdown.event.wait(30)) == 3


async def test_processes_that_exit_when_drained_are_not_restarted(tmp_path):
    supervised = Supervised(tmp_path, "sys.exit(number - 1)", processes=2, ends_itself=True)

    assert (
        await supervised.run_and(lambda: wait_until(lambda: supervised.started == 2, "both")) == 1
    )


@pytest.mark.slow
async def test_hanging_process_is_killed_with_its_stack_logged(tmp_path, capfd):
    supervised = Supervised(
        tmp_path,
        """
        def hung_in_here():
            while True: time.sleep(0.01)
        report()
        if started == 1: hung_in_here()
        beat()
        """,
        stall_s=0.5,
    )

    await supervised.run_and(lambda: wait_until(lambda: supervised.started == 2, "another process"))

    assert "hung_in_here" in capfd.readouterr().err


@pytest.mark.slow
async def test_process_ignoring_a_hard_stop_is_killed(tmp_path):
    supervised = Supervised(
        tmp_path,
        """
        while True:
            report()
            time.sleep(0.05)
        """,
    )

    def end_twice():
        wait_until(lambda: supervised.health.is_ready, "the supervisor to be ready")
        supervised.shutdown.request(Level.FINISH, "first")
        supervised.shutdown.request(Level.AT_ONCE, "second")

    assert await supervised.run_and(end_twice) == 1


@pytest.mark.slow
def test_processes_end_when_their_supervisor_is_killed(tmp_path):
    tally = tmp_path / "tally"
    tally.touch()
    child = tmp_path / "child.py"
    child.write_text(
        textwrap.dedent(
            """
            import os
            from pgsluice.worker.process.shutdown import Shutdown
            from pgsluice.worker.process.supervisor import SupervisorPipe
            supervisor_pipe, shutdown = SupervisorPipe(), Shutdown(60)
            supervisor_pipe.follow(shutdown)
            with open(supervisor_pipe.settings["tally"], "a") as file:
                file.write(f"{supervisor_pipe.number} {os.getpid()}\\n")
            assert shutdown.event.wait(60)
            """
        )
    )
    parent = tmp_path / "parent.py"
    parent.write_text(
        textwrap.dedent(
            f"""
            import asyncio, sys
            from pgsluice.worker.process.health import Health
            from pgsluice.worker.process.shutdown import Shutdown
            from pgsluice.worker.process.supervisor import Supervisor
            asyncio.run(Supervisor(
                [sys.executable, {str(child)!r}], {{"tally": {str(tally)!r}}}, processes=2, stall_s=0,
                ends_itself=False, shutdown=Shutdown(60), health=Health(processes=2, stall_s=0),
            ).run())
            """
        )
    )
    with subprocess.Popen([sys.executable, str(parent)]) as process:
        wait_until(lambda: tally.read_text().count("\n") == 2, "both processes to start")
        pids = [int(line.split()[1]) for line in tally.read_text().splitlines()]
        process.kill()

    wait_until(lambda: not any(is_alive(pid) for pid in pids), "both processes to end", 10)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_first_signal_lets_finish_and_the_second_ends_at_once():
    shutdown = Shutdown(grace_s=60)
    with shutdown.on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: shutdown.level is Level.FINISH, "the first signal")
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: shutdown.level is Level.AT_ONCE, "the second signal")


def test_after_the_grace_it_ends_at_once():
    shutdown = Shutdown(grace_s=0.05)
    shutdown.request(Level.FINISH, "test")

    wait_until(lambda: shutdown.level is Level.AT_ONCE, "the grace period to end")


def get(port: int, path: str) -> tuple[int, dict]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"{}") if error.code == 503 else {}


def test_the_endpoint_tells_live_from_ready(monkeypatch):
    health = Health(processes=2, stall_s=30)
    with HealthEndpoint(health, "127.0.0.1", 0) as endpoint:
        health.beat()
        health.record(1, RUNNING)
        assert (get(endpoint.port, "/live")[0], get(endpoint.port, "/ready")[0]) == (200, 503)

        health.record(2, RUNNING)
        status, report = get(endpoint.port, "/ready?verbose=1")
        assert (status, report["ready"], report["processes"]["2"]) == (200, True, RUNNING)

        health.record(2, {"state": "running", "sources": [{"is_reachable": False}]})
        assert get(endpoint.port, "/ready")[0] == 503
        assert get(endpoint.port, "/live")[0] == 200  # a restart would not bring the server back

        clock = SimpleNamespace(monotonic=lambda: time.perf_counter() + 1e9)
        monkeypatch.setattr("pgsluice.worker.process.health.time", clock)
        assert get(endpoint.port, "/live")[0] == 503
        assert get(endpoint.port, "/")[0] == 200
        assert get(endpoint.port, "/nowhere")[0] == 404


def test_a_port_that_is_taken_is_said_to_be(tmp_path):
    health = Health(processes=1, stall_s=0)
    with (
        HealthEndpoint(health, "127.0.0.1", 0) as endpoint,
        pytest.raises(ConfigurationError, match="--health-port"),
    ):
        HealthEndpoint(health, "127.0.0.1", endpoint.port)


@pytest.mark.slow
def test_the_file_is_written_while_it_lives_and_gone_at_the_end(tmp_path):
    health = Health(processes=1, stall_s=30)
    path = tmp_path / "health.json"
    with HealthFile(health, path):
        health.beat()
        health.record(1, RUNNING)
        wait_until(lambda: json.loads(path.read_text())["ready"], "the supervisor to be ready")
        written = path.stat().st_mtime_ns
        wait_until(lambda: path.stat().st_mtime_ns > written, "the health file to be rewritten")

    assert not path.exists()
    with pytest.raises(ConfigurationError, match="--health-file"):
        HealthFile(health, tmp_path / "none" / "health.json")
