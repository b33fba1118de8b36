"""The folder of the demo: the lake, Spark's checkpoint, logs and the report."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Self

from pgsluice.errors import ConfigurationError

_OWN = ("lake", "checkpoint", "logs", "balances.parquet", "report.html")


class Workspace:
    """The folder of the demo, locked by one process at a time.

    Attributes:
        root: The folder itself.
        lake: The folder of all tables of the lake.
        events: The Delta table of the change events.
        current: The current-state table of pgbench_accounts.
        archives: The archives of the queues, each in a folder of its name.
        gold: Gold tables of the queue metrics.
        figures: The report of the queue metrics.
        checkpoint: Spark's checkpoint of the stream.
        balances: The balances from the lake, one Parquet file.
        logs: pgbench's latency logs.
        report: The HTML report.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self.lake = self.root / "lake"
        self.events = self.lake / "events"
        self.current = self.lake / "current" / "public.pgbench_accounts"
        self.archives = self.lake / "archives"
        self.gold = self.lake / "gold"
        self.figures = self.gold / "report.html"
        self.checkpoint = self.root / "checkpoint"
        self.balances = self.root / "balances.parquet"
        self.logs = self.root / "logs"
        self.report = self.root / "report.html"
        self._mark = self.root / "run.json"
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Create the folder and lock it.

        Raises:
            ConfigurationError: It is not writable, is in use, or holds other data.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            # The kernel releases the lock when the process ends.
            self._lock = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"the demo cannot write its folder {self.root}: {error.strerror}; choose another with "
                "--out DIR"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise ConfigurationError(
                f"another demo is running in {self.root}; wait until it ends, or use another folder "
                "with --out DIR"
            ) from None
        strangers = [name for name in _OWN if (self.root / name).exists()]
        if strangers and not self._mark.exists():
            self._release()
            raise ConfigurationError(
                f"{self.root} holds {', '.join(strangers)} not written by the demo, which would "
                "overwrite it; use another folder with --out DIR"
            )
        return self

    def __exit__(self, *_exception: object) -> None:
        self._release()

    def run_id(self) -> str | None:
        """Return the id of the run whose data is in the folder, or None."""
        try:
            return str(json.loads(self._mark.read_text())["run_id"])
        except (FileNotFoundError, ValueError, KeyError):
            return None

    def begin(self, run_id: str) -> None:
        """Remove the data of the previous run, and mark the folder as this run's."""
        # The old mark stays until its data is removed, so that the folder is still recognised after a crash in between.
        for name in _OWN:
            path = self.root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        fresh = self._mark.with_suffix(".new")
        fresh.write_text(json.dumps({"run_id": run_id}) + "\n")
        fresh.replace(self._mark)
        self.logs.mkdir()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
