"""Start of commands and of a worker, compared with a Python that imports psycopg, connects, or claims one message."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.goal import Goal
from bench.place import Place
from bench.systems.loop import CLAIM, Loop
from bench.systems.pgsluice import Pgsluice

TITLE = "Starts a second of our commands, and of a Python that imports psycopg"
UNIT = "starts a second"
PSYCOPG = "psycopg"
REPEATS = 15
NOTES = [
    "a command: from the start of its process until it has exited; a worker: until its handler has a message",
    "our commands are started as their console script does; the message is in the queue before the start",
    "psycopg: import; import, connection and `select 1`; import, connection, LISTEN and one claim",
]
COMMAND = "import sys; from pgsluice.cli.main import main; main(sys.argv[1:])"
APP = """
from pgsluice import App

app = App()


@app.handler(queue="bench")
async def bench(payload):
    print("handled", flush=True)
"""
CONNECT = "import sys, psycopg; psycopg.connect(sys.argv[1]).execute('select 1').fetchall()"
CLAIM_ONE = f"""
import sys, psycopg
connection = psycopg.connect(sys.argv[1], autocommit=True)
connection.execute("listen job")
connection.execute('''{CLAIM}''').fetchone()
print("handled", flush=True)
"""


class Psycopg(Loop):
    """A Python that imports psycopg, and nothing else."""

    name = PSYCOPG


SYSTEMS = [Pgsluice(), Psycopg()]


@dataclass(frozen=True)
class Question:
    """Timed question.

    Attributes:
        name: Label in the results table.
        ours: Arguments of our command; with `worker`, a message is sent before.
        peer: Program of the peer, called with the URL of the server.
    """

    name: str
    ours: tuple[str, ...]
    peer: str

    @property
    def is_worker(self) -> bool:
        """True if the time ends with the first message."""
        return self.ours[0] == "worker"


QUESTIONS = (
    Question("pgsluice --help", ("--help",), "import psycopg"),
    Question("pgsluice status", ("status",), CONNECT),
    Question(
        "worker, from start to first message",
        ("worker", "run", "start_up_app:app"),
        CLAIM_ONE,
    ),
)
IMPORTS = "click, rich and the modules of the command take nearly as long as the import of psycopg"
GOALS = {
    QUESTIONS[0].name: Goal(1 / 1.1),
    QUESTIONS[1].name: Goal(1 / 1.5, why_missed=IMPORTS),
    QUESTIONS[2].name: Goal(
        1 / 2, why_missed=f"{IMPORTS}; the worker checks what it needs before its first claim"
    ),
}


def measure(place: Place, question: Question) -> float:
    """Start one process.

    Returns:
        Starts a second.
    """
    url = place.server.url(place.connection.info.dbname)
    if place.name == PSYCOPG:
        command = ["-c", question.peer, url]
        place.connection.execute("insert into job (payload) values ('1')")
    else:
        command = ["-c", COMMAND, *question.ours]
        if question.ours[0] != "--help":
            command += ["--dsn", url]
        if question.is_worker:
            place.connection.execute("select pgmq.drop_queue('bench')")
            place.connection.execute("select pgmq.create('bench')")
            place.connection.execute("select pgmq.send('bench', '1')")
    with TemporaryDirectory(prefix="pgsluice-bench-") as folder:
        (Path(folder) / "start_up_app.py").write_text(APP, encoding="utf-8")
        return 1 / started(command, folder, is_worker=question.is_worker)


def started(command: Sequence[str], folder: str, *, is_worker: bool) -> float:
    """Run Python in a folder; return the seconds until the line `handled`, or until it has exited."""
    begin = time.perf_counter()
    output = subprocess.PIPE if is_worker else subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        stdout=output,
        stderr=None if is_worker else subprocess.DEVNULL,
        text=True,
    ) as process:
        if process.stdout is None:
            if process.wait() != 0:
                raise RuntimeError(f"{command[2:]} failed with exit code {process.returncode}")
            return time.perf_counter() - begin
        while process.stdout.readline().strip() != "handled":
            if process.poll() is not None:
                raise RuntimeError(f"{command[2:]} ended before its first message")
        seconds = time.perf_counter() - begin
        process.terminate()
        process.communicate()
    return seconds
