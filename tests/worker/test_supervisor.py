"""The supervisor, over processes that do what a line of Python says: no database."""

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

import pytest

from pgsluice.errors import ConfigurationError
from pgsluice.worker.process.health import Health, HealthEndpoint, HealthFile
from pgsluice.worker.process.shutdown import Level, Shutdown
from pgsluice.worker.process.supervisor import Supervisor
from support import wait_until

RUNNING = {"state": "running", "sources": [{"is_reachable": True}]}
# The protocol by hand: to import the package would take most of the time.
CHILD = """
import faulthandler, json, os, select, sys, time

faulthandler.enable()
settings = json.loads(os.read(0, 65536))
number = settings["number"]
with open(settings["tally"], "a") as file:
    file.write(f"{number}\\n")
tally = open(settings["tally"]).read().split()
started, mine = len(tally), tally.count(str(number))
def tell():
    os.write(settings["status_fd"], b'{"state": "running", "sources": [{"is_reachable": true}]}\\n')
def beat():
    while not select.select([0], [], [], 0.02)[0]:
        tell()
"""


class Supervised:
    """A supervisor in a loop of its own thread's."""

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
        """Run it, and meanwhile what a thread does; the exit code."""

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
        tell()
        if started == 1: os._exit(9)
        if started == 2: os.kill(os.getpid(), 11)
        if started == 3: os._exit(75)
        if started == 4: os._exit(3)
        beat()
        """,
    )

    code = await supervised.run_and(
        lambda: wait_until(
            lambda: supervised.started == 5 and supervised.health.is_ready, "the fifth"
        )
    )

    assert code == 0


async def test_one_that_cannot_start_before_any_has_worked_ends_all_with_its_code(tmp_path):
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
async def test_one_that_cannot_start_later_is_retried_and_the_others_go_on(tmp_path, caplog):
    fixed = tmp_path / "fixed"
    supervised = Supervised(
        tmp_path,
        f"""
        if number == 2 and mine == 1:
            tell()
            os._exit(9)
        if number == 2 and not os.path.exists({str(fixed)!r}): sys.exit(3)
        beat()
        """,
        processes=2,
    )

    def deploy():
        wait_until(lambda: supervised.started >= 4, "the second attempt to start it")
        wait_until(lambda: not supervised.health.is_ready, "it to be unready")
        report = supervised.health.report()["processes"]
        assert report["1"]["state"] == "running"
        wait_until(
            lambda: (
                supervised.health.report()["processes"]["2"]
                == {"state": "restarting", "reason": "ended with exit code 3"}
            ),
            "the reason to be reported",
        )
        fixed.touch()
        wait_until(lambda: supervised.health.is_ready, "it to be ready")

    assert await supervised.run_and(deploy) == 0
    assert supervised.tally.read_text().splitlines().count("1") == 1
    assert "process 2 cannot start: it ended with exit code 3" in caplog.text


async def test_in_a_batch_job_one_that_cannot_start_later_ends_all_with_its_code(tmp_path):
    supervised = Supervised(
        tmp_path,
        """
        if number == 2 and mine == 1:
            tell()
            os._exit(9)
        if number == 2: sys.exit(3)
        beat()
        """,
        processes=2,
        ends_itself=True,
    )

    assert await supervised.run_and(lambda: supervised.shutdown.event.wait(30)) == 3


async def test_those_that_end_when_nothing_is_left_are_not_started_anew(tmp_path):
    supervised = Supervised(tmp_path, "sys.exit(number - 1)", processes=2, ends_itself=True)

    assert (
        await supervised.run_and(lambda: wait_until(lambda: supervised.started == 2, "both")) == 1
    )


@pytest.mark.slow
async def test_one_that_hangs_is_killed_and_says_where_it_hung(tmp_path, capfd):
    supervised = Supervised(
        tmp_path,
        """
        def hung_in_here():
            while True: time.sleep(0.01)
        tell()
        if started == 1: hung_in_here()
        beat()
        """,
        stall_s=0.5,
    )

    await supervised.run_and(lambda: wait_until(lambda: supervised.started == 2, "another one"))

    assert "hung_in_here" in capfd.readouterr().err


@pytest.mark.slow
async def test_one_that_does_not_end_at_once_when_told_to_is_killed(tmp_path):
    supervised = Supervised(
        tmp_path,
        """
        while True:
            tell()
            time.sleep(0.05)
        """,
    )

    def end_twice():
        wait_until(lambda: supervised.health.is_ready, "it to be ready")
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
            from pgsluice.worker.process.supervisor import Superior
            superior, shutdown = Superior(), Shutdown(60)
            superior.follow(shutdown)
            with open(superior.settings["tally"], "a") as file:
                file.write(f"{superior.number} {os.getpid()}\\n")
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
        wait_until(lambda: tally.read_text().count("\n") == 2, "both to start")
        pids = [int(line.split()[1]) for line in tally.read_text().splitlines()]
        process.kill()

    wait_until(lambda: not any(is_alive(pid) for pid in pids), "both to end", 10)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_first_signal_lets_finish_and_the_second_ends_at_once():
    shutdown = Shutdown(grace_s=60)
    with shutdown.on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: shutdown.level is Level.FINISH, "the first")
        os.kill(os.getpid(), signal.SIGINT)
        wait_until(lambda: shutdown.level is Level.AT_ONCE, "the second")


def test_after_the_grace_it_ends_at_once():
    shutdown = Shutdown(grace_s=0.05)
    shutdown.request(Level.FINISH, "test")

    wait_until(lambda: shutdown.level is Level.AT_ONCE, "the grace to be over")


def ask(port: int, path: str) -> tuple[int, dict]:
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
        health.tell(1, RUNNING)
        assert (ask(endpoint.port, "/live")[0], ask(endpoint.port, "/ready")[0]) == (200, 503)

        health.tell(2, RUNNING)
        status, report = ask(endpoint.port, "/ready?verbose=1")
        assert (status, report["ready"], report["processes"]["2"]) == (200, True, RUNNING)

        health.tell(2, {"state": "running", "sources": [{"is_reachable": False}]})
        assert ask(endpoint.port, "/ready")[0] == 503
        assert (
            ask(endpoint.port, "/live")[0] == 200
        )  # to be started anew would not bring the server back

        monkeypatch.setattr(
            "pgsluice.worker.process.health.time.monotonic", lambda: time.perf_counter() + 1e9
        )
        assert ask(endpoint.port, "/live")[0] == 503
        assert ask(endpoint.port, "/")[0] == 200
        assert ask(endpoint.port, "/nowhere")[0] == 404


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
        health.tell(1, RUNNING)
        wait_until(lambda: json.loads(path.read_text())["ready"], "it to be ready")
        written = path.stat().st_mtime_ns
        wait_until(lambda: path.stat().st_mtime_ns > written, "it to be written again")

    assert not path.exists()
    with pytest.raises(ConfigurationError, match="--health-file"):
        HealthFile(health, tmp_path / "none" / "health.json")
