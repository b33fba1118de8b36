"""Programs that are held at a step and killed there with all their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support import wait_until

DEADLINE_S = 240.0


@contextmanager
def held(program: Path, *arguments: object, folder: Path, **variables: str) -> Iterator[None]:
    """Run a Python program until it creates the file `held` in the folder; kill it at the end."""
    (folder / "held").unlink(missing_ok=True)
    with (folder / "driver.log").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, str(program), *map(str, arguments)],
            env={**os.environ, **variables},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def there() -> bool:
        output = (folder / "driver.log").read_text()[-4000:]
        assert process.poll() is None, f"{program.name} ended:\n{output}"
        return (folder / "held").exists()

    try:
        wait_until(there, f"{program.name} to be held", DEADLINE_S)
        yield
    finally:
        kill(process)


def run(program: Path, *arguments: object, **variables: str) -> None:
    """Run a Python program to its end."""
    answer = subprocess.run(
        [sys.executable, str(program), *map(str, arguments)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def kill(process: subprocess.Popen) -> None:
    """Kill every process of its session: driver, JVM and Python workers."""
    for pid in session(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(DEADLINE_S)
    wait_until(lambda: not list(session(process.pid)), "its processes to end", DEADLINE_S)


def session(leader: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state parent group session …; names may contain spaces and parentheses
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(session) == leader and state != "Z":
            yield int(stat.parent.name)
