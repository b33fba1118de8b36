"""Servers that a run's database moves through: crash, promotion, dump and restore, pg_upgrade.

All of them have one clock, which can be stepped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg

import support.standby
from pgsluice.embedded import EmbeddedServer, account, binaries
from support import value, wait_until
from support.clock import Clock, shifted_programs
from support.epoch import run_as_owner

DATABASE = "everything"
OPTIONS = {
    "fsync": "off",  # a crash of the server loses nothing in the operating system's cache
    "full_page_writes": "off",
    "jit": "off",
    "wal_level": "logical",
    "max_prepared_transactions": "50",
    "max_connections": "80",
    "idle_in_transaction_session_timeout": "60s",
    "log_min_messages": "warning",
}


class Clusters:
    """The current server, and the ways to move to the next one."""

    def __init__(self, folder: Path, version: int) -> None:
        self._folder = folder
        self.clock = Clock(folder)
        self._number = 0
        self._all: list[EmbeddedServer] = []
        self.server = self._new(version)

    def start(self) -> None:
        """Start the first server."""
        self.server.start()

    def _new(self, version: int) -> EmbeddedServer:
        """Return a new server in its own folder."""
        self._number += 1
        folder = self._folder / f"{self._number}"
        folder.mkdir(mode=0o755)
        bin_dir = shifted_programs(folder, str(version), self.clock)
        server = EmbeddedServer(folder / "data", bin_dir=bin_dir, options=OPTIONS)
        self._all.append(server)
        return server

    @property
    def url(self) -> str:
        return self.server.url(DATABASE)

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True, application_name="run")

    def stop(self) -> None:
        """Stop all servers."""
        self.clock.set(0)
        for server in self._all:
            server.stop("immediate")

    def crash(self, how: str) -> None:
        """End the server without a shutdown, and start it again."""
        if how == "kill":
            found = self.server.found()
            assert found is not None
            os.kill(found.pid, signal.SIGKILL)
            wait_until(lambda: not self.server.running(), "the server to end")
        else:
            self.server.stop("immediate")
        self.server.start()

    def add_standby(self) -> EmbeddedServer:
        """Start a standby; from then on commits wait for it."""
        standby = self._new(self.server.version)
        support.standby.follow(self.server, standby)
        return standby

    def promote(self, standby: EmbeddedServer) -> None:
        """End the primary and promote the standby."""
        support.standby.promote(self.server, standby)
        self.server = standby

    def dump(self) -> Path:
        """Dump the database, with the roles of its server."""
        folder = self._folder / f"dump {self._number}"
        folder.mkdir()
        bin_dir = self.server.bin_dir
        for command in (
            [
                bin_dir / "pg_dumpall",
                "--roles-only",
                f"--file={folder / 'roles'}",
                f"--dbname={self.server.url()}",
            ],
            [
                bin_dir / "pg_dump",
                "--format=custom",
                "--lock-wait-timeout=60s",
                f"--file={folder / 'database'}",
                self.url,
            ],
        ):
            _run(command)
        return folder

    def restore(self, dump: Path, first_id: int) -> None:
        """Restore into a new server with transaction ids from `first_id` on; stop the old one."""
        self.server.stop("immediate")
        new = self._new(self.server.version)
        new.start()
        bin_dir = new.bin_dir
        _run([bin_dir / "psql", "--no-psqlrc", f"--file={dump / 'roles'}", new.url()])
        with psycopg.connect(new.url(), autocommit=True) as session:
            session.execute(f"create database {DATABASE} template template0")
            use_ids(session, until=first_id)
        self.server = new
        _run(
            [
                bin_dir / "pg_restore",
                "--exit-on-error",
                "--single-transaction",
                f"--dbname={self.url}",
                dump / "database",
            ]
        )

    def upgrade(self, version: int) -> None:
        """Upgrade the database to another major version by pg_upgrade."""
        old = self.server
        old.stop()
        new = self._new(version)
        programs = {
            server: binaries.reachable(
                binaries.wheel_bin_dir(server.version), account.for_server(old.data), self._folder
            )
            for server in (old, new)
        }
        _own(new.data, old.data)
        sockets = self._folder / "s"
        _own(sockets, old.data)
        run_as_owner(old, programs[new] / "initdb", "--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8",
            *([] if version < 18 else ["--no-data-checksums"]), f"--pgdata={new.data}")  # fmt: skip
        options = " ".join(f"-c {name}={value}" for name, value in OPTIONS.items())
        run_as_owner(
            old,
            programs[new] / "pg_upgrade",
            *(f"--old-bindir={programs[old]}", f"--new-bindir={programs[new]}"),
            *(f"--old-datadir={old.data}", f"--new-datadir={new.data}"),
            *("--old-options", options, "--new-options", options),
            *("--username=postgres", f"--socketdir={sockets}", "--no-sync"),
            cwd=sockets,
        )
        new.start()
        self.server = new


def use_ids(session: psycopg.Connection, *, until: int) -> None:
    """Use transaction ids up to one."""
    session.execute(
        f"""do $$ begin
            while pg_current_xact_id()::text::bigint < {until} loop commit; end loop;
        end $$"""
    )


def next_id(session: psycopg.Connection) -> int:
    """Return the next transaction id."""
    return int(value(session, "select pg_snapshot_xmax(pg_current_snapshot())::text"))


def _own(folder: Path, data: Path) -> None:
    """Create a folder that belongs to the owner of a server's data."""
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(folder, data.stat().st_uid, data.stat().st_gid)


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
