"""CPU time of the backend or of all processes, which is less sensitive to other load than wall-clock time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.place import Place
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import ConfigurationError

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def backend_cpu_s(connection: psycopg.Connection[Any]) -> float:
    """Return the CPU time in seconds used by a connection's backend; requires a local server on Linux."""
    place = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    if not place.exists():
        raise ConfigurationError(
            f"{place} does not exist; this question requires Linux and a local server"
        )
    return int(place.read_text().split()[0]) / 1e9


def per_cpu_s(connection: psycopg.Connection[Any], times: int, action: Callable[[], None]) -> float:
    """Run an action and return its rate per second of the backend's CPU time.

    Args:
        connection: Connection whose backend does the work.
        times: Number of calls, or events, in the action.
        action: Function that performs all calls.
    """
    before = backend_cpu_s(connection)
    action()
    return times / (backend_cpu_s(connection) - before)


def server_cpu_s(server: EmbeddedServer) -> float:
    """Return the CPU time in seconds of all processes of a server on Linux; of running ones in nanoseconds."""
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    while True:
        ended_s, children = _ended_cpu_s(postmaster), _children(postmaster)
        spent_s = ended_s
        for pid in (postmaster, *children):
            try:
                spent_s += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                continue
        # A child that ended meanwhile would be counted twice or not at all.
        if (ended_s, children) == (_ended_cpu_s(postmaster), _children(postmaster)):
            return spent_s


def _ended_cpu_s(postmaster: int) -> float:
    """Return the CPU time in seconds of its children that have ended."""
    stat = Path(f"/proc/{postmaster}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, stat[13:15])) * _TICK_S


def _children(postmaster: int) -> list[str]:
    return Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()


@contextmanager
def cpu_of_all(place: Place, notes: list[str], question: str, count: int) -> Iterator[None]:
    """Note the CPU time of server, Java and Python processes in a block, in total and by kind.

    Args:
        place: Its local server runs on Linux.
        notes: The workload's notes.
        question: Name of the question.
        count: Number of rows.
    """
    before = _cpu_by_kind(place)
    yield
    after = _cpu_by_kind(place)
    spent = {kind: after[kind] - before[kind] for kind in after}
    kinds = ", ".join(f"{kind} {s / count * 1e6:.2f}" for kind, s in spent.items())
    said = f"{question}: {sum(spent.values()) / count * 1e6:.2f} us of CPU per row ({kinds})"
    print(f"  {said}; load {os.getloadavg()[0]:.1f}")
    notes.append(said)


def _cpu_by_kind(place: Place) -> dict[str, float]:
    """Return the CPU time in seconds of the server, and of this process and its descendants, with ended ones."""
    pid_file = place.server.data / "postmaster.pid"
    postmaster = int(pid_file.read_text().split()[0])
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    names: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition(" (")[2].rpartition(") ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid, fields = int(stat.parent.name), rest.split()
        parents[pid], names[pid] = int(fields[1]), name
        # Of the process, and of its children that have ended.
        spent[pid] = sum(map(int, fields[11:15])) * _TICK_S
    found = {"server": 0.0, "Java": 0.0, "Python": 0.0}
    for pid, own in spent.items():
        line = [pid]
        while line[-1] in parents and line[-1] not in (postmaster, os.getpid()):
            line.append(parents[line[-1]])
        if line[-1] == postmaster:
            found["server"] += own
        elif line[-1] == os.getpid():
            found["Java" if names[pid] == "java" else "Python"] += own
    return found


class MemoryReads:
    """Measures how long random reads of main memory take; a server spends much of its CPU time waiting for them.

    Other guests of the same host slow them down many times, and no counter of this machine shows that: a loop that only
    computes keeps its speed.
    """

    BYTES, READS = 1 << 26, 20_000

    def __init__(self) -> None:
        """Occupy the memory that is read."""
        self._memory = bytearray(b"\0" * self.BYTES)  # a copy, so that each page exists
        self._place = 0

    def ns(self) -> float:
        """Return the CPU time of a read, in nanoseconds, with that of computing its place in Python."""
        memory, place, last = self._memory, self._place, self.BYTES - 1
        begin = time.process_time_ns()
        for _ in range(self.READS):
            place = (1_664_525 * place + 1_013_904_223 + memory[place]) & last
        self._place = place
        return round((time.process_time_ns() - begin) / self.READS, 1)
