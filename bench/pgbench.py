"""Run scripts with pgbench, a client with very low overhead."""

from __future__ import annotations

import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import EmbeddedServerError

# Transactions of a new session that do not count, or a fifth of its transactions if these are fewer: they compile
# functions and plan statements, which takes some ten milliseconds.
FIRST_CALLS = 20


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
        transactions: Number of runs per client, including the warm-up.
        clients: Number of concurrent sessions, each in its own thread.
        synchronous_commit: Setting of these sessions; None for the server's.

    Returns:
        Runs per second of all sessions together: see `steady_rate`.
    """
    environ = server.client_environ(database)
    if synchronous_commit is not None:
        environ["PGOPTIONS"] = f"-c synchronous_commit={synchronous_commit}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "script.sql")
        file.write_text(script + "\n")
        done = subprocess.run(
            [
                str(server.bin_dir / "pgbench"), "--no-vacuum", "--protocol=prepared",
                f"--client={clients}", f"--jobs={clients}", f"--transactions={transactions}",
                f"--file={file}", "--log", f"--log-prefix={folder}/log",
            ],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise EmbeddedServerError(f"pgbench failed: {done.stderr.strip()[-500:]}")
        lines = [line for log in Path(folder).glob("log.*") for line in log.read_text().split("\n")]
    ends = defaultdict(list)
    for line in filter(None, lines):
        client, _number, _took, _script, seconds, microseconds = line.split()
        ends[client].append(int(seconds) + int(microseconds) / 1e6)
    return steady_rate(ends.values())


def steady_rate(ends: Collection[Sequence[float]]) -> float:
    """Return transactions per second while all sessions run, after the warm-up of each.

    Args:
        ends: End of each transaction in seconds, in order, for each session.

    Raises:
        EmbeddedServerError: A session had ended before the warm-up of another.
    """
    begin = max(of_one[max(1, min(FIRST_CALLS, len(of_one) // 5)) - 1] for of_one in ends)
    end = min(of_one[-1] for of_one in ends)
    if begin >= end:
        raise EmbeddedServerError("pgbench failed: a session had ended before another's warm-up")
    return sum(begin < each <= end for of_one in ends for each in of_one) / (end - begin)
