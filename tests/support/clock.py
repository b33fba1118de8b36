"""A PostgreSQL server whose wall clock can be stepped while it runs.

The server preloads a small library that adds an offset to `clock_gettime`, `gettimeofday` and
`time`, so `now()`, `clock_timestamp()` and PostgreSQL's own timeouts see the step immediately, in
every session. Monotonic clocks are unchanged.

PostgreSQL measures `lock_timeout`, `statement_timeout` and `deadlock_timeout` by the wall clock. If
the clock steps back while one of them runs, it fires late by the size of the step, and sessions in
a deadlock wait as long. A test that steps back while sessions wait for locks calls
`cancel_lock_waits` afterwards.
"""

from __future__ import annotations

import mmap
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from pgsluice.embedded import EmbeddedServer, account, binaries

from . import rows, wait_until
from .programs import require

SOURCE = Path(__file__).parents[1] / "fixtures" / "shifted_clock.c"
DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
DAY_S = 86_400.0
_NS = 1_000_000_000


class Clock:
    """The wall clock of the processes started with it.

    Attributes:
        environ: Environment variables that give a program and its children this clock.
    """

    def __init__(self, folder: Path) -> None:
        """Compile the library into the folder, with a correct clock; skip the test on failure."""
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if sys.platform != "linux" or compiler is None:
            pytest.skip("a stepping clock needs Linux and a C compiler (cc, gcc or clang) on PATH")
        require("as", "ld", purpose="a stepping clock")  # the compiler runs them
        library, file = folder / "shifted_clock.so", folder / "clock_offset"
        command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, SOURCE]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        file.write_bytes(struct.pack("=q", 0))
        for path in (library, file):
            path.chmod(0o755)  # the server may run as another user
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), 8)
        self.environ = {"LD_PRELOAD": str(library), "PGSLUICE_SHIFTED_CLOCK": str(file)}

    @property
    def offset_s(self) -> float:
        """Seconds by which the clock is ahead of the correct time; negative if it is behind."""
        return struct.unpack("=q", self._page[:8])[0] / _NS

    def set(self, offset_s: float) -> None:
        """Set the offset from the correct time; 0 corrects the clock."""
        self._page[:8] = struct.pack("=q", round(offset_s * _NS))

    def shift(self, seconds: float) -> None:
        """Step the clock forward, or back by a negative number of seconds."""
        self.set(self.offset_s + seconds)


def cancel_lock_waits(session: psycopg.Connection) -> None:
    """Cancel the statements that wait for a lock since before the clock was set back.

    They began in what is now the future.
    """

    def is_over() -> bool:
        found = rows(
            session,
            """select pg_cancel_backend(pid) from pg_stat_activity
            where wait_event_type = 'Lock' and query_start > clock_timestamp()""",
        )
        return not found

    wait_until(is_over, "the lock waits from before the step to end")


@dataclass(frozen=True)
class ShiftedServer:
    """A running server and its clock."""

    server: EmbeddedServer
    clock: Clock


@contextmanager
def shifted_server(
    folder: Path, version: str = "18", options: Mapping[str, str] | None = None
) -> Iterator[ShiftedServer]:
    """Run a server with its own clock in a new folder; stop it at the end.

    `server.start()` and `server.stop()` work as usual: a restarted server keeps the offset.

    Args:
        folder: A folder that every user may enter, such as one in `servers_folder`.
        version: 15, 16 or 18.
        options: Settings of the server.
    """
    if version == "15" and not DEBIAN_15.exists():
        pytest.skip(f"PostgreSQL 15 is not installed in {DEBIAN_15}")
    folder.mkdir(mode=0o755, exist_ok=True)
    clock = Clock(folder)
    server = EmbeddedServer(
        folder / "data", bin_dir=shifted_programs(folder, version, clock), options=options
    )
    server.start()
    try:
        yield ShiftedServer(server, clock)
    finally:
        clock.set(0)
        server.stop("immediate")


def shifted_programs(folder: Path, version: str, clock: Clock) -> Path:
    """Create programs in `folder`/bin for a server in `folder`/data with this clock; return it."""
    programs = DEBIAN_15 if version == "15" else binaries.wheel_bin_dir(int(version))
    programs = binaries.reachable(programs, account.for_server(folder / "data"), folder)
    bin_dir = folder / "bin"
    bin_dir.mkdir(mode=0o755, exist_ok=True)
    for program in programs.iterdir():
        script = bin_dir / program.name
        # Only the server has this clock: initdb runs the `postgres` of its own folder, and clients
        # keep the
        # correct time.
        shifted = clock.environ if program.name == "postgres" else {}
        words = ["exec", "env", *(f"{n}={v}" for n, v in shifted.items()), str(program)]
        script.write_text(f'#!/bin/sh\n{shlex.join(words)} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return bin_dir
