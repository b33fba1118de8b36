"""The lake's side: the contents of its tables, read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pgsluice.lake.delta.opening import open_dataset

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One commit of a lake table.

    Attributes:
        committed_at: Epoch seconds, by the clock of the machine that committed.
        changed_at: Time of each update in it in the database, epoch seconds, ascending; without the rows
            loaded at the start.
    """

    committed_at: float
    changed_at: Sequence[float]


class ChangesLake:
    """The Delta table of the change events, read without Spark.

    Args:
        path: Its folder, which may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counted_version = -1
        self._rows = 0

    def row_count(self) -> int:
        """Return the number of rows that its commits have added, from the transaction log alone."""
        while (log := self._log(self._counted_version + 1)).exists():
            self._rows += sum(json.loads(action["stats"])["numRecords"] for action in _added(log))
            self._counted_version += 1
        return self._rows

    def commit_count(self) -> int:
        """Return the number of commits that have added rows."""
        return sum(1 for log in self._logs() if _added(log))

    def events(self) -> pa.Table:
        """Return `ev_id` and `ev_type` of every row, unordered."""
        return open_dataset(self._path).to_table(columns=["ev_id", "ev_type"])

    def commits(self) -> list[TableCommit]:
        """Return every commit that added updates, oldest first."""
        import pyarrow.compute as pc
        from pyarrow import parquet

        commits = []
        for log in self._logs():
            times: list[float] = []
            for action in _added(log):
                file = self._path / unquote(action["path"])
                rows = parquet.read_table(file, columns=["ev_time", "ev_type"])
                updates = rows.filter(pc.equal(rows["ev_type"], "u"))["ev_time"]
                times += [micros / 1e6 for micros in updates.cast("int64").to_pylist()]
            if times:
                commits.append(TableCommit(_committed_at(log), sorted(times)))
        return commits

    def _logs(self) -> Iterator[Path]:
        version = 0
        while (log := self._log(version)).exists():
            yield log
            version += 1

    def _log(self, version: int) -> Path:
        return self._path / "_delta_log" / f"{version:020}.json"


def current_balances(path: Path) -> pa.Table:
    """Return each account's balance from the current-state table in the lake, read without Spark.

    Returns:
        `aid`, `abalance`, by `aid`; without deleted accounts.
    """
    import pyarrow.compute as pc

    rows = open_dataset(path).to_table(columns=["aid", "abalance", "_deleted"])
    present = rows.filter(pc.invert(rows["_deleted"]))
    return present.select(["aid", "abalance"]).sort_by("aid")


def _added(log: Path) -> list[dict[str, Any]]:
    actions = map(json.loads, log.read_text().splitlines())
    return [action["add"] for action in actions if "add" in action]


def _committed_at(log: Path) -> float:
    actions = map(json.loads, log.read_text().splitlines())
    return next(
        float(action["commitInfo"]["timestamp"]) / 1e3
        for action in actions
        if "commitInfo" in action
    )
