"""Run scripts with pgbench, a client with very low overhead."""

from __future__ import annotations

import re
import subprocess
import tempfile

from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import EmbeddedServerError


def pgbench(
    server: EmbeddedServer,
    database: str,
    script: str,
    transactions: int,
    *,
    clients: int = 1,
    synchronous_commit: str | None = None,
) -> float:
    """Run a script repeatedly with prepared statements.

    Args:
        server: Server to connect to.
        database: Database to connect to.
        script: pgbench script.
        transactions: Number of runs per client.
        clients: Number of concurrent sessions, each in its own thread.
        synchronous_commit: Setting of these sessions; None for the server's.

    Returns:
        Runs per second of all sessions together, without connection time.
    """
    environ = server.client_environ(database)
    if synchronous_commit is not None:
        environ["PGOPTIONS"] = f"-c synchronous_commit={synchronous_commit}"
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script + "\n")
        file.flush()
        done = subprocess.run(
            [
                str(server.bin_dir / "pgbench"), "--no-vacuum", "--protocol=prepared",
                f"--client={clients}", f"--jobs={clients}",
                f"--transactions={transactions}", f"--file={file.name}",
            ],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise EmbeddedServerError(f"pgbench failed: {done.stderr.strip()[-500:]}")
    return float(found[1])
