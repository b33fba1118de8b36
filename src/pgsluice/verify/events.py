"""Compare an event log with its table in the lake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pgsluice.client.calls import spark as log_calls
from pgsluice.client.calls import verify as calls
from pgsluice.errors import ConfigurationError, ConsumerNotFoundError
from pgsluice.verify.comparing import ComparedColumns, Comparison, fetch, reading
from pgsluice.verify.forms import own_form
from pgsluice.verify.lake import open_lake
from pgsluice.verify.report import Report

_COLUMNS = (
    "ev_id",
    "ev_txid",
    "ev_time",
    "ev_type",
    "ev_data",
    "ev_extra1",
    "ev_extra2",
    "ev_extra3",
    "ev_extra4",
)


_SHARD = "shard"


def verify_events(
    log: str,
    lake: str | Path,
    *,
    consumer: str | None = None,
    shard: str | None = None,
    dsn: str | None = None,
    show: int = 5,
) -> Report:
    """Compare the events of a log with those in the lake.

    The log keeps events until its consumers have finished them; the lake keeps all. Events before the log's oldest
    tick may be in the lake only, each once. Events after the newest tick, or after the consumer position, may be in
    PostgreSQL only. All events in between must be on both sides.

    Args:
        log: An existing event log.
        lake: Folder of the table, or `iceberg:catalogue/namespace.table`.
        consumer: Consumer of the stream that writes the log to the lake. The lake has all events up to its position,
            so the stream may be running. None requires all events up to the newest tick in the lake.
        shard: This database's value of the `shard` column, if a stream of several shards wrote the table.
        dsn: Connection string; None to resolve it as `pgsluice.connection` does.
        show: Maximum rows in the report per kind of difference, 0 or more.

    Raises:
        LogNotFoundError: The event log does not exist.
        ConsumerNotFoundError: The consumer does not exist, or its position was lost.
        LogStateError: The log has no tick.
        ConfigurationError: The lake table does not exist, or it lacks a key column.
        MissingExtraError: A package required to read the lake is not installed.
    """
    lake_table = open_lake(lake)
    if (shard is not None) != (_SHARD in lake_table.types):
        raise ConfigurationError(
            f"the lake table {lake_table.name} holds "
            f"{'events of a single database; omit shard' if shard else 'several shards; select one with shard'}"
        )
    with reading(dsn) as database:
        # The oldest tick first: no segment is truncated from here to the end of the transaction.
        from_tick, from_snapshot = fetch(database, log_calls.log_start(log, None, "earliest"))
        if consumer is None:
            to_tick, to_snapshot = fetch(database, log_calls.log_start(log, None, "latest"))
        elif positions := fetch(database, log_calls.log_consumers(log, consumer)):
            to_tick, to_snapshot = positions[0]
        else:
            raise ConsumerNotFoundError(
                f"consumer {consumer!r} is not registered on event log {log!r}, or its position was lost"
            )
        relation = fetch(database, calls.log_relation(log))
        fetch(database, calls.steady_session())
        columns = fetch(database, calls.canonical_columns(relation))
        shape = ComparedColumns.of(
            [c for c in columns if c.name in _COLUMNS], lake_table, _COLUMNS[:2], own_form
        )
        at = shape.columns.index("ev_txid")
        before, upto = seen_by(from_snapshot), seen_by(to_snapshot)
        return Comparison(
            what=f"event log {log!r} from tick {from_tick} to {to_tick}",
            database=database,
            relation=relation,
            lake=lake_table,
            shape=shape,
            # Redelivered events have an owner; they are copies of events in the log.
            only_where_null="ev_owner",
            where=None if shard is None else (_SHARD, shard),
            postgresql_alone=lambda fields: before(int(fields[at])) or not upto(int(fields[at])),
            lake_alone=lambda fields: before(int(fields[at])),
        ).run(show=show)


def seen_by(snapshot: str) -> Callable[[int], bool]:
    """Return a predicate: True if a snapshot, as `xmin:xmax:xip`, sees the effects of a transaction."""
    xmin, xmax, running = snapshot.split(":")
    low, high, open_then = int(xmin), int(xmax), {int(x) for x in running.split(",") if x}
    return lambda txid: txid < low or (txid < high and txid not in open_then)
