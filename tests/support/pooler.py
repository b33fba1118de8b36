"""PgBouncer in front of a server, if installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from support import wait_until


@contextlib.contextmanager
def pooling(
    url: str,
    folder: Path,
    *,
    mode: str = "transaction",
    connect_query: str = "",
    ignore_startup_parameters: str = "extra_float_digits",
    **settings: object,
) -> Iterator[str]:
    """Run PgBouncer in front of a server, configured in a folder; yield its connection string.

    Args:
        url: The server.
        folder: Folder of its configuration.
        mode: `transaction`, `session` or `statement`.
        connect_query: Statement that the pooler runs in each new server session.
        ignore_startup_parameters: Parameters of clients that the pooler drops.
        settings: More settings of PgBouncer.
    """
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    parts = conninfo.conninfo_to_dict(url)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    at_connect = f" connect_query='{connect_query}'" if connect_query else ""
    more = "".join(f"{name} = {setting}\n" for name, setting in settings.items())
    written = folder / f"pgbouncer_{port}.ini"
    written.write_text(
        "[databases]\n"
        f"* = host={parts['host']} port={parts['port']} user=postgres{at_connect}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = any\npool_mode = {mode}\n"
        f"ignore_startup_parameters = {ignore_startup_parameters}\n{more}"
    )
    # PgBouncer refuses to run as root, and only the server's user can enter the socket's folder.
    owner = Path(parts["host"]).stat()
    user = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
    with subprocess.Popen(
        [program, str(written)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **(user if os.geteuid() == 0 else {}),
    ) as process:
        pooled = conninfo.make_conninfo(url, host="127.0.0.1", port=port)

        def answers():
            assert process.poll() is None, f"PgBouncer ended with {process.returncode}"
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(pooled):
                return True
            return False

        try:
            wait_until(answers, "PgBouncer to answer", deadline_s=20)
            yield pooled
        finally:
            process.terminate()
