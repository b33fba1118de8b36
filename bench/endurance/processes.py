"""Start and stop the processes of a long run. They end with this process, also if it is killed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.endurance import parts
from bench.endurance.parts import Part
from pgsluice.errors import SluiceError

ROOT = Path(__file__).parents[2]
STOP_S = 60.0
_PR_SET_PDEATHSIG = 1
# A child of a process that was killed gets SIGTERM, and keeps this when it executes its program.
_EXECUTE = (
    "import ctypes, os, sys; "
    f"ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGTERM)}); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


class Processes:
    """Worker, maintenance, producer, consumers, updates and probe of a part, by name."""

    def __init__(self, folder: Path, url: str, part: Part, sizes: dict[str, int]) -> None:
        """Prepare; nothing is started.

        Args:
            folder: Counters and the processes' output.
            url: Server.
            part: The part.
            sizes: Values of `parts.OPTIONS`.
        """
        if not hasattr(ctypes.CDLL(None), "prctl"):
            raise SluiceError("endurance needs Linux, which ends the processes of a killed run")
        self._folder, self._url, self._part, self._sizes = folder, url, part, sizes
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[str, int]:
        """Process ids, by name."""
        return {name: process.pid for name, process in self._running.items()}

    def start_readers(self, before: int) -> None:
        """Start maintenance, the worker, and the consumers of a log.

        Args:
            before: The number of the last message that was sent in earlier slices.
        """
        self._start(
            "maintain",
            "-m",
            "pgsluice",
            "maintain",
            "--interval",
            f"{self._sizes['maintain_seconds']}s",
        )
        self._start(
            "worker", "-m", "pgsluice", "worker", "run", "bench.endurance.handlers:app", "--no-maintenance",
            ENDURANCE_FOLDER=str(self._folder), ENDURANCE_PART=self._part.name, ENDURANCE_BEFORE=str(before),
        )  # fmt: skip
        if self._part.is_log:
            for name in parts.CONSUMERS:
                self._task(name, "consume", folder=str(self._folder), log=parts.NAME, consumer=name)
            self._task(
                parts.AUDIT,
                "consume",
                folder=str(self._folder),
                log=parts.CHANGES,
                consumer=parts.AUDIT,
            )

    def start_load(self, target: int) -> None:
        """Start the producer, the updates of a captured table, and the probe."""
        sizes = self._sizes
        self._task(
            "producer", "produce", folder=str(self._folder), part=self._part.name, target=target,
            backlog=sizes["endurance_backlog"], batch=sizes["endurance_batch"],
        )  # fmt: skip
        if self._part.is_log:
            self._task("updates", "update", per_s=sizes["updates_per_s"])
        self._task("probe", "probe", part=self._part.name)

    def _task(self, name: str, task: str, **numbers: Any) -> None:
        self._start(name, "-m", "bench.endurance.child", task, json.dumps(numbers))

    def _start(self, name: str, *arguments: str, **environment: str) -> None:
        output = (self._folder / f"{name}.out").open("wb")
        errors = (self._folder / f"{name}.log").open("ab")
        with output, errors:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-c", _EXECUTE, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=output, stderr=errors,
                env={**os.environ, "PGSLUICE_DSN": self._url, "PYTHONUNBUFFERED": "1", **environment},
            )  # fmt: skip

    def require_running(self) -> None:
        """Raise the error of a process that ended, except for a producer that reached the target.

        Raises:
            SluiceError: A process ended.
        """
        for name, process in self._running.items():
            code = process.poll()
            if code is not None and not (name == "producer" and code == 0):
                lines = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
                raise SluiceError(
                    f"the process {name} ended with exit code {code}; the end of {self._folder / name}.log is: "
                    + " / ".join(lines[-3:])
                )

    def has_ended(self, name: str) -> bool:
        """True if a process ended."""
        return self._running[name].poll() is not None

    def stop(self, *names: str) -> None:
        """Stop some processes, or all, and wait for their end.

        Raises:
            SluiceError: One did not end in time; it was killed.
        """
        chosen = [name for name in names or list(self._running) if name in self._running]
        for name in chosen:
            self._running[name].terminate()
        late = []
        for name in chosen:
            process = self._running.pop(name)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                late.append(name)
        if late:
            raise SluiceError(f"did not end within {STOP_S:.0f} s of SIGTERM: {', '.join(late)}")

    def kill(self) -> None:
        """Kill all that run."""
        for process in self._running.values():
            process.kill()
            process.wait()
        self._running.clear()
