"""Rows of the lake replayed into a queue or a log: the pipeline `replay`.

replay("/lake/orders", "after-the-outage", queue="orders", since=outage, where="message like '%refund%'")

Spark selects and sorts the rows; one connection of the driver adds them, in order and at a limited
rate.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsluice.client.log_records import NewEvent
from pgsluice.errors import ConfigurationError, SluiceError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.delta.opening import Use, open_delta
from pgsluice.lake.storage import Folder
from pgsluice.pipelines.delivery import DeliveryRow, Refused, RowTarget, TargetConnection
from pgsluice.pipelines.paths import session_for
from pgsluice.spark.extra import require_extra
from pgsluice.spark.lake_reading import read_iceberg, read_table
from pgsluice.spark.retry import with_retries
from pgsluice.spark.running import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)
ORIGIN_HEADER = "x-pgmq-replayed-from"
# Spark's driver holds one partition of the sorted rows at a time, and this process one part of it.
_PARTITION_ROWS = 20_000
_PARTITION_CHARACTERS = 16 << 20
_PART_CHARACTERS = 8 << 20


@dataclass(frozen=True, slots=True)
class ReplayProgress(Progress):
    """The progress of a replay; `offset` is the id of the last row.

    Attributes:
        left: Remaining rows.
    """

    left: int = 0


@dataclass(frozen=True, slots=True)
class _Shape:
    """The columns of a table that can be replayed."""

    id: str
    time: str
    texts: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.id, self.time, *self.texts, *self.others)


_MESSAGES = _Shape("msg_id", "enqueued_at", ("message", "headers"))
_EVENTS = _Shape(
    "ev_id",
    "ev_time",
    ("ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4"),
    ("ev_txid",),
)


def replay(
    lake: str | Path,
    name: str,
    *,
    queue: str | None = None,
    log: str | None = None,
    ev_type: str = "replay",
    id_from: int | None = None,
    id_to: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    where: str | None = None,
    rate: float | None = None,
    batch_rows: int = 1000,
    dsn: str | None = None,
    spark: SparkSession | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> ReplayProgress:
    """Add rows of a lake table to a work queue or an event log, each exactly once per replay name.

    The table must be written by `archive` or `events`. The first run pins its version; rows are added in order of
    their ids. The database stores the position under the name: a restart, also after a crash, continues there, and a
    finished replay adds nothing more.

    A message keeps its headers; header `x-pgmq-replayed-from` holds the replay, the table, and its former id and time.
    As an event it is `ev_data`, with its headers in `ev_extra1` and its origin in `ev_extra4`. An event keeps its
    fields in a log, with its origin in `ev_extra4` if that is null; in a queue they become an object.

    Args:
        lake: Folder of a Delta table, or `iceberg:catalogue/namespace.table`.
        name: Name of this replay. Another selection needs another name.
        queue: Target work queue; or
        log: Target event log.
        ev_type: Event type for messages replayed into a log.
        id_from, id_to: Range of `msg_id` or `ev_id`, both ends included.
        since, until: Range of `enqueued_at` or `ev_time`, the end excluded.
        where: Filter expression of Spark SQL.
        rate: Rate limit in rows per second; None: unlimited.
        batch_rows: Maximum rows per transaction, 1 or more.
        dsn: DSN; None: by the rule of `pgsluice.connection`.
        spark: Spark session to use; None: start one.
        stop: Event that ends it after the current part.
        on_progress: Called after each part.

    Raises:
        ConfigurationError: The table does not exist or is of another kind, the expression is invalid, or the name
            belongs to another selection.
        QueueNotFoundError, LogNotFoundError: The target does not exist.
        SluiceError: The server refused a row, which the message names, or the connection was lost.
    """
    require_extra()
    if batch_rows < 1 or (rate is not None and rate <= 0):
        raise ConfigurationError(
            f"batch_rows is {batch_rows} and rate {rate}; use 1 or more, and more than 0"
        )
    place, target = parse(lake), RowTarget(queue, log)
    selection = _selection(
        lake=str(place),
        target=str(target),
        id_from=id_from,
        id_to=id_to,
        since=since,
        until=until,
        where=where,
    )
    sink_id = f"replay:{name}"
    with TargetConnection(target, dsn=dsn) as delivery:
        done_to, noted = delivery.position(sink_id)
        _require_same(name, noted, selection)
        version = noted.get("lake_version", _newest_version(place))
        rows, shape = _chosen(
            session_for(spark, "pgsluice replay"), place, version, selection, done_to
        )
        ordered, left = _ordered(rows, shape)
        # Only now, so that an invalid replay does not take the name.
        done_to, noted = delivery.begin(sink_id, {"lake_version": version, "selection": selection})
        _require_same(name, noted, selection)
        work = _Replay(
            delivery,
            target,
            sink_id=sink_id,
            detail=noted,
            make=_maker(shape, target, ev_type, origin={"lake": _called(place), "replay": name}),
            pace=_Pace(rate, stop or threading.Event()),
            tell=on_progress or (lambda _progress: None),
            progress=ReplayProgress(left=left),
        )
        rows_max = batch_rows if rate is None else max(1, min(batch_rows, int(rate)))
        return work.run(_parts(ordered, shape, rows_max), shape)


class _Pace:
    """Limits parts to a rate, and ends them on `stop`."""

    def __init__(self, rate: float | None, stop: threading.Event) -> None:
        self._rate = rate
        self._stop = stop
        self._due_s = time.monotonic()

    def wait(self) -> bool:
        """Wait until the next part is due; False if stopped."""
        return not self._stop.wait(max(0.0, self._due_s - time.monotonic()))

    def count(self, rows: int) -> None:
        """Delay the next part. It does not catch up after a pause of Spark's, which would cause a burst."""
        if self._rate is not None:
            self._due_s = max(self._due_s, time.monotonic()) + rows / self._rate


class _Replay:
    """Adds parts in sequence."""

    def __init__(
        self,
        delivery: TargetConnection,
        target: RowTarget,
        *,
        sink_id: str,
        detail: Mapping[str, Any],
        make: Callable[[Any], DeliveryRow],
        pace: _Pace,
        tell: Callable[[Progress], None],
        progress: ReplayProgress,
    ) -> None:
        self._delivery = delivery
        self._target = target
        self._sink_id = sink_id
        self._detail = detail
        self._make = make
        self._pace = pace
        self._tell = tell
        self._progress = progress

    def run(self, parts: Iterator[Sequence[Any]], shape: _Shape) -> ReplayProgress:
        for part in parts:
            if not self._pace.wait():
                break
            began_s = time.monotonic()
            rows = [self._make(row) for row in part]
            up_to = rows[-1].number
            added = self._delivery.deliver(
                rows,
                sink_id=self._sink_id,
                up_to=up_to,
                detail=self._detail,
                before_commit=self._refuse,
            )
            self._pace.count(added)
            self._progress = replace(
                self._progress,
                rows=self._progress.rows + added,
                micro_batches=self._progress.micro_batches + 1,
                offset={shape.id: up_to},
                batch_duration_s=time.monotonic() - began_s,
                left=max(0, self._progress.left - len(part)),
            )
            self._tell(self._progress)
        return self._progress

    def _refuse(self, _after: int, refused: Sequence[Refused]) -> None:
        for one in refused:
            raise SluiceError(
                f"{self._target} refuses the row with id {one.row.number}: {one.reason}; exclude it with "
                "`where`, under another name"
            )


def _selection(**given: Any) -> dict[str, Any]:
    """Return the selection in the form that JSON stores."""
    for key, value in given.items():
        if isinstance(value, datetime):
            if value.utcoffset() is None:
                raise ConfigurationError(f"{key} {value} has no time zone; use {value}Z for UTC")
            given[key] = value.isoformat()
    return {key: value for key, value in given.items() if value is not None}


def _require_same(name: str, noted: Mapping[str, Any], selection: Mapping[str, Any]) -> None:
    before = noted.get("selection", selection)
    if before != selection:
        changed = sorted(
            key for key in before.keys() | selection.keys() if before.get(key) != selection.get(key)
        )
        raise ConfigurationError(
            f"the replay {name!r} was started with another {', '.join(changed)}: "
            f"{', '.join(repr(before.get(key)) for key in changed)}; use the same, or another name"
        )


def _called(place: Folder | IcebergAddress) -> str:
    return place.identifier if isinstance(place, IcebergAddress) else place.name


def _newest_version(place: Folder | IcebergAddress) -> int | None:
    if isinstance(place, IcebergAddress):
        from pgsluice.lake.iceberg.table import newest_snapshot

        return newest_snapshot(place)
    return int(open_delta(place, Use.READ).version())


def _read(session: SparkSession, place: Folder | IcebergAddress, version: int | None) -> DataFrame:
    if isinstance(place, IcebergAddress):
        return read_iceberg(session, place, snapshot_id=version)
    return read_table(session, place, version=version)


def _chosen(
    session: SparkSession,
    lake: Folder | IcebergAddress,
    version: int | None,
    selection: Mapping[str, Any],
    done_to: int,
) -> tuple[DataFrame, _Shape]:
    """Return the remaining rows of a selection."""
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as fn

    table = _read(session, lake, version)
    shape = next((one for one in (_MESSAGES, _EVENTS) if one.id in table.columns), None)
    if shape is None:
        raise ConfigurationError(
            f"the lake table {lake} has neither msg_id nor ev_id; replay a table written by archive or events"
        )
    row_id, moment = fn.col(shape.id), fn.col(shape.time)
    conditions: Mapping[str, Callable[[Any], Any]] = {
        "id_from": lambda value: row_id >= value,
        "id_to": lambda value: row_id <= value,
        "since": lambda value: moment >= fn.lit(datetime.fromisoformat(value)),
        "until": lambda value: moment < fn.lit(datetime.fromisoformat(value)),
    }
    rows = table.where(row_id > done_to)
    for key, condition in conditions.items():
        if key in selection:
            rows = rows.where(condition(selection[key]))
    if "where" in selection:
        try:
            rows = rows.where(selection["where"])
        except (AnalysisException, ParseException) as error:
            reason = str(error).splitlines()[0]
            raise ConfigurationError(
                f"where = {selection['where']!r} is invalid: {reason}; the table has "
                f"{', '.join(table.columns)}"
            ) from None
    # As integers, because Python would convert Spark's times to the local time zone.
    return rows.withColumn(shape.time, fn.unix_micros(shape.time)).select(*shape.columns), shape


def _ordered(rows: DataFrame, shape: _Shape) -> tuple[DataFrame, int]:
    """Return the rows by id, in partitions that fit into memory, and their number."""
    from pyspark.sql import functions as fn

    size = sum((fn.coalesce(fn.length(text), fn.lit(0)) for text in shape.texts), fn.lit(0))
    count, characters = with_retries(
        lambda: rows.agg(fn.count("*"), fn.coalesce(fn.sum(size), fn.lit(0))).collect()
    )[0]
    partitions = 1 + max(count // _PARTITION_ROWS, characters // _PARTITION_CHARACTERS)
    by = (shape.id, shape.time)
    return rows.repartitionByRange(partitions, *by).sortWithinPartitions(*by), count


def _parts(rows: DataFrame, shape: _Shape, rows_max: int) -> Iterator[Sequence[Any]]:
    """Yield consecutive rows; rows of one id stay together, as the ledger stores the id."""
    part: list[Any] = []
    characters = 0
    for row in rows.toLocalIterator():
        is_full = len(part) >= rows_max or characters >= _PART_CHARACTERS
        if is_full and row[shape.id] != part[-1][shape.id]:
            yield part
            part, characters = [], 0
        part.append(row)
        characters += sum(len(row[text] or "") for text in shape.texts)
    if part:
        yield part


def _maker(
    shape: _Shape, target: RowTarget, ev_type: str, *, origin: Mapping[str, str]
) -> Callable[[Any], DeliveryRow]:
    """Return a function that converts a row of the table for the target."""

    def origin_of(row: Any) -> dict[str, Any]:
        return {**origin, shape.id: row[shape.id], shape.time: _utc(row[shape.time])}

    def message(row: Any) -> DeliveryRow:
        return DeliveryRow(row.msg_id, row.message, _headers(row.headers, origin_of(row)))

    def message_as_event(row: Any) -> DeliveryRow:
        event = NewEvent(
            ev_type, row.message, ev_extra1=row.headers, ev_extra4=_dumps(origin_of(row))
        )
        return DeliveryRow(row.msg_id, event=event)

    def event(row: Any) -> DeliveryRow:
        fields = [row[text] for text in shape.texts]
        if fields[-1] is None:
            fields[-1] = _dumps(origin_of(row))
        return DeliveryRow(row.ev_id, event=NewEvent(*fields))

    def event_as_message(row: Any) -> DeliveryRow:
        fields = row.asDict() | {shape.time: origin_of(row)[shape.time]}
        return DeliveryRow(row.ev_id, _dumps(fields), _headers(None, origin_of(row)))

    if shape is _MESSAGES:
        return message if target.log is None else message_as_event
    return event_as_message if target.log is None else event


def _headers(headers: str | None, origin: Mapping[str, Any]) -> str:
    """Return a message's headers with its origin; the original text stays unchanged."""
    own = (headers or "null").strip()
    if own == "null":
        return _dumps({ORIGIN_HEADER: origin})
    if not own.startswith("{"):  # not an object
        return f'{{"{ORIGIN_HEADER}": {_dumps(origin)[:-1]}, "headers": {own}}}}}'
    between = "" if own[1:-1].strip() == "" else ", "
    # jsonb keeps the last of two equal keys, so the origin of an earlier replay is replaced.
    return f'{own[:-1]}{between}"{ORIGIN_HEADER}": {_dumps(origin)}}}'


def _utc(micros: int | None) -> str | None:
    if micros is None:
        return None
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat()


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
