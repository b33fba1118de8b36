"""Files into a queue or a log: the pipeline `ingest`.

ingest("inbox/*.jsonl", queue="orders", once=True)   # idempotent: a second run adds nothing

It needs neither Spark nor Java: one connection loads rows by COPY as fast as the process reads them.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from pgsluice.client.log_records import NewEvent
from pgsluice.errors import ConfigurationError
from pgsluice.pipelines.delivery import DeliveryRow, Refused, RowTarget, TargetConnection
from pgsluice.pipelines.files import Record, find, read
from pgsluice.pipelines.rejects import RejectedRow, Rejects
from pgsluice.spark.running import Progress

_log = logging.getLogger(__name__)
# Limit of a part, which bounds the memory for a file's rows.
_PART_BYTES = 8 << 20


class Digest(Protocol):
    """The part of the interface of `hashlib`'s digests that is used here."""

    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class IngestProgress(Progress):
    """The progress of an ingest; `offset` is the file and its last line or row.

    Attributes:
        rejected: Rows written to a file of rejects.
        files: Files added completely, including those of earlier runs.
    """

    rejected: int = 0
    files: int = 0


def ingest(
    files: str | Path | Sequence[str | Path],
    *,
    queue: str | None = None,
    log: str | None = None,
    ev_type: str = "ingest",
    rejects: str | Path | None = None,
    batch_rows: int = 5000,
    dsn: str | None = None,
    once: bool = False,
    every_s: float = 60.0,
    stop: threading.Event | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> IngestProgress:
    """Add the rows of files to a work queue or an event log, each exactly once, across restarts.

    JSON lines (`.jsonl`, `.ndjson`) and CSV, each also with `.gz`, and Parquet. A line of JSON is stored unchanged; a
    row of the other two becomes an object, of CSV with string values by the column names of its first row. Rows of a
    file keep their order.

    A file is identified by its path; the database stores how much of it was added, with a digest. Only appended rows
    are added later; a file whose beginning has changed is skipped and reported.

    A row that is not valid JSON, has a value that JSON cannot hold, or is refused by the server, goes with file, line
    and reason to a file of rejects; the other rows are added.

    Args:
        files: Files, folders, and patterns such as `inbox/*.jsonl.gz`.
        queue: Target work queue; or
        log: Target event log, each row an event.
        ev_type: Event type, with `log`.
        rejects: Folder of rejects, each in `<file>.rejects`; None: next to each file.
        batch_rows: Maximum rows per transaction, 1 or more.
        dsn: DSN; None: by the rule of `pgsluice.connection`.
        once: Return when all rows are added. Otherwise poll repeatedly; a file modified since the last poll waits for
            the next one, as it may still be written.
        every_s: Polling interval in seconds.
        stop: Event that ends it after the current part.
        on_progress: Called after each part.

    Raises:
        ConfigurationError: A file cannot be read or has changed; with `once`, after all others are added.
        QueueNotFoundError, LogNotFoundError: The target does not exist.
        SluiceError: The server refused a part for a reason other than its rows, or the connection was lost.
    """
    if batch_rows < 1:
        raise ConfigurationError(f"batch_rows is {batch_rows}; use 1 or more")
    places = [files] if isinstance(files, str | Path) else list(files)
    work = _Ingest(
        RowTarget(queue, log),
        ev_type=ev_type,
        rejects=None if rejects is None else Path(rejects).expanduser().absolute(),
        batch_rows=batch_rows,
        stop=stop or threading.Event(),
        tell=on_progress or (lambda _progress: None),
    )
    while True:
        failures = work.scan(places, dsn=dsn, settled_s=0.0 if once else every_s, is_last=once)
        if once and failures:
            raise failures[0]
        if once or work.stop.wait(every_s):
            return work.progress


class _Ingest:
    """Polls for files, and adds their new rows."""

    def __init__(
        self,
        target: RowTarget,
        *,
        ev_type: str,
        rejects: Path | None,
        batch_rows: int,
        stop: threading.Event,
        tell: Callable[[Progress], None],
    ) -> None:
        self.progress = IngestProgress()
        self.stop = stop
        self._target = target
        self._ev_type = ev_type
        self._rejects = rejects
        self._batch_rows = batch_rows
        self._tell = tell
        self._done: dict[Path, _FileStamp] = {}
        self._seen: dict[Path, _FileStamp] = {}

    def scan(
        self, places: Sequence[str | Path], *, dsn: str | None, settled_s: float, is_last: bool
    ) -> list[ConfigurationError]:
        """Add the new rows in these places; return the errors of skipped files."""
        failures: list[ConfigurationError] = []
        due = [path for path in find(places) if self._is_due(path, settled_s)]
        with TargetConnection(self._target, dsn=dsn) as delivery:
            for path in due:
                if self.stop.is_set():
                    break
                stamp = _FileStamp.at(path)
                try:
                    self._add(path, stamp, delivery)
                except ConfigurationError as error:
                    # With `once` the first one is raised, so the caller reports it.
                    if failures or not is_last:
                        _log.error("%s", error)
                    failures.append(error)
                self._done[path] = stamp
        return failures

    def _is_due(self, path: Path, settled_s: float) -> bool:
        stamp = _FileStamp.at(path)
        if self._done.get(path) == stamp:
            return False
        before, self._seen[path] = self._seen.get(path), stamp
        return before == stamp or time.time() - stamp.modified_ns / 1e9 >= settled_s

    def _add(self, path: Path, stamp: _FileStamp, delivery: TargetConnection) -> None:
        """Add the new rows of one file."""
        sink_id = f"ingest:{self._target}:{path}"
        done_to, noted = delivery.begin(sink_id, {})
        if noted.get("whole") != asdict(stamp):
            rejects = Rejects(path, self._rejects)
            for part in _parts(_unseen(path, done_to, noted.get("sha256")), self._batch_rows):
                if self.stop.is_set():
                    return
                detail = {"sha256": part.sha256, "whole": asdict(stamp) if part.is_last else None}
                self._send(path, part, delivery, rejects, sink_id, detail)
        self.progress = replace(self.progress, files=self.progress.files + 1)
        self._tell(self.progress)

    def _send(
        self,
        path: Path,
        part: _Part,
        delivery: TargetConnection,
        rejects: Rejects,
        sink_id: str,
        detail: Mapping[str, Any],
    ) -> None:
        """Add one part, and store its rejects."""
        began_s = time.monotonic()
        up_to = part.records[-1].number
        kept: list[RejectedRow] = []

        def keep(after: int, refused: Sequence[Refused]) -> None:
            kept.extend(
                RejectedRow(str(path), record.number, record.error, record.text)
                for record in part.records
                if record.error is not None and record.number > after
            )
            kept.extend(
                RejectedRow(str(path), one.row.number, one.reason, _text_of(one.row))
                for one in refused
            )
            kept.sort(key=lambda reject: reject.line)
            rejects.add(kept, after=after, up_to=up_to)

        added = delivery.deliver(
            [self._row(record) for record in part.records if record.error is None],
            sink_id=sink_id,
            up_to=up_to,
            detail=detail,
            before_commit=keep,
        )
        if kept:
            first = kept[0]
            _log.warning(
                "%s line %s is rejected: %s",
                path,
                first.line,
                first.error,
                extra={"rejected": len(kept), "kept_in": str(rejects.path)},
            )
        self.progress = replace(
            self.progress,
            rows=self.progress.rows + added,
            micro_batches=self.progress.micro_batches + 1,
            offset={"file": str(path), "line": up_to},
            batch_duration_s=time.monotonic() - began_s,
            rejected=self.progress.rejected + len(kept),
        )
        self._tell(self.progress)

    def _row(self, record: Record) -> DeliveryRow:
        if self._target.log is None:
            return DeliveryRow(record.number, message=record.text)
        return DeliveryRow(record.number, event=NewEvent(self._ev_type, record.text))


@dataclass(frozen=True, slots=True)
class _FileStamp:
    """Size and modification time, to detect a changed file cheaply."""

    size_bytes: int
    modified_ns: int

    @classmethod
    def at(cls, path: Path) -> Self:
        stat = path.stat()
        return cls(stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class _Part:
    """Consecutive records, and the digest of the file up to the last."""

    records: Sequence[Record]
    sha256: str
    is_last: bool


def _unseen(path: Path, done_to: int, sha256: str | None) -> Iterator[tuple[Record, Digest]]:
    """Yield the records after `done_to`, each with the digest of all records up to it.

    Raises:
        ConfigurationError: The first `done_to` records have changed.
    """
    digest = hashlib.sha256()
    is_same = done_to == 0
    for record in read(path):
        if record.number > done_to and not is_same:
            break
        digest.update(f"{record.number} {record.text}\n".encode("utf-8", "surrogatepass"))
        if record.number == done_to:
            is_same = digest.hexdigest() == sha256
        elif record.number > done_to:
            yield record, digest
    if not is_same:
        raise ConfigurationError(
            f"{path} has changed since its first {done_to} lines were added; restore it, and put new rows "
            "into another file"
        )


def _parts(records: Iterable[tuple[Record, Digest]], rows_max: int) -> Iterator[_Part]:
    part: list[Record] = []
    size_bytes, sha256 = 0, ""
    for record, digest in records:
        if len(part) == rows_max or size_bytes >= _PART_BYTES:
            yield _Part(part, sha256, is_last=False)
            part, size_bytes = [], 0
        part.append(record)
        size_bytes += record.size_bytes
        if len(part) == rows_max or size_bytes >= _PART_BYTES:
            sha256 = digest.hexdigest()  # before the next record updates it
    if part:
        yield _Part(part, digest.hexdigest(), is_last=True)


def _text_of(row: DeliveryRow) -> str:
    return row.message or "" if row.event is None else row.event.ev_data or ""
