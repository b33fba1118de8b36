"""The operating system user that runs the server.

PostgreSQL refuses to run as root. Other users run the server themselves; root runs it as the system
user `pgsluice`, created on first use, or as `nobody` if that user cannot be created.
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

# Environment variables passed to the server. Others stay out: PG* variables would change initdb, and
# the caller's secrets must not stay in a process that runs for months.
_PASSED_VARIABLES = ("PATH", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system.

    Attributes:
        name: User name, for messages.
        uid: User id.
        gid: Id of the user's primary group.
        foreign: True if it differs from the user of this process, which is root and must switch to it.
    """

    name: str
    uid: int
    gid: int
    foreign: bool

    def process_options(self, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the options of `subprocess` for a process of this user.

        It gets a session of its own, so that neither Ctrl-C nor the end of the terminal reaches it.
        """
        options: dict[str, Any] = {
            "cwd": "/",  # the user may not enter the caller's, and it must stay removable
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
        """Run a program as this user; return its output, standard error included.

        Raises:
            EmbeddedServerError: This process may not switch to the user.
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
            # Python reports a failed setuid with the name of the program or without a name.
            raise EmbeddedServerError(
                f"cannot run {arguments[0]} as user {self.name!r}: {error}; run pgsluice as an "
                "ordinary user, or allow this process to change its user"
            ) from error

    def can_enter(self, folder: Path) -> bool:
        """True if the user may pass through the folder and its parent folders."""
        return self.can_execute(folder)

    def can_execute(self, path: Path) -> bool:
        """True if the user may execute a program, or pass through a folder."""
        # The shell's builtin `test`, as PATH may lack the program.
        return self.run(["/bin/sh", "-c", 'test -x "$0"', path]).returncode == 0


def for_server(data: Path) -> Account:
    """Return the account that runs the server of a data folder, which need not exist.

    Root keeps the owner of existing data: data of `nobody` stays with `nobody`.

    Raises:
        EmbeddedServerError: The folder belongs to a user who cannot run the server for this process.
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
    """True if a file or folder is accessible and belongs to another user than this process's."""
    try:
        return path.lstat().st_uid != os.geteuid()
    except OSError:
        return False


def belongs_to_another(path: Path) -> EmbeddedServerError:
    """Return the error for a file or folder of another user."""
    owner = _user_name(path.lstat().st_uid)
    return EmbeddedServerError(
        f"{path} belongs to user {owner!r}, and this process runs as {_user_name(os.geteuid())!r}; "
        "run pgsluice as its owner, or use a folder of your own (--data, PGSLUICE_HOME)"
    )


def named(name: str) -> Account | None:
    """Return a user that root can run programs as; None if the user does not exist."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name, entry.pw_uid, entry.pw_gid, foreign=True)


def _created_system_user() -> Account | None:
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if useradd is None:
        return None
    # A second useradd fails immediately while one runs, so processes that start servers take turns.
    # Only this code uses flock on this file, as useradd has its own lock files; and useradd has a timeout.
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
                check=False,  # /etc may be read-only: then `nobody` is used
                capture_output=True,
                timeout=_USERADD_DEADLINE_S,
            )
        fcntl.flock(passwd, fcntl.LOCK_UN)
    return named(SYSTEM_USER)


def _fallback() -> Account:
    account = named(FALLBACK_USER)
    if account is None:
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, and neither user {SYSTEM_USER!r} nor "
            f"{FALLBACK_USER!r} exists; create one with `useradd --system {SYSTEM_USER}`"
        )
    return account


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # containers may run with uids without a name
        return str(uid)
