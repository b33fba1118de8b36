"""Is the server alive; starting and stopping its process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgsluice.embedded.account import Account
from pgsluice.embedded.folder import wait_until
from pgsluice.errors import EmbeddedServerError

StopMode = Literal["fast", "immediate"]
_SIGNALS: dict[StopMode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

_EXEC_DEADLINE_S = 1.0
_VOID_PID_FILE_AGE_S = 10.0  # between making the file and writing it lie microseconds

# "$@" in the background of a shell that ends: the server is no child of ours, so nobody must wait
# for it and it leaves no zombie in a long-lived caller. Arguments pass through untouched, unlike
# pg_ctl's -o.
_LAUNCH = '"$@" </dev/null >&2 & echo $!'


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What `postmaster.pid` says; the process need not live.

    Attributes:
        pid: The server's first process.
        started_epoch_s: When it was started, seconds since 1970: tells two servers of one number
            apart.
        port: Of the socket, and of TCP.
        socket_folder: Where the Unix socket is, or None before it is made.
        address: What it listens on, or None: Unix socket only.
        status: `starting`, `ready`, `standby`, `stopping`, or empty before the first of them.
    """

    pid: int
    started_epoch_s: int
    port: int
    socket_folder: Path | None
    address: str | None
    status: str

    @property
    def ready(self) -> bool:
        """Whether it takes connections."""
        return self.status in ("ready", "standby")


def read(data: Path) -> Postmaster | None:
    """Read `postmaster.pid`; None when there is none, or it is still being written.

    Raises:
        OSError: The folder may not be read.

    Source: PostgreSQL 18 src/include/utils/pidfile.h, the same since 10.
    """
    try:
        text = (data / "postmaster.pid").read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    lines = [line.strip() for line in text.splitlines()]
    lines += [""] * (8 - len(lines))
    pid, _, started, port, socket_folder, address, _, status = lines[:8]
    if not pid.isdecimal():
        return None
    return Postmaster(
        int(pid),
        int(started) if started.isdecimal() else 0,
        int(port) if port.isdecimal() else 0,
        Path(socket_folder) if socket_folder else None,
        address or None,
        status,
    )


def alive(pid: int, data: Path) -> bool:
    """Say whether a process lives and is the server of this data folder.

    A number alone proves nothing: after a reboot, or in a new container, it may be anybody's. The
    command line tells, and every user may read it; `/proc/<pid>/cwd` may not be read even by root
    in a container.
    """
    if sys.platform == "linux":
        arguments = _linux_command_line(pid)
    else:
        answer = subprocess.run(
            ["ps", "-ww", "-p", str(pid), "-o", "command="], check=False, capture_output=True
        )
        arguments = (
            answer.stdout.strip().replace(b" -D ", b"\0-D\0").replace(b" -c ", b"\0").split(b"\0")
        )
    named = _data_argument(arguments)
    if named.startswith("/"):
        return os.path.realpath(named) == str(data)
    # Started by other means, with PGDATA or a relative path. Better to take a stranger's server for
    # ours than to start a second one on the same data.
    return Path(os.fsdecode(arguments[0])).name in ("postgres", "postmaster")


def _linux_command_line(pid: int) -> list[bytes]:
    """Read a living process's arguments; of none, of a zombie and of the kernel's own, empty ones."""
    text = b""

    def decided() -> bool:
        nonlocal text
        folder = Path(f"/proc/{pid}")
        try:
            text = (folder / "cmdline").read_bytes()
            # Empty for an instant in the middle of exec, too. Then the process has memory.
            return bool(text) or b"VmSize:" not in (folder / "status").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            text = b""
            return True

    wait_until(decided, deadline_s=_EXEC_DEADLINE_S)
    return text.rstrip(b"\0").split(b"\0")


def _data_argument(arguments: Sequence[bytes]) -> str:
    for position, argument in enumerate(arguments):
        if argument == b"-D" and position + 1 < len(arguments):
            return os.fsdecode(arguments[position + 1])
        if argument.startswith(b"-D/"):
            return os.fsdecode(argument[2:])
    return ""


def running(data: Path) -> Postmaster | None:
    """Give the server of a data folder if its process lives, ready or not."""
    found = read(data)
    return found if found is not None and alive(found.pid, data) else None


def discard_void_pid_file(data: Path) -> None:
    """Remove an empty `postmaster.pid`, as a power cut leaves it; servers refuse to start on it.

    Only an old one: a server started by other means may have made it this moment.
    """
    path = data / "postmaster.pid"
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        if status.st_size == 0 and time.time() - status.st_mtime > _VOID_PID_FILE_AGE_S:
            path.unlink()


def launch(
    bin_dir: Path, data: Path, arguments: Sequence[str], *, account: Account, log: int
) -> int:
    """Start the server process and return its number, without waiting for anything.

    Args:
        bin_dir: PostgreSQL's programs.
        data: An initialised data folder without a living server.
        arguments: For `postgres`, after `-D`.
        account: Who runs it.
        log: A descriptor that receives its output.
    """
    stale = read(data)
    # The server refuses when the number in a left-over postmaster.pid is any living process of its
    # user's, except when it is its own grandparent's. The caller knows that it is no server: say so
    # in this way. Removing the file instead would also remove the check for orphaned backends,
    # which rests on the shared memory named there.
    environ = {"PG_GRANDPARENT_PID": str(stale.pid)} if stale else {}
    answer = subprocess.run(
        ["/bin/sh", "-c", _LAUNCH, "sh", str(bin_dir / "postgres"), "-D", str(data), *arguments],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        **account.process_options(environ),
    )
    return int(answer.stdout)


def end(pid: int, mode: StopMode) -> None:
    """Ask a server to stop; `immediate` leaves recovery to the next start.

    Raises:
        EmbeddedServerError: The server belongs to another user.
    """
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(pid, _SIGNALS[mode])
        except PermissionError as error:
            raise EmbeddedServerError(
                f"the server (process {pid}) belongs to another user; stop it as its owner"
            ) from error
