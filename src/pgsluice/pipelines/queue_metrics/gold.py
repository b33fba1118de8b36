"""Gold tables of the queue metrics: `queue_windows`, `queue_totals` and `queue_attempts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pgsluice.errors import ConfigurationError
from pgsluice.lake.delta.opening import Use, is_delta, open_dataset, open_delta
from pgsluice.lake.storage import Folder
from pgsluice.pipelines.queue_metrics.figures import Attempts, Figures, Summary

if TYPE_CHECKING:
    import pyarrow as pa

WINDOWS, TOTALS, ATTEMPTS = "queue_windows", "queue_totals", "queue_attempts"


@dataclass(frozen=True, slots=True)
class Gold:
    """The contents of the tables.

    Attributes:
        windows: By queue and time.
        totals: By queue.
        attempts: By queue and number.
        measured_at: Time of the latest measurement.
    """

    windows: Sequence[Figures]
    totals: Sequence[Figures]
    attempts: Sequence[Attempts]
    measured_at: datetime


def write_gold(
    folder: Folder, summary: Summary, queues: Sequence[str], since: datetime | None
) -> int:
    """Replace the metrics of the given queues and windows in the tables.

    Idempotent except for the time of measurement. Each table is one commit.

    Args:
        folder: Folder of the tables; created if missing.
        summary: The metrics.
        queues: Queues to replace; others stay.
        since: Windows that begin before it, totals and attempts stay, as the latter cover all windows. None replaces
            everything.

    Returns:
        The number of commits.
    """
    now = datetime.now(UTC)
    of_queues = f"queue in ({', '.join(map(_literal, queues))})"
    of_windows = of_queues
    if since is not None:
        # The literal is in the session's zone, which is UTC in delta-rs.
        of_windows += f" and window_start >= '{since.astimezone(UTC).isoformat()}'"
    commits: list[tuple[str, type, Sequence[Any], str]] = [
        (WINDOWS, Figures, summary.windows, of_windows)
    ]
    if since is None:
        commits += [
            (TOTALS, Figures, summary.totals, of_queues),
            (ATTEMPTS, Attempts, summary.attempts, of_queues),
        ]
    for name, kind, rows, replaced in commits:
        _replace(folder / name, kind, rows, replaced, now)
    return len(commits)


def read_gold(folder: Folder) -> Gold:
    """Read the tables.

    Raises:
        ConfigurationError: The tables do not exist.
    """
    windows = _rows(folder / WINDOWS)
    times = [row["measured_at"] for row in windows]
    totals, attempts = _rows(folder / TOTALS), _rows(folder / ATTEMPTS)
    return Gold(
        sorted(
            (_made(Figures, row) for row in windows), key=lambda row: (row.queue, row.window_start)
        ),
        sorted((_made(Figures, row) for row in totals), key=lambda row: row.queue),
        sorted(
            (_made(Attempts, row) for row in attempts), key=lambda row: (row.queue, row.attempts)
        ),
        max((*times, *(row["measured_at"] for row in totals)), default=datetime.now(UTC)),
    )


def _replace(path: Folder, kind: type, rows: Sequence[Any], replaced: str, now: datetime) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    schema = _schema(kind)
    table = pa.Table.from_pylist([asdict(row) | {"measured_at": now} for row in rows], schema)
    if not is_delta(path):
        write_deltalake(str(path), table)
        return
    existing = open_delta(path, Use.MERGE)
    write_deltalake(existing, table, mode="overwrite", predicate=replaced)


def _schema(kind: type) -> pa.Schema:
    import pyarrow as pa

    moment = pa.timestamp("us", "UTC")
    types = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "datetime": moment}
    named = {field.name: types[str(field.type).partition(" ")[0]] for field in fields(kind)}
    return pa.schema({**named, "measured_at": moment})


def _rows(path: Folder) -> list[dict[str, Any]]:
    if not is_delta(path):
        raise ConfigurationError(
            f"{path} holds no metrics; run the pipeline analytics without since first"
        )
    rows: list[dict[str, Any]] = open_dataset(path).to_table().to_pylist()
    return rows


def _made(kind: type, row: dict[str, Any]) -> Any:
    return kind(**{field.name: row[field.name] for field in fields(kind)})


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
