"""The operating system's user who runs the server.

PostgreSQL refuses to run as root. An ordinary user runs the server himself; root runs it as the
system user `pgsluice`, made on first use, or as `nobody` where no user can be made.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgsluice.errors import EmbeddedServerError

SYSTEM_USER = "pgsluice"
FALLBACK_USER = "nobody"
_USERADD_DEADLINE_S = 60.0

# What a server process may need of the caller's environment. The rest stays out: PG* variables
# would change what initdb does, and secrets of the caller have no business in a process that lives
# for months.
_PASSED_VARIABLES = ("PATH", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system.

    Attributes:
        name: For messages.
        uid: Number of the user.
        gid: Number of the user's own group.
        foreign: Whether this process runs as somebody else (it is root) and must change to the
            user.
    """

    name: str
    uid: int
    gid: int
    foreign: bool

    def process_options(self, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Give the options of `subprocess` for a process of this user, away from our terminal.

        A new session: neither Ctrl-C nor the end of the terminal reaches the process.
        """
        options: dict[str, Any] = {
            "cwd": "/",  # the caller's own may be closed to the user, and must not be kept busy
            "env": {k: os.environ[k] for k in _PASSED_VARIABLES if k in os.environ}
            | dict(environ or {}),
            "start_new_session": True,
            "umask": 0o077,
        }
        if self.foreign:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def run(
        self,
        arguments: Sequence[str | Path],
        *,
        environ: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this user to its end and return its output, standard error included.

        Raises:
            EmbeddedServerError: This process may not become the user.
        """
        try:
            return subprocess.run(
                [str(argument) for argument in arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                pass_fds=pass_fds,
                **self.process_options(environ),
            )
        except (PermissionError, subprocess.SubprocessError) as error:
            # Python reports a failed setuid by the name of the program, or by no name at all.
            raise EmbeddedServerError(
                f"cannot run {arguments[0]} as user {self.name!r}: {error}; run pgsluice as an "
                "ordinary user, or allow this process to change its user"
            ) from error

    def can_enter(self, folder: Path) -> bool:
        """Say whether the user may pass through the folder and all folders above it."""
        return self.can_execute(folder)

    def can_execute(self, path: Path) -> bool:
        """Say whether the user may run a program, or pass through a folder."""
        # The shell's own `test`: a program of that name need not be on PATH.
        return self.run(["/bin/sh", "-c", 'test -x "$0"', path]).returncode == 0


def for_server(data: Path) -> Account:
    """Choose who runs the server of a data folder, which need not exist.

    Root's choice stays with the folder: data that `nobody` owns goes on under `nobody`.

    Raises:
        EmbeddedServerError: The folder belongs to somebody who cannot run the server for this
            process.
    """
    uid = os.geteuid()
    owner = data.stat().st_uid if data.exists() else None
    if uid != 0:
        if owner not in (None, uid):
            raise belongs_to_another(data)
        return Account(_user_name(uid), uid, os.getegid(), foreign=False)
    if owner in (None, 0):
        return named(SYSTEM_USER) or _created_system_user() or _fallback()
    for name in (SYSTEM_USER, FALLBACK_USER):
        account = named(name)
        if account and account.uid == owner:
            return account
    raise belongs_to_another(data)


def is_anothers(path: Path) -> bool:
    """Say whether a file or folder can be seen and belongs to another user than this process's."""
    try:
        return path.lstat().st_uid != os.geteuid()
    except OSError:
        return False


def belongs_to_another(path: Path) -> EmbeddedServerError:
    """Make the error for a file or folder of another user."""
    owner = _user_name(path.lstat().st_uid)
    return EmbeddedServerError(
        f"{path} belongs to user {owner!r}, and this process runs as {_user_name(os.geteuid())!r}; "
        "run pgsluice as its owner, or use a folder of your own (--data, PGSLUICE_HOME)"
    )


def named(name: str) -> Account | None:
    """Find a user for root to run programs as; None when there is no such user."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid, foreign=True)


def _created_system_user() -> Account | None:
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if useradd is None:
        return None
    # useradd fails at once while another one works, so processes that start servers take turns.
    # Nobody else uses flock on this file (useradd has its own lock files), and useradd ends by
    # itself.
    with Path("/etc/passwd").open(encoding="utf-8") as passwd:
        fcntl.flock(passwd, fcntl.LOCK_EX)
        if named(SYSTEM_USER) is None:
            subprocess.run(
                [
                    useradd,
                    "--system",
                    "--user-group",
                    "--no-create-home",
                    *("--home-dir", "/nonexistent"),
                    *("--shell", shutil.which("nologin") or "/usr/sbin/nologin"),
                    *("--comment", "runs embedded PostgreSQL servers"),
                    SYSTEM_USER,
                ],
                check=False,  # a read-only /etc: then `nobody` will do
                capture_output=True,
                timeout=_USERADD_DEADLINE_S,
            )
        fcntl.flock(passwd, fcntl.LOCK_UN)
    return named(SYSTEM_USER)


def _fallback() -> Account:
    account = named(FALLBACK_USER)
    if account is None:
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, and there is no user {SYSTEM_USER!r} or "
            f"{FALLBACK_USER!r}; create one with `useradd --system {SYSTEM_USER}`"
        )
    return account


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # containers run with numbers that have no name
        return str(uid)
