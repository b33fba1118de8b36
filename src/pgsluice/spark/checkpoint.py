"""Spark's checkpoint of a stream, read as files: its query, its micro-batches, and the last one written to the lake.

The lake table records the last micro-batch of each query, but not if it is the table into which the query wrote last.
So each commit with rows is also recorded in the checkpoint, before Spark ends the micro-batch: a table without that
micro-batch is a copy or a backup.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

_WRITTEN = "written"


def local_url(path: Path) -> str:
    """Return the URL of a local path; without a scheme Spark would use its default file system, such as HDFS.

    Spark does not decode percent signs, so nothing is encoded.
    """
    return f"file://{path.absolute()}"


def query_id(checkpoint: Path) -> str | None:
    """Return the id of the query of a checkpoint; None before its first start."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    return None


def last_planned(checkpoint: Path) -> int:
    """Return the number of the last micro-batch that Spark planned; -1 without any."""
    return max(
        (int(path.name) for path in (checkpoint / "offsets").glob("*") if path.name.isdecimal()),
        default=-1,
    )


def planned_offset(checkpoint: Path, batch_id: int) -> dict[str, Any] | None:
    """Return the end of a micro-batch that Spark planned; None if it did not, or has removed its plan."""
    with suppress(FileNotFoundError, NotADirectoryError):
        *_, offset = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
        found = json.loads(offset) if offset.startswith("{") else None
        return found if isinstance(found, dict) else None
    return None


def is_interrupted(checkpoint: Path) -> bool:
    """True if the last micro-batch that Spark planned has not ended, so the next start repeats it."""
    last = last_planned(checkpoint)
    return last >= 0 and not (checkpoint / "commits" / str(last)).exists()


def record_written(checkpoint: Path, app_id: str, batch_id: int) -> None:
    """Record a micro-batch whose rows are in the lake, by the app id of its query's commits."""
    new = checkpoint / f"{_WRITTEN}.new"
    new.write_text(f"{app_id} {batch_id}")
    new.replace(checkpoint / _WRITTEN)


def last_written(checkpoint: Path, app_id: str) -> int:
    """Return the last micro-batch that `record_written` recorded for this app id; -1 without any."""
    with suppress(FileNotFoundError, NotADirectoryError):
        noted, _, batch_id = (checkpoint / _WRITTEN).read_text().partition(" ")
        return int(batch_id) if noted == app_id else -1
    return -1
