"""Start programs of a run by forking: `python -m chaos.everything.host`.

An interpreter that imports all modules starts in most of a second on a busy machine, and a run
starts forty. Standard input has requests, standard output responses, each a line of JSON:
`["start", MODULE, ARGUMENT…]` returns the process id, `["poll", PID]` the exit code (null while the
process runs, negative for a signal). The end of the input kills all programs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from chaos.everything import consumer, producer, upkeep
from chaos.processes import TESTS

PROGRAMS = {"consumer": consumer, "producer": producer, "upkeep": upkeep}


def start(program: str, folder: str, name: str, seed: int, *rest: str) -> int:
    """Fork; the child runs the program and exits."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(0)
        os.close(1)
        PROGRAMS[program].main(Path(folder), name, int(seed), *rest)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    """Serve requests until the input ends."""
    codes: dict[int, int | None] = {}
    try:
        for line in sys.stdin:
            request, *arguments = json.loads(line)
            if request == "start":
                answer: int | None = start(*arguments)
                codes[answer] = None
            else:
                (pid,) = arguments
                if codes[pid] is None:
                    ended, status = os.waitpid(pid, os.WNOHANG)
                    codes[pid] = os.waitstatus_to_exitcode(status) if ended else None
                answer = codes[pid]
            print(json.dumps(answer), flush=True)
    finally:
        for pid, code in codes.items():
            if code is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


class Program:
    """A program that the host started."""

    def __init__(self, host: Host, pid: int) -> None:
        self._host = host
        self._pid = pid

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._host.ask("poll", self._pid)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        if self.poll() is None:
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end; return the exit code."""
        while (code := self.poll()) is None:
            time.sleep(0.01)
        return code


class Host:
    """The run's connection to the host."""

    def __init__(self, errors: Path) -> None:
        with errors.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.everything.host"],
                cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
            )  # fmt: skip

    def ask(self, *request: object) -> int | None:
        """Send a request and return the response."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def start(self, program: str, *arguments: object) -> Program:
        """Start a program."""
        pid = self.ask("start", program, *map(str, arguments))
        assert pid is not None
        return Program(self, pid)

    def end(self) -> None:
        """End the host and all its programs."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    serve()
