"""Programs started as users start them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pgsluice

SOURCE = Path(pgsluice.__file__).parents[1]
GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def write_example(guide: str, name: str, folder: Path) -> None:
    """Write a file of a guide into the folder."""
    shown = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    text = shown.partition(f"```python\n# {name}\n")[2].partition("```")[0]
    assert text, f"{guide} shows no {name}"
    (folder / name).write_text(text, encoding="utf-8")


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment with this checkout and the folder in PYTHONPATH."""
    path = os.pathsep.join([str(folder), str(SOURCE)])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **variables}


def without_server() -> dict[str, str]:
    """Return the environment without the variables that name a server."""
    return {
        name: text
        for name, text in os.environ.items()
        if not name.startswith("PG") and name != "DATABASE_URL"
    }


def run(command: Sequence[str], folder: Path, **variables: str) -> str:
    """Run a program to its end; return its output."""
    answer = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@contextmanager
def running(command: Sequence[str], folder: Path, **variables: str) -> Iterator[subprocess.Popen]:
    """Run a program in its own process group; its output is in `log` in the folder."""
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(folder, **variables),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        except BaseException:
            print((folder / "log").read_text())
            raise
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            kill(process)


def kill(process: subprocess.Popen) -> None:
    """Kill a program that was started in its own session, and all its children."""
    for pid in session_of(process):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=60)


def session_of(process: subprocess.Popen, name: bytes = b"") -> list[int]:
    """Return the processes of a program's session whose command contains a name.

    Not its process group: Spark's Python processes have their own.
    """
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            command = stat.with_name("cmdline").read_bytes()
            if int(session) == process.pid and state != "Z" and name in command:
                found.append(int(stat.parent.name))
    return found
