"""A server whose 32-bit transaction ids are about to wrap around."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psycopg

from pgsluice.embedded import EmbeddedServer

EPOCH = 5
LEFT = 250  # transactions until the next epoch


def run_as_owner(server: EmbeddedServer, *command: str | Path, cwd: Path = Path("/")) -> str:
    """Run a program of the server, or another by its path, as the owner of the server's data."""
    owner = server.data.stat()
    as_owner = {"user": owner.st_uid, "group": owner.st_gid} if os.geteuid() == 0 else {}
    done = subprocess.run(
        [Path(server.bin_dir) / command[0], *command[1:]],
        capture_output=True,
        text=True,
        cwd=cwd,
        **as_owner,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def go_to_the_end_of_an_epoch(server: EmbeddedServer) -> None:
    """Restart a server with its next transaction id shortly before 6 · 2**32."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        names = [
            n for (n,) in connection.execute("select datname from pg_database where datallowconn")
        ]
        connection.execute("alter database template0 allow_connections true")
    for name in (*names, "template0"):
        with psycopg.connect(server.url(name), autocommit=True) as connection:
            connection.execute("vacuum (freeze)")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("alter database template0 allow_connections false")
    server.stop()
    next_id = 2**32 - LEFT
    # pg_resetwal does not create the page of the commit log for that id.
    segment = server.data / "pg_xact" / f"{next_id // (32768 * 32):04X}"
    segment.write_bytes(bytes(32 * 8192))
    owner = server.data.stat()
    os.chown(segment, owner.st_uid, owner.st_gid)
    run_as_owner(
        server,
        "pg_resetwal",
        "-e",
        str(EPOCH),
        "-x",
        str(next_id),
        "-u",
        str(next_id - 10_000),
        "-D",
        str(server.data),
    )
    server.start()
