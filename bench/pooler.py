"""PgBouncer in front of a server, if installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import conninfo

from pgsluice.errors import ConfigurationError

_ANSWER_S = 20.0


@contextmanager
def pooled(
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

    Raises:
        ConfigurationError: PgBouncer is not installed, or does not answer.
    """
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        raise ConfigurationError("PgBouncer is not installed: apt-get install pgbouncer")
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
    owner = Path(str(parts["host"])).stat()
    is_root = os.geteuid() == 0
    with subprocess.Popen(
        [program, str(written)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=owner.st_uid if is_root else None,
        group=owner.st_gid if is_root else None,
        extra_groups=[] if is_root else None,
    ) as process:
        try:
            address = conninfo.make_conninfo(url, host="127.0.0.1", port=port)
            _await(process, address)
            yield address
        finally:
            process.terminate()


def _await(process: subprocess.Popen[bytes], url: str) -> None:
    """Wait until the pooler answers."""
    end_s = time.monotonic() + _ANSWER_S
    while True:
        if process.poll() is not None:
            raise ConfigurationError(f"PgBouncer ended with {process.returncode}")
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError as error:
            if time.monotonic() > end_s:
                raise ConfigurationError(f"PgBouncer does not answer: {error}") from error
            time.sleep(0.02)
        else:
            return
