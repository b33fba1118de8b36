"""EmbeddedServer: a PostgreSQL cluster in a folder, shared by processes."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from pgsluice.backoff import next_delay_s
from pgsluice.embedded import account as accounts
from pgsluice.embedded import binaries, postmaster
from pgsluice.embedded.account import Account
from pgsluice.embedded.folder import (
    RunFolder,
    make_folders,
    port_is_free,
    sync_folder,
    wait_until,
    write_private,
)
from pgsluice.embedded.postmaster import Postmaster, StopMode
from pgsluice.errors import ConfigurationError, EmbeddedServerError
from pgsluice.settings import Settings

START_DEADLINE_S = 120.0  # recovery after a crash replays WAL first
STOP_DEADLINE_S = 120.0  # a fast stop writes a checkpoint
RETRY_DEADLINE_S = 15.0  # backends of a killed server exit within moments

SUPERUSER = "postgres"
LOOPBACK = "127.0.0.1"
_UNIX_PORT = 5432  # only a part of the socket's name, in a folder of its own
_OWN_OPTIONS = (
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "listen_addresses",
    "logging_collector",
    "port",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
)
# Variables that would send a client to another server, or with other credentials.
_CLIENT_VARIABLES = (
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGHOSTADDR",
    "PGPASSWORD",
    "PGPASSFILE",
    "PGREQUIREAUTH",
    "PGTARGETSESSIONATTRS",
)


class EmbeddedServer:
    """A PostgreSQL cluster in a folder, shared by all processes that name the folder.

    It listens on a Unix socket in a folder that only its user can enter; with `tcp` also on 127.0.0.1,
    with a password. It keeps running when the process that started it exits. Its only superuser at
    creation is `postgres`. Methods may be called from any thread and process.

    Attributes:
        data: The data folder, absolute, with symbolic links resolved.
        version: PostgreSQL's major version.
        tcp: True if this object starts it with TCP and returns the TCP address.
        bin_dir: The folder of psql, pgbench, pg_dump and the other programs.
        log: The server's log file.
    """

    bin_dir: Path

    def __init__(
        self,
        data: Path,
        *,
        version: int = 18,
        tcp: bool = False,
        bin_dir: Path | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Refer to a server; neither starts nor writes anything.

        Args:
            data: The data folder, created by the first start. `<data>.run` next to it holds log and
                lock.
            version: 16 or 18; ignored with `bin_dir`.
            tcp: Also listen on 127.0.0.1, with a password, on a port that stays the same between starts.
            bin_dir: Programs of another PostgreSQL, 15 or later, instead of the wheel's.
            options: Server settings, passed at its start as `-c name=value`; without effect on a running
                server.

        Raises:
            MissingExtraError: The wheel is not installed.
            EmbeddedServerError: The programs are missing or cannot be executed.
            ConfigurationError: An option name is invalid, or reserved for the embedded server.
        """
        self.data = Path(data).expanduser().resolve()
        self.bin_dir = (
            binaries.wheel_bin_dir(version) if bin_dir is None else Path(bin_dir).resolve()
        )
        self.version = version if bin_dir is None else binaries.major_version(self.bin_dir)
        self.tcp = tcp
        self._options = dict(options or {})
        self._folder = RunFolder(self.data)
        self.log = self._folder.log
        for name in self._options:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) or name.lower() in _OWN_OPTIONS:
                raise ConfigurationError(
                    f"the option {name!r} cannot be given to the embedded server, which sets its "
                    "own; leave it out, or use a PostgreSQL of your own (--dsn, PGSLUICE_DSN)"
                )

    def __repr__(self) -> str:
        return f"EmbeddedServer({str(self.data)!r}, version={self.version}, tcp={self.tcp})"

    def start(self) -> None:
        """Create the cluster if missing, start it if stopped; return when it is ready.

        Idempotent, and safe to call concurrently from many processes.

        Raises:
            EmbeddedServerError: The server cannot be started; the message has the reason and the solution.
        """
        with self._explained():
            account = accounts.for_server(self.data)
            self._require_passage(account)
            self._folder.prepare()
            with self._folder.locked() as lock:
                self._folder.stopped_file.unlink(missing_ok=True)
                if self._is_up():
                    return
                bin_dir = binaries.reachable(self.bin_dir, account, self._folder.path)
                if self._needs_initdb():
                    self._initdb(bin_dir, account, lock)
                self._launch(bin_dir, account)

    def stop(self, mode: StopMode = "fast", *, stay: bool = False) -> None:
        """Stop the server, also if another process started it. Idempotent.

        Args:
            mode: `fast` disconnects sessions, rolls back and writes a checkpoint; `immediate` stops as after a
                power failure, and the next start runs recovery.
            stay: Record that it was stopped on purpose: then only `start` starts it, and `connection.resolve`,
                which all commands use, raises an error.

        Raises:
            EmbeddedServerError: It belongs to another user, or did not stop in time.
        """
        with self._explained():
            if stay and self.data.exists():
                make_folders(self._folder.path)
                now = datetime.now(UTC).isoformat(timespec="seconds")
                self._folder.stopped_file.write_text(f"{now}\n", encoding="ascii")
            if postmaster.running(self.data) is None:
                return
            make_folders(self._folder.path)  # missing if the server was started by other means
            with self._folder.locked():
                found = postmaster.running(self.data)
                if found is None:
                    return
                postmaster.end(found.pid, mode)
                self._await_end(found.pid)

    def stopped_since(self) -> str | None:
        """Return when the server was stopped on purpose, as ISO 8601 in UTC; None if it was not, or was restarted."""
        with self._explained():
            try:
                return self._folder.stopped_file.read_text(encoding="ascii").strip()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def running(self) -> bool:
        """True if the server accepts connections.

        Raises:
            EmbeddedServerError: The folder belongs to another user and cannot be read.
        """
        found = self.found()
        return found is not None and found.ready

    def found(self) -> Postmaster | None:
        """Return the server's process, ready or not; None if it is not alive.

        Raises:
            EmbeddedServerError: The folder belongs to another user and cannot be read.
        """
        with self._explained():
            return postmaster.running(self.data)

    def url(self, database: str = "postgres") -> str:
        """Return the libpq URL of the server, running or not.

        Without TCP it holds no secret. With TCP it holds the password: do not log it.

        Raises:
            EmbeddedServerError: TCP is requested, and the server runs without it or never had it.
        """
        with self._explained():
            name = quote(database, safe="")
            folder, port = self._address()
            if not self.tcp:
                return f"postgresql://{SUPERUSER}@/{name}?host={folder}&port={port}"
            return f"postgresql://{SUPERUSER}:{self._folder.password()}@{folder}:{port}/{name}"

    def client_environ(self, database: str = "postgres") -> dict[str, str]:
        """Return an environment in which PostgreSQL's programs connect to this server by its Unix socket.

        It is the caller's, with PGHOST, PGPORT, PGUSER and PGDATABASE set and without variables that name
        another server. It holds no secret.
        """
        with self._explained():
            folder, port = self._socket_address()
        environ = {k: v for k, v in os.environ.items() if k not in _CLIENT_VARIABLES}
        return environ | {
            "PGHOST": folder,
            "PGPORT": str(port),
            "PGUSER": SUPERUSER,
            "PGDATABASE": database,
        }

    # ── addresses ──────────────────────────────────────────────────────────────────────────────

    def _address(self) -> tuple[str, int]:
        if not self.tcp:
            return self._socket_address()
        found = postmaster.running(self.data)
        if found is not None:
            self._require_tcp(found)
            return LOOPBACK, found.port
        port = self._folder.port()
        if port is None:
            raise EmbeddedServerError(
                f"the server of {self.data} has no TCP port yet; start it with --tcp"
            )
        return LOOPBACK, port

    def _socket_address(self) -> tuple[str, int]:
        found = postmaster.running(self.data)
        if found is not None and found.socket_folder is not None:
            return str(found.socket_folder), found.port
        return str(self._folder.socket_folder()), _UNIX_PORT

    def _require_tcp(self, found: Postmaster) -> None:
        if self.tcp and found.address is None:
            raise EmbeddedServerError(
                f"the server of {self.data} runs without TCP; restart it with TCP: pgsluice "
                "embedded stop, then pgsluice embedded start --tcp"
            )

    # ── starting ───────────────────────────────────────────────────────────────────────────────

    def _is_up(self) -> bool:
        """Wait for a starting or stopping server; True if one is up."""
        found = postmaster.running(self.data)
        if found is None:
            return False
        self._require_version()
        if found.status == "stopping":
            self._await_end(found.pid)
            return False
        if not self._await_ready(found.pid, left_over=None):
            return False
        found = postmaster.read(self.data) or found
        self._require_tcp(found)
        folder = found.socket_folder
        if folder is None or not (folder / f".s.PGSQL.{found.port}").exists():
            raise EmbeddedServerError(
                f"the server of {self.data} runs (process {found.pid}), but its socket in {folder} "
                "is gone; restart it: pgsluice embedded stop, then pgsluice embedded start"
            )
        return True

    def _require_version(self) -> None:
        try:
            found = (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return
        if found != str(self.version):
            raise EmbeddedServerError(
                f"{self.data} holds PostgreSQL {found}, not {self.version}; use --version "
                f"{found} or another --data"
            )

    def _require_passage(self, account: Account) -> None:
        if not account.foreign:
            return  # creating the folders reports a lack of permission
        existing = [folder for folder in self.data.parents if folder.exists()]
        if not existing[0].is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(existing[0]))
        if account.can_enter(existing[0]):
            return
        for folder in reversed(existing):
            if not account.can_enter(folder):
                raise EmbeddedServerError(
                    f"user {account.name!r}, who runs the server because PostgreSQL refuses root, "
                    f"cannot enter {folder}; use a folder that every user may enter (--data, "
                    "PGSLUICE_HOME)"
                )

    def _needs_initdb(self) -> bool:
        if not self.data.exists():
            return True
        if (self.data / "PG_VERSION").exists():
            self._require_version()
            return False
        if any(self.data.iterdir()):
            raise EmbeddedServerError(
                f"{self.data} is not empty and holds no PostgreSQL data; use a new or an empty "
                "folder (--data)"
            )
        return True

    def _initdb(self, bin_dir: Path, account: Account, lock: int) -> None:
        # Created elsewhere and renamed when complete, so that data is never half initialised, and the
        # caller's folder is never cleared.
        building = self._folder.building
        if building.exists():
            shutil.rmtree(building)  # left by a killed start
        building.mkdir(mode=0o700)
        if account.foreign:
            os.chown(building, account.uid, account.gid)
        password_file = self._folder.prepare_socket_folder(account) / "password"
        write_private(password_file, self._folder.new_password() + "\n", account=account)
        arguments = [
            f"--pgdata={building}",
            f"--username={SUPERUSER}",
            f"--pwfile={password_file}",
            # Trust is safe because the socket's folder is private; over TCP a password is required.
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            *_locale_arguments(self.version),
            "--lc-messages=C",
        ]
        if self._options.get("fsync") == "off":
            arguments.append("--no-sync")
        try:
            # initdb inherits the lock: if this process is killed, the next one waits for initdb to end before
            # it clears the folder.
            done = account.run([bin_dir / "initdb", *arguments], pass_fds=[lock])
        finally:
            password_file.unlink()
        if done.returncode != 0:
            raise EmbeddedServerError(
                f"PostgreSQL {self.version} could not be set up in {self.data}; initdb failed:\n"
                f"{_last_lines(done.stdout)}"
            )
        building.rename(self.data)
        sync_folder(self.data.parent)

    def _launch(self, bin_dir: Path, account: Account) -> None:
        socket_folder = self._folder.prepare_socket_folder(account)
        if self.tcp:
            self._folder.password()  # raise before the start if it is missing: TCP would be unusable
        postmaster.discard_void_pid_file(self.data)
        # No server is alive here: an existing file is left over from a kill or a power failure.
        left_over = postmaster.read(self.data)
        end = time.monotonic() + RETRY_DEADLINE_S
        for failures in itertools.count(1):
            port = self._folder.free_port() if self.tcp else _UNIX_PORT
            log = self._folder.open_log()
            try:
                offset_bytes = os.fstat(log).st_size
                pid = postmaster.launch(
                    bin_dir,
                    self.data,
                    self._arguments(socket_folder, port),
                    account=account,
                    log=log,
                )
            finally:
                os.close(log)
            if self._await_ready(pid, left_over=left_over):
                return
            # Two failures are transient: another process took the free port, and backends of a killed server
            # hold its shared memory until they exit. Neither can be observed, so retry with back-off.
            port_lost = self.tcp and not port_is_free(port)
            refused = left_over is not None and postmaster.read(self.data) == left_over
            if not (port_lost or refused) or time.monotonic() > end:
                raise self._start_failed(offset_bytes)
            time.sleep(next_delay_s(failures, 0.05, 2.0))

    def _arguments(self, socket_folder: Path, port: int) -> list[str]:
        settings = {
            **self._options,
            "listen_addresses": LOOPBACK if self.tcp else "",
            "port": str(port),
            "unix_socket_directories": str(socket_folder),
            "unix_socket_permissions": "0700",
            "logging_collector": "off",
        }
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def _await_ready(self, pid: int, *, left_over: Postmaster | None) -> bool:
        """Wait until the process is ready (True) or has ended (False).

        Ignores a file left by an earlier server, whose process id may be the same.
        """

        def ready() -> bool:
            found = postmaster.read(self.data)
            return found is not None and found.pid == pid and found.ready and found != left_over

        def ended() -> bool:
            return not postmaster.alive(pid, self.data)

        if not wait_until(lambda: ready() or ended(), deadline_s=START_DEADLINE_S):
            raise EmbeddedServerError(
                f"the server of {self.data} is not ready after {START_DEADLINE_S:.0f} s; it is still "
                f"starting, perhaps in recovery (see {self.log}); start it again to wait longer"
            )
        return ready()

    def _start_failed(self, log_offset_bytes: int) -> EmbeddedServerError:
        return EmbeddedServerError(
            f"PostgreSQL {self.version} could not be started on {self.data}; fix the error in its log "
            f"{self.log}:\n{self._folder.log_tail(offset_bytes=log_offset_bytes)}"
        )

    # ── stopping ───────────────────────────────────────────────────────────────────────────────

    def _await_end(self, pid: int) -> None:
        if not wait_until(lambda: not postmaster.alive(pid, self.data), deadline_s=STOP_DEADLINE_S):
            raise EmbeddedServerError(
                f"the server of {self.data} (process {pid}) has not stopped after "
                f"{STOP_DEADLINE_S:.0f} s; see {self.log}, or stop it with --mode immediate"
            )

    # ── errors ─────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Translate errors of the file system to ours, with the solution."""
        try:
            yield
        except subprocess.SubprocessError as error:
            raise EmbeddedServerError(
                f"a program of PostgreSQL could not be run for {self.data}: {error}; see {self.log}"
            ) from error
        except OSError as error:
            where = Path(error.filename or self.data)
            if isinstance(error, PermissionError) and accounts.is_anothers(self.data):
                raise accounts.belongs_to_another(self.data) from error
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                hint = "free space there, or use a folder on another disk"
            elif error.errno in (errno.ENOTDIR, errno.EEXIST):
                hint = "a file is in the place of a folder; use another folder"
            elif error.errno in (errno.EBUSY, errno.EXDEV):
                hint = "it is a mount point; use a folder in it"
            else:
                hint = "use a folder that you may write"
            raise EmbeddedServerError(
                f"cannot use {self.data} for PostgreSQL: {where}: {error.strerror}; {hint} "
                "(--data, PGSLUICE_HOME)"
            ) from error


def default_server(
    settings: Settings, *, data: Path | None = None, tcp: bool = False
) -> EmbeddedServer:
    """Return the server that commands use: `postgresql-<version>` in the home folder, or in `data`.

    Raises:
        MissingExtraError: The wheel is not installed.
    """
    version = settings.embedded_version
    return EmbeddedServer(data or settings.home / f"postgresql-{version}", version=version, tcp=tcp)


def _locale_arguments(version: int) -> list[str]:
    """Return initdb's locale arguments: code point order and UTF-8, equal on every machine and version."""
    if version >= 17:
        return ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    # Older versions use the C library's locales, which may lack C.UTF-8. Setting a locale affects the whole process,
    # so a subprocess tries it.
    code = "import locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8')"
    tried = subprocess.run([sys.executable, "-I", "-c", code], check=False, capture_output=True)
    return ["--locale=C.UTF-8" if tried.returncode == 0 else "--locale=C"]


def _last_lines(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
