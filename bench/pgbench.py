"""Run a script again and again in pgbench: a client that costs next to nothing."""

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
    """Run a script so many times, with prepared statements.

    Args:
        server: Where.
        database: Where.
        script: Statements of pgbench.
        transactions: How often each client runs it.
        clients: How many sessions run it at once, each in a thread of its own.
        synchronous_commit: Of these sessions; None: the server's.

    Returns:
        How often a second it ran in all sessions together, without the time to connect.
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
        raise EmbeddedServerError(f"pgbench failed; it says: {done.stderr.strip()[-500:]}")
    return float(found[1])
