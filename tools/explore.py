"""Run randomized tests with new seeds for a given time, and print those that fail with commands that repeat them.

    python tools/explore.py --minutes 60 tests/property -k share

Each run is that of the tests of one file and speed with one new seed, in a process of its own. The next one is that
which has run for the shortest time so far, so quick tests are run with many seeds and slow ones at least once if
there is time. Arguments that are not options of this program are given to pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
SEEDS = ROOT / "tests" / "seeds.toml"
SPEEDS = ("not slow and not long", "slow and not long", "long")
# Exit codes of pytest.
PASSED, FAILED, NONE_SELECTED = 0, 1, 5


@dataclass
class Unit:
    """The randomized tests of one file and speed."""

    path: str
    speed: str
    seconds: float = 0.0
    runs: int = 0
    is_running: bool = False
    is_empty: bool = False


@dataclass(frozen=True)
class Failure:
    """A failed test, or a file whose run ended otherwise, and the seed."""

    name: str
    seed: int

    def command(self) -> str:
        """Return the shell command that repeats it."""
        name = re.sub(r'(["$`\\\\])', r"\\\1", shlex.quote(self.name))
        return f"PGSLUICE_TEST_SEED={self.seed} make test ARGS=\"-m '' --numprocesses=0 {name}\""


@dataclass
class Exploration:
    """Runs of units by several threads until the end.

    Attributes:
        options: Arguments for pytest.
        end_s: The end on the monotonic clock.
    """

    units: list[Unit]
    options: Sequence[str]
    end_s: float
    failures: list[Failure] = field(default_factory=list)
    seeds: random.SystemRandom = field(default_factory=random.SystemRandom)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, processes: int) -> None:
        """Run units in parallel until the end."""
        with ThreadPoolExecutor(processes) as pool:
            for future in [pool.submit(self._work) for _ in range(processes)]:
                future.result()

    def _work(self) -> None:
        while time.monotonic() < self.end_s:
            unit = self._next()
            if unit is None:
                if all(each.is_empty for each in self.units):
                    return
                time.sleep(0.2)
                continue
            begun = time.monotonic()
            self._run(unit)
            with self.lock:
                unit.seconds += time.monotonic() - begun
                unit.is_running = False

    def _next(self) -> Unit | None:
        with self.lock:
            ready = [each for each in self.units if not each.is_running and not each.is_empty]
            unit = min(ready, key=lambda each: each.seconds, default=None)
            if unit is not None:
                unit.is_running = True
            return unit

    def _run(self, unit: Unit) -> None:
        seed = self.seeds.randrange(2**31)
        with tempfile.TemporaryDirectory(prefix="pgsluice-explore-") as folder:
            command = [
                *(
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    "--numprocesses=0",
                    "-o",
                    f"cache_dir={folder}",
                ),
                *("-m", f"randomized and ({unit.speed})", *self.options, unit.path),
            ]
            environment = {**os.environ, "PGSLUICE_TEST_SEED": str(seed)}
            code, output = run_until(self.end_s, command, environment)
            failed = failed_tests(Path(folder))
        if code is None:
            print(f"not finished at the end: {unit.path}, seed {seed}", flush=True)
        elif code == NONE_SELECTED:
            unit.is_empty = True
        else:
            unit.runs += 1
            if code != PASSED:
                self._report(unit, seed, failed if code == FAILED else [], output)

    def _report(self, unit: Unit, seed: int, failed: list[str], output: str) -> None:
        failures = [Failure(name, seed) for name in failed or [unit.path]]
        self.failures += failures
        print(
            output,
            *(f"FAILED {each.name}\n  {each.command()}" for each in failures),
            sep="\n",
            flush=True,
        )


def run_until(
    end_s: float, command: list[str], environment: dict[str, str]
) -> tuple[int | None, str]:
    """Return the exit code and output; without a code if the command was stopped at the end."""
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=max(0.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            stop(process)
            return None, ""
        return process.returncode, output


def stop(process: subprocess.Popen[str]) -> None:
    """Stop pytest as Ctrl-C does, so that its servers are stopped too; kill it if this takes too long."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def failed_tests(cache: Path) -> list[str]:
    """Return the tests that failed, from pytest's cache."""
    path = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(path.read_text())) if path.exists() else []


def chosen(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files with randomized tests below the given paths, or all, and the other arguments."""
    paths = [each.rstrip("/") for each in arguments if re.match(r"tests(/|$)", each)]
    files = [
        name
        for name in tomllib.loads(SEEDS.read_text())
        if not paths or any(name == path or name.startswith(f"{path}/") for path in paths)
    ]
    return files, [each for each in arguments if each.rstrip("/") not in paths]


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0, help="duration (default: 20)")
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        help="runs at the same time (default: one per CPU)",
    )
    given, rest = parser.parse_known_args()
    files, options = chosen(rest)
    if not files:
        parser.error("no file with randomized tests there; tests/seeds.toml lists them")
    units = [Unit(path, speed) for speed in SPEEDS for path in files]
    exploration = Exploration(units, options, time.monotonic() + given.minutes * 60)
    exploration.run(given.processes)
    runs, reached = sum(each.runs for each in units), sum(each.runs > 0 for each in units)
    there = sum(not each.is_empty for each in units)
    print(
        f"{runs} runs with new seeds of {reached} of {there} groups of tests, {len(exploration.failures)} failures"
    )
    for failure in exploration.failures:
        print(f"{failure.name} with seed {failure.seed}\n  {failure.command()}")
    return 1 if exploration.failures else 0


if __name__ == "__main__":
    sys.exit(main())
