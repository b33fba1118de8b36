"""Files next to the data, in `<data>.run`: lock, log, socket, port, password.

They are not in the data folder, which must be empty before initdb and belongs to the server's user;
these files belong to the caller, who may be root.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pgsluice.embedded.account import Account, belongs_to_another, is_anothers
from pgsluice.errors import EmbeddedServerError

LOCK_DEADLINE_S = 120.0  # covers a start in another process: initdb on a slow disk, or recovery
LOG_BYTES_MAX = 16 * 1024 * 1024
# sun_path holds 108 bytes on Linux and 104 elsewhere, including the terminating zero.
_SOCKET_PATH_BYTES_MAX = 107 if sys.platform == "linux" else 103
_SOCKET_NAME_LONGEST = "/.s.PGSQL.65535"
_POLL_INTERVAL_S = 0.01


class RunFolder:
    """The folder `<data>.run`.

    Attributes:
        path: `<data>.run`.
        lock_file: Locked during a start or stop of the server.
        log: The server's output, appended; a start rotates it beyond `LOG_BYTES_MAX`.
        password_file: The superuser's password for TCP; mode 0600.
        stopped_file: Exists while the server is stopped on purpose; holds the time.
        building: Working folder of initdb, renamed to the data folder when complete.
    """

    def __init__(self, data: Path) -> None:
        self.path = data.with_name(data.name + ".run")
        self.lock_file = self.path / "lock"
        self.log = self.path / "log"
        self.password_file = self.path / "password"
        self.building = self.path / "building"
        self.stopped_file = self.path / "stopped"
        self._port_file = self.path / "port"
        self._data = data

    def prepare(self) -> None:
        """Create the folder and its parent folders.

        Raises:
            EmbeddedServerError: It belongs to another user, who could read the password.
            OSError: It cannot be created.
        """
        make_folders(self.path)
        if is_anothers(self.path):
            raise belongs_to_another(self.path)
        # Root's server runs as another user, who needs only to pass through to the socket's folder.
        self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the lock; yield its descriptor. The kernel releases it if the holder is killed.

        Raises:
            EmbeddedServerError: Another process has held it for `LOCK_DEADLINE_S`.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.lock_file, flags, 0o600)
        try:
            if not wait_until(lambda: _try_lock(descriptor), deadline_s=LOCK_DEADLINE_S):
                raise EmbeddedServerError(
                    f"another process has been starting or stopping the server of {self._data} for "
                    f"{LOCK_DEADLINE_S:.0f} s (it holds {self.lock_file}); wait for it, or stop it"
                )
            yield descriptor
        finally:
            # Unlock explicitly, as a process forked meanwhile shares the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def open_log(self) -> int:
        """Open the log for appending, after renaming an oversized one to `log.old`."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.rename(self.log.with_name("log.old"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self.log, flags, 0o600)

    def log_tail(self, *, offset_bytes: int, lines: int = 12) -> str:
        """Return the last lines of the log after an offset."""
        with self.log.open("rb") as file:
            file.seek(offset_bytes)
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])

    def socket_folder(self) -> Path:
        """Return the folder of the Unix socket: here if possible, else one with a short path under `/tmp`.

        Other characters would need quoting in URLs and in the server's list of folders, which both split at
        commas. `TMPDIR` and the session's runtime folder are not used, as they differ between processes, and
        the latter is removed with the session.
        """
        folder = self.path / "socket"
        length_bytes = len(os.fsencode(folder)) + len(_SOCKET_NAME_LONGEST)
        if length_bytes <= _SOCKET_PATH_BYTES_MAX and re.fullmatch(
            r"[A-Za-z0-9/._+-]+", str(folder)
        ):
            return folder
        digest = hashlib.sha256(os.fsencode(self._data)).hexdigest()[:16]
        return Path(f"/tmp/pgsluice-{digest}")  # noqa: S108  prepare_socket_folder trusts nothing there

    def prepare_socket_folder(self, account: Account) -> Path:
        """Create the socket's folder, which only the server's user and root can enter.

        The private folder makes `trust` on the socket safe: a user with access to the socket could also read
        the data. Root may enter any folder, so root can connect to a server that runs as another user.

        Raises:
            EmbeddedServerError: The folder exists and is another user's, not private, or a symbolic link.
        """
        folder = self.socket_folder()
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            if account.foreign:
                os.chown(folder, account.uid, account.gid, follow_symlinks=False)
        status = folder.lstat()
        if status.st_uid != account.uid or status.st_mode != stat.S_IFDIR | 0o700:
            raise EmbeddedServerError(
                f"{folder}, the folder for the server's socket, is not a private folder of user "
                f"{account.name!r}; remove it, or use a shorter path of plain characters for the "
                "data (--data, PGSLUICE_HOME)"
            )
        return folder

    def port(self) -> int | None:
        """Return the TCP port of the last start; None before the first."""
        try:
            return int(self._port_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None

    def free_port(self) -> int:
        """Return a free loopback port, preferably that of the last start, and store it."""
        kept = self.port()
        port = kept if kept is not None and port_is_free(kept) else _any_free_port()
        if port != kept:
            write_private(self._port_file, f"{port}\n")
        return port

    def password(self) -> str:
        """Return the superuser's password.

        Raises:
            EmbeddedServerError: The password file is missing, as when the data was copied without its `.run` folder.
        """
        try:
            return self.password_file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise EmbeddedServerError(
                f"the password for TCP is missing: {self.password_file}; write one there (mode 0600) "
                "and set it for role postgres with \\password in `pgsluice embedded psql`"
            ) from None

    def new_password(self) -> str:
        """Create and store a password of 256 random bits, in characters that need no quoting in URLs."""
        password = secrets.token_urlsafe(32)
        write_private(self.password_file, f"{password}\n")
        return password


def wait_until(condition: Callable[[], bool], *, deadline_s: float) -> bool:
    """Poll a condition; return True if it was met before the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents: private for a user, passable for root.

    Only created folders get a mode, independent of the umask.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        # Another process may create the same folders concurrently.
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            if os.geteuid() == 0:
                folder.chmod(0o755)


def write_private(path: Path, text: str, *, account: Account | None = None) -> None:
    """Write a file atomically, readable only by its owner."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        if account is not None and account.foreign:
            os.fchown(descriptor, account.uid, account.gid)
        file.write(text)
    new.rename(path)


def sync_folder(path: Path) -> None:
    """Make a rename in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def port_is_free(port: int) -> bool:
    """True if a server could listen on a loopback port now."""
    with socket.socket() as probe:
        # As PostgreSQL does: connections of a former server in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _any_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
