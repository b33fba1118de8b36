"""An event log against its table in the lake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pgsluice.client.calls import verify as calls
from pgsluice.errors import ConfigurationError, LogStateError
from pgsluice.verify.comparing import Comparison, Shape, ask, reading
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

    The log keeps what its consumers need, and the lake everything: events from before the oldest tick that is kept may
    be in the lake alone, each once. Events after the last tick, or after the one at which a consumer stands, may be in
    PostgreSQL alone. Between them both sides must have the same.

    Args:
        log: An existing event log.
        lake: The table's folder, or `iceberg:catalogue/namespace.table`.
        consumer: The one under which a stream reads the log into the lake: it stands where the lake is for certain, so
            this may be asked while the stream runs. With None the lake must have everything up to the newest tick.
        shard: Which rows of the lake are this database's, where a stream of several shards wrote them.
        dsn: Where to connect; by the rule of `pgsluice.connection` when None.
        show: Of each kind of difference so many rows are in the report, 0 or more.

    Raises:
        LogNotFoundError: There is no such event log.
        ConsumerNotFoundError: The log has no such consumer.
        LogStateError: The log has no tick yet, or no longer keeps the one at which the consumer stands.
        ConfigurationError: There is no such table in the lake, or its rows cannot be told apart.
        MissingExtraError: A package that reads the lake is not installed.
    """
    there = open_lake(lake)
    if (shard is not None) != (_SHARD in there.types):
        raise ConfigurationError(
            f"the lake table {there.name} holds "
            f"{'events of one database alone; leave shard out' if shard else 'several shards; say which with shard'}"
        )
    with reading(dsn) as database:
        (span,) = ask(database, calls.log_span(log, consumer))
        if span.from_snapshot is None or span.to_snapshot is None:
            raise LogStateError(f"event log {log!r} keeps no tick to compare up to; tick it first")
        ask(database, calls.steady_session())
        columns = ask(database, calls.canonical_columns(span.relation))
        shape = Shape.of([c for c in columns if c.name in _COLUMNS], there, _COLUMNS[:2], own_form)
        at = shape.columns.index("ev_txid")
        before, upto = seen_by(span.from_snapshot), seen_by(span.to_snapshot)
        return Comparison(
            what=f"event log {log!r} from tick {span.from_tick} to {span.to_tick}",
            database=database,
            relation=span.relation,
            lake=there,
            shape=shape,
            # Events that come again have an owner, and were in the log before.
            only_where_null="ev_owner",
            where=None if shard is None else (_SHARD, shard),
            here_alone=lambda fields: before(int(fields[at])) or not upto(int(fields[at])),
            there_alone=lambda fields: before(int(fields[at])),
        ).run(show=show)


def seen_by(snapshot: str) -> Callable[[int], bool]:
    """Whether a snapshot, as `xmin:xmax:xip`, sees a transaction's effects."""
    xmin, xmax, running = snapshot.split(":")
    low, high, open_then = int(xmin), int(xmax), {int(x) for x in running.split(",") if x}
    return lambda txid: txid < low or (txid < high and txid not in open_then)
