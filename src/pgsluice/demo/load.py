"""The load: pgbench creates the data and runs transactions that include ours."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from pgsluice import embedded
from pgsluice.errors import MissingExtraError, SluiceError
from pgsluice.settings import Settings

SCALE = 1
ACCOUNTS = 100_000 * SCALE
_PROGRESS = re.compile(r"^progress: (?P<elapsed_s>[\d.]+) s, (?P<rate>[\d.]+) tps")
_STEP_DEADLINE_S = 300.0


def find_pgbench(settings: Settings) -> Path:
    """Return the pgbench of the embedded server's wheel, else that on PATH.

    Raises:
        MissingExtraError: Neither exists.
    """
    try:
        return embedded.default_server(settings).bin_dir / "pgbench"
    except MissingExtraError:
        found = shutil.which("pgbench")
        if found is None:
            raise MissingExtraError(
                "the demo needs pgbench, which is not on PATH; install it with `pip install 'pgsluice[all]'`"
            ) from None
        return Path(found)


def prepare(pgbench: Path, environment: Mapping[str, str], steps: str) -> None:
    """Run some of pgbench's initialisation steps.

    Args:
        pgbench: The program.
        environment: Environment of the program, with the connection as libpq's variables.
        steps: Argument of `pgbench --init-steps`: `dt` drops and creates the tables, `g` fills
            them, `v` vacuums, `p` adds the primary keys.

    Raises:
        SluiceError: With pgbench's error output.
    """
    command = [str(pgbench), "-i", "-q", "-I", steps, "-s", str(SCALE)]
    done = subprocess.run(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_STEP_DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise _failed(done.returncode, done.stderr.splitlines())


class Load:
    """A running pgbench.

    Attributes:
        elapsed_s: Run time of its transactions, as last reported.
        rate: Transactions per second in the last second.
    """

    def __init__(
        self,
        pgbench: Path,
        environment: Mapping[str, str],
        *,
        seconds: int,
        clients: int,
        log_prefix: Path,
    ) -> None:
        """Start it.

        Args:
            pgbench: The program.
            environment: As for `prepare`.
            seconds: Duration.
            clients: Concurrent sessions.
            log_prefix: Path prefix of the transaction logs, to which pgbench adds its process id.
        """
        self.elapsed_s = 0.0
        self.rate = 0.0
        self._last_lines: deque[str] = deque(maxlen=20)
        script = resources.files("pgsluice.demo") / "sql" / "transaction.sql"
        with resources.as_file(script) as path:
            self._script = log_prefix.with_suffix(".sql")
            shutil.copyfile(path, self._script)
        command = [
            str(pgbench), "-n", "-M", "prepared", "-f", str(self._script), "-D", f"scale={SCALE}",
            "-T", str(seconds), "-c", str(clients), "-j", str(min(clients, 2)), "-P", "1",
            "--log", "--log-prefix", str(log_prefix),
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, name="pgbench", daemon=True)
        self._listener.start()

    def running(self) -> bool:
        """True if it is still running.

        Raises:
            SluiceError: It failed; with its error output.
        """
        status = self._process.poll()
        if status is None:
            return True
        self._listener.join()
        if status != 0:
            raise _failed(status, list(self._last_lines))
        return False

    def stop(self, *, deadline_s: float = 10.0) -> None:
        """Stop it if it is still running."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._listener.join()

    def _listen(self) -> None:
        with self._process.stderr or io.StringIO() as lines:
            for line in lines:
                progress = _PROGRESS.match(line)
                if progress is None:
                    self._last_lines.append(line.rstrip())
                else:
                    self.elapsed_s = float(progress["elapsed_s"])
                    self.rate = float(progress["rate"])


def read_latencies(logs: Path) -> list[float]:
    """Read the latency of each transaction from pgbench's logs.

    Args:
        logs: The parent folder of `log_prefix`. The log of a killed load may end with a partial line, which is
            ignored.

    Returns:
        Seconds, in the order of the logs.
    """
    latencies = []
    for path in sorted(logs.glob("load-*")):
        if path.suffix == ".sql":
            continue
        *lines, _ = path.read_text().split("\n")
        # client_id transaction_no time script_no time_epoch time_us; a failed transaction has a word as time.
        times = (line.split(" ", 3)[2] for line in lines)
        latencies += [int(time) / 1e6 for time in times if time.isdecimal()]
    return latencies


def _failed(status: int, lines: list[str]) -> SluiceError:
    reason = (
        " ".join(line.strip() for line in lines[-5:] if line.strip()) or "nothing on standard error"
    )
    return SluiceError(
        f"pgbench ended with status {status}: {reason}; start the demo again to continue"
    )
