"""Spark's master and workers as processes of this machine, and samples of their CPU time and memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pgsluice.errors import SluiceError

SOURCES = Path(__file__).parents[1]
EXECUTOR = b"CoarseGrainedExecutorBackend"
DEADLINE_S = 300.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Process:
    """Process of a session.

    Attributes:
        key: Its pid and start time.
        cpu_s: CPU time in seconds, without that of its children.
        resident_bytes: Resident memory; shared pages count in each process.
    """

    key: tuple[int, int]
    cpu_s: float
    resident_bytes: int


class Machine:
    """Processes as on a separate machine: with their own home, temporary folder and variables."""

    def __init__(self, name: str, folder: Path, java_home: Path, **variables: str) -> None:
        self.name = name
        self.folder = folder / name
        self.log = self.folder / "log"
        for place in ("tmp", "work"):
            (self.folder / place).mkdir(parents=True)
        self.environ = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(java_home),
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "SPARK_LOCAL_DIRS": str(self.folder / "tmp"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYTHONPATH": os.pathsep.join([str(SOURCES / "src"), str(SOURCES)]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(self.folder),
            **variables,
        }

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program in its own session; its output is in `log`. Kill the session at the end."""
        with self.log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environ,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            for found in session_of(process):
                with suppress(ProcessLookupError):
                    os.kill(found.key[0], signal.SIGKILL)
            process.wait(timeout=60)

    def wait_for_log(self, pattern: str) -> str:
        """Wait until its log matches a pattern; return the first group.

        Raises:
            SluiceError: It did not within the deadline.
        """
        end = time.monotonic() + DEADLINE_S
        while True:
            found = re.search(pattern, self.log.read_text())
            if found is not None:
                return found[1]
            if time.monotonic() > end:
                raise SluiceError(f"no {pattern} in {self.log}: {self.log.read_text()[-2000:]}")
            time.sleep(_POLL_S)


@dataclass(frozen=True)
class Cluster:
    """Running standalone cluster.

    Attributes:
        url: Address of the master.
        workers: Worker processes, whose sessions contain the executors.
    """

    url: str
    workers: Sequence[subprocess.Popen[bytes]]

    def executors(self) -> list[int]:
        """Return the process ids of the executors."""
        return [
            process.key[0] for worker in self.workers for process in session_of(worker, EXECUTOR)
        ]


@contextmanager
def standalone(
    master: Machine, workers: Sequence[Machine], *, cores: int = 1, memory: str = "600m"
) -> Iterator[Cluster]:
    """Start a master and workers with these cores and this memory each; kill them at the end."""
    import pyspark

    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        stack.enter_context(
            master.running(
                program, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
            )
        )  # fmt: skip
        url = master.wait_for_log(r"Starting Spark master at (spark://\S+)")
        processes = [
            stack.enter_context(
                worker.running(
                    program, f"{deploy}.worker.Worker", url, "--host", "127.0.0.1", "--webui-port", "0",
                    "--cores", str(cores), "--memory", memory, "--work-dir", str(worker.folder / "work"),
                )
            )
            for worker in workers
        ]  # fmt: skip
        for worker in workers:
            worker.wait_for_log(r"(Successfully registered with master)")
        yield Cluster(url, processes)


def session_of(process: subprocess.Popen[bytes], name: bytes = b"") -> list[Process]:
    """Return the processes of a program's session whose command contains a name.

    Not its process group: Spark's Python processes have their own.
    """
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) != process.pid or fields[0] == "Z":
                continue
            if name and name not in stat.with_name("cmdline").read_bytes():
                continue
            cpu_s = (int(fields[11]) + int(fields[12])) * _TICK_S
            key = (int(stat.parent.name), int(fields[19]))
            found.append(Process(key, cpu_s, int(fields[21]) * _PAGE_BYTES))
    return found


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU time and resident memory of sessions by name.

    Attributes:
        at: Time in seconds since 1970.
        cpu_s: CPU time in seconds since the first sample.
        resident_bytes: Resident memory; shared pages count in each process.
    """

    at: float
    cpu_s: Mapping[str, float]
    resident_bytes: Mapping[str, int]


class Sampler:
    """Samples sessions, by name, while its block runs.

    CPU time of a process after its last sample is not counted.

    Args:
        sessions: Programs whose sessions have the processes, by name.
        servers: Functions that return the CPU time of other programs in seconds, by name.
        interval_s: Time between two samples.
    """

    def __init__(
        self,
        sessions: Mapping[str, Sequence[subprocess.Popen[bytes]]],
        servers: Mapping[str, Callable[[], float]],
        interval_s: float = 1.0,
    ) -> None:
        self.samples: list[Sample] = []
        self._sessions = sessions
        self._servers = servers
        self._interval_s = interval_s
        self._newest: dict[str, dict[tuple[int, int], float]] = {name: {} for name in sessions}
        self._first: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()

    def since(self, at: float) -> list[Sample]:
        """Return the samples from a time on, and the last one."""
        return [each for each in self.samples[:-1] if each.at >= at] + self.samples[-1:]

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._sample()

    def _sample(self) -> None:
        resident = dict.fromkeys(self._sessions, 0)
        for name, programs in self._sessions.items():
            for program in programs:
                for process in session_of(program):
                    self._newest[name][process.key] = process.cpu_s
                    resident[name] += process.resident_bytes
        spent = {name: sum(cpu_s.values()) for name, cpu_s in self._newest.items()}
        spent |= {name: cpu_s() for name, cpu_s in self._servers.items()}
        self._first = self._first or spent
        since_first = {name: cpu_s - self._first[name] for name, cpu_s in spent.items()}
        self.samples.append(Sample(time.time(), since_first, resident))
