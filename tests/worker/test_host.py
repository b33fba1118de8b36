"""Workers on other event loops, and in web servers with reloads and several processes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

import psycopg
import pytest

from pgsluice import WorkQueue
from support import rows, value, wait_until
from support.processes import running

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs /proc"),
]

APP = """
import asyncio, os, threading, time
from pathlib import Path
from pgsluice import App
from pgsluice.worker import Context, SyncContext

app = App()
folder = Path(os.environ["HOST_FOLDER"])

def note(line):
    with (folder / "notes").open("a") as file:
        file.write(f"{line}\\n")

@app.handler("slow", concurrency=1)
async def slow(n: int, context: Context) -> None:
    note(f"begin {n} {os.getpid()} {context.attempt}")
    while not (folder / f"gate{n}").exists():
        await asyncio.sleep(0.01)
    async with context.transaction() as connection:
        await connection.execute("insert into effect values ('slow', %s, %s)", (n, str(os.getpid())))

@app.handler("quick", concurrency=4, lease_s=3)
def quick(n: int, context: SyncContext) -> None:
    with context.transaction() as connection:
        connection.execute("insert into effect values ('quick', %s, %s)", (n, str(os.getpid())))

@app.handler("computes", execution="process", concurrency=1)
def compute(n: int) -> None:
    note(f"computed {n}")
"""
WEB = f"""{APP}
from functools import partial
from fastapi import FastAPI
api = FastAPI(lifespan=partial(app.lifespan, grace_s=2.0))
"""
ON_UVLOOP = f"""{APP}
import uvloop
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

@app.handler("loop_name")
async def loop_name(_n: int) -> None:
    note(type(asyncio.get_running_loop()).__module__)
"""
QUEUES = ("slow", "quick", "computes", "loop_name")


class Host:
    """A folder with a module `host`, and programs that run it."""

    def __init__(self, folder: Path, url: str, connection: psycopg.Connection) -> None:
        self.folder = folder
        self._url = url
        self.queue = WorkQueue(connection)
        self._connection = connection
        (folder / "notes").touch()
        (folder / "log").touch()

    def write(self, module: str) -> None:
        (self.folder / "host.py").write_text(module)

    @property
    def notes(self) -> list[str]:
        return (self.folder / "notes").read_text().splitlines()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def open_gate(self, n: int) -> None:
        (self.folder / f"gate{n}").touch()

    def effects(self, queue: str) -> list[int]:
        query = "select msg_id from effect where queue_name = %s order by msg_id"
        return [n for (n,) in rows(self._connection, query, queue)]

    def pids(self) -> set[int]:
        """Return the processes that handled messages of the queue quick."""
        query = "select distinct note from effect where queue_name = 'quick'"
        return {int(pid) for (pid,) in rows(self._connection, query)}

    def archived(self, queue: str) -> int:
        return value(self._connection, f"select count(*) from pgmq.a_{queue}")

    def released(self, queue: str) -> int:
        """Return the number of visible messages that were read once."""
        query = f"select count(*) from pgmq.q_{queue} where vt <= clock_timestamp() and read_ct = 1"
        return value(self._connection, query)

    def processes(self) -> list[str]:
        """Return all processes with this working directory."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (path / "cwd").resolve() == self.folder and "\nState:\tZ" not in (
                    path / "status"
                ).read_text():
                    found.append((path / "cmdline").read_text().replace("\0", " "))
        return found

    @contextlib.contextmanager
    def run(self, *command: str):
        with running(
            [sys.executable, "-m", *command], self.folder,
            PGSLUICE_DSN=self._url, HOST_FOLDER=str(self.folder),
        ) as process:  # fmt: skip
            yield process


@pytest.fixture
def host(tmp_path, database_18):
    with database_18.connect() as connection:
        connection.execute("create table effect (queue_name text, msg_id bigint, note text)")
        for name in QUEUES:
            WorkQueue(connection).create(name)
        yield Host(tmp_path.resolve(), database_18.url, connection)


def test_a_worker_runs_on_uvloop(host):
    pytest.importorskip("uvloop", reason="uvloop is in the dependency group long")
    host.write(ON_UVLOOP)
    with host.run("pgsluice", "worker", "run", "host:app") as process:
        for n in range(20):
            host.queue.send("quick", n)
        host.queue.send("computes", 1)
        host.queue.send("loop_name", 1)
        host.queue.send("slow", 1)
        wait_until(lambda: host.effects("quick") == list(range(20)), "the threads")
        wait_until(lambda: "computed 1" in host.notes, "the process")
        wait_until(lambda: "uvloop" in host.notes, "the name of the loop")
        wait_until(lambda: any(line.startswith("begin 1 ") for line in host.notes), "the loop")

        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "SIGTERM: finishing" in host.log, "the signal")
        host.open_gate(1)
        assert process.wait(timeout=120) == 0

    assert host.effects("slow") == [1]
    wait_until(lambda: host.processes() == [], "all processes to end", 10)


def test_a_second_signal_ends_a_worker_on_uvloop(host):
    pytest.importorskip("uvloop", reason="uvloop is in the dependency group long")
    host.write(ON_UVLOOP)
    with host.run("pgsluice", "worker", "run", "host:app") as process:
        host.queue.send("slow", 1)
        wait_until(lambda: any(line.startswith("begin 1 ") for line in host.notes), "the loop")
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "SIGTERM: finishing" in host.log, "the signal")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 1

    assert host.released("slow") == 1


def begun(host: Host, n: int) -> list[str]:
    return [line.split()[2] for line in host.notes if line.startswith(f"begin {n} ")]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_web_server_that_reloads_ends_the_worker_within_its_grace(host, loop):
    pytest.importorskip("fastapi", reason="FastAPI is a dependency of development")
    pytest.importorskip("uvicorn", reason="uvicorn is in the dependency group long")
    pytest.importorskip("uvloop", reason="uvloop is in the dependency group long")
    host.write(WEB)
    options = ("--port", "0", "--reload", "--reload-dir", str(host.folder), "--loop", loop)
    with host.run("uvicorn", "host:api", *options) as process:
        host.queue.send("slow", 1)
        host.queue.send("computes", 1)
        wait_until(lambda: len(begun(host, 1)) == 1, "the handler to start", 120)
        wait_until(lambda: "computed 1" in host.notes, "the process")

        # A handler that ends within the grace period is finished by the old process.
        host.write(f"{WEB}\n# second")
        wait_until(lambda: "Waiting for application shutdown" in host.log, "the reload", 120)
        host.open_gate(1)
        wait_until(lambda: host.effects("slow") == [1], "the old process to finish")
        host.queue.send("slow", 2)
        wait_until(lambda: len(begun(host, 2)) == 1, "the new process", 120)
        assert begun(host, 2) != begun(host, 1)

        # A longer one is released, and the next process handles its message.
        host.write(f"{WEB}\n# third")
        wait_until(lambda: len(begun(host, 2)) == 2, "the third process", 120)
        host.open_gate(2)
        wait_until(lambda: host.effects("slow") == [1, 2], "the third process to finish")
        assert [line.split()[3] for line in host.notes if line.startswith("begin 2")] == ["1", "1"]

        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert host.archived("slow") == 2
    wait_until(lambda: host.processes() == [], "all processes to end", 10)


def test_a_web_server_with_two_processes_handles_each_message_once(host):
    pytest.importorskip("fastapi", reason="FastAPI is a dependency of development")
    pytest.importorskip("uvicorn", reason="uvicorn is in the dependency group long")
    host.write(WEB)
    with host.run("uvicorn", "host:api", "--port", "0", "--workers", "2") as process:
        sent = 0

        def both_handle():
            nonlocal sent
            host.queue.send("quick", sent)
            sent += 1
            return len(host.pids()) == 2

        wait_until(both_handle, "both processes to handle messages", 120)
        os.kill(min(host.pids()), signal.SIGKILL)
        for _ in range(50):
            host.queue.send("quick", sent)
            sent += 1
        wait_until(lambda: host.archived("quick") == sent, "all messages to be handled", 120)
        assert host.effects("quick") == list(range(sent))

        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    wait_until(lambda: host.processes() == [], "all processes to end", 10)
