"""The server process: liveness, start and stop."""

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
_VOID_PID_FILE_AGE_S = 10.0  # a server writes the file microseconds after creating it

# "$@" in the background of a shell that exits: the server is not our child, so it needs no wait and
# leaves no zombie in a long-lived caller. Unlike with pg_ctl's -o, arguments need no quoting.
_LAUNCH = '"$@" </dev/null >&2 & echo $!'


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The contents of `postmaster.pid`; the process may be gone.

    pid: Process id of the postmaster.
    started_epoch_s: Start time, seconds since 1970; distinguishes servers with the same process id.
    port: Port of the socket and of TCP.
    socket_folder: Folder of the Unix socket; None before the socket exists.
    address: Listen address; None: Unix socket only.
    status: `starting`, `ready`, `standby`, `stopping`, or empty before the first.
    """

    pid: int
    started_epoch_s: int
    port: int
    socket_folder: Path | None
    address: str | None
    status: str

    @property
    def ready(self) -> bool:
        """True if it accepts connections."""
        return self.status in ("ready", "standby")


def read(data: Path) -> Postmaster | None:
    """Read `postmaster.pid`; None if it is missing or incomplete.

    Raises:
        OSError: The folder is not readable.

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
    """True if a process is alive and is the server of this data folder.

    The process id is not enough: after a reboot, or in a new container, another process may have it. The
    command line identifies the server and is readable by every user; `/proc/<pid>/cwd` may not be
    readable even by root in a container.
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
    # Started by other means, with PGDATA or a relative path. Mistaking another server for ours is safer
    # than starting a second one on the same data.
    return Path(os.fsdecode(arguments[0])).name in ("postgres", "postmaster")


def _linux_command_line(pid: int) -> list[bytes]:
    """Return a process's arguments; empty for a dead process, a zombie or a kernel thread."""
    text = b""

    def decided() -> bool:
        nonlocal text
        folder = Path(f"/proc/{pid}")
        try:
            text = (folder / "cmdline").read_bytes()
            # Also empty for a moment during exec, when the process has memory.
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
    """Return the server of a data folder if its process is alive, ready or not."""
    found = read(data)
    return found if found is not None and alive(found.pid, data) else None


def discard_void_pid_file(data: Path) -> None:
    """Remove an empty `postmaster.pid`, left by a power failure; servers refuse to start with it.

    Only an old one, as a server started by other means may have just created it.
    """
    path = data / "postmaster.pid"
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        if status.st_size == 0 and time.time() - status.st_mtime > _VOID_PID_FILE_AGE_S:
            path.unlink()


def launch(
    bin_dir: Path, data: Path, arguments: Sequence[str], *, account: Account, log: int
) -> int:
    """Start the server process and return its process id without waiting.

    Args:
        bin_dir: PostgreSQL's programs.
        data: An initialised data folder without a running server.
        arguments: Arguments of `postgres` after `-D`.
        account: User that runs the server.
        log: Descriptor for its output.
    """
    stale = read(data)
    # The server refuses to start if a stale postmaster.pid names a living process of its user, unless it
    # is its grandparent's. The caller has checked that it is no server, so it is passed as grandparent.
    # Removing the file would also skip the check for orphaned backends, which needs the shared memory
    # id in it.
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
    """Send a server its stop signal; after `immediate` the next start runs recovery.

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
