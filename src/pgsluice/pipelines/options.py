"""Options of the pipelines that read a log, and of current-state tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgsluice.errors import ConfigurationError
from pgsluice.lake.jobs import RETENTION_HOURS_DEFAULT, RETENTION_HOURS_MIN
from pgsluice.lake.names import ColumnName, TableName

_BUCKETS_MAX = 100_000
_CHOICES = {
    "on_bad_value": ("park", "null", "fail"),
    "on_change": ("park", "rebuild"),
    "after_loss": ("fail", "rebuild"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Options of a stream that reads an event log.

    Attributes:
        consumer: Name under which the log keeps unread events for the stream; None: the one in the checkpoint, derived
            from the table's folder at first. Unregister it when you retire the pipeline.
        starting: Start of the first run: `earliest`, `latest`, `committed`, `{"tick": 12}` or
            `{"snapshot": "1005:1008:1005"}`.
        max_rows_per_trigger: Approximate maximum of events per micro-batch, 1 or more.
        trigger_s: Polling interval in seconds; 0: as often as possible.
        partitions: Maximum number of concurrent read tasks; None: Spark's parallelism.
        driver_memory: Maximum memory of Spark's Java process, if this starts it: `2g`, the default, `512m`.
    """

    consumer: str | None = None
    starting: str = "earliest"
    max_rows_per_trigger: int = 200_000
    trigger_s: float = 1.0
    partitions: int | None = None
    driver_memory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentStateOptions:
    """Options of current-state tables.

    Write double quotes around a part of a name that contains a dot: `public."odd.table"`.

    Attributes:
        snapshots: Tables captured by `sluice.capture` whose existing rows are appended to the log too, once per
            checkpoint, by a thread while the stream runs; with `once`, before this returns. An interrupted snapshot
            continues in the next run. Writers are not blocked.
        tables: Tables with a current state, as `schema.table`; None: all tables with changes.
        buckets: Number of buckets of each table too large for the driver, as `schema.table`: Spark's executors then
            apply the changes. Fixed when the current-state table is created.
        column_types: Lake types of columns, by `schema.table.column`, as Spark's DDL writes them: `string`, for values
            that do not fit the type; `array<bigint>` for arrays of built-in types; `struct<a: bigint, b: string>` for
            json and jsonb, without the members that it does not name. For new tables, columns and rebuilds.
        deleted_kept_h: Minimum age of tombstones in hours before removal, 0 or more.
        on_bad_value: If a value does not fit its column: `park` its table; `null` stores null, and the value in the
            table `LAKE/rejects`; `fail` stops the stream, also for any other change that cannot be applied.
        on_change: If a schema change alters rows without events, or the lake cannot follow it: `park` the table, or
            `rebuild` it from a new snapshot, which a thread takes while the stream runs. Readers see the last good
            version until one commit replaces it. A table whose snapshot cannot be taken is parked.
        after_loss: If the log removed events that are not in the lake, as after its consumer was unregistered: `fail`,
            or skip them and `rebuild` all current-state tables, as `on_change` does. `LAKE/events` has a gap then.
        apply_every_s: Minimum time between two updates of the current-state tables in seconds; 0 for one per
            micro-batch. `LAKE/events` receives each micro-batch at once. None: an update waits until the tables with
            changes have at most 50 rows per change, or until 15 minutes after the last update.
        compact_every_s: Time in seconds between two runs of compaction and vacuum, without `once`; infinity for none.
        vacuum_retention_h: Minimum age in hours of the files that vacuum removes, 1 or more and longer than
            `apply_every_s`.

    Raises:
        ConfigurationError: An option is invalid.
    """

    snapshots: Sequence[str] = ()
    tables: Sequence[str] | None = None
    buckets: Mapping[str, int] = field(default_factory=dict)
    column_types: Mapping[str, str] = field(default_factory=dict)
    deleted_kept_h: float = 168.0
    on_bad_value: str = "park"
    on_change: str = "park"
    after_loss: str = "fail"
    apply_every_s: float | None = None
    compact_every_s: float = 3600.0
    vacuum_retention_h: float = RETENTION_HOURS_DEFAULT

    def __post_init__(self) -> None:
        for option, choices in _CHOICES.items():
            if (value := getattr(self, option)) not in choices:
                raise ConfigurationError(f"{option} is {value!r}; use {', '.join(choices)}")
        if self.vacuum_retention_h < max(RETENTION_HOURS_MIN, (self.apply_every_s or 0) / 3600):
            raise ConfigurationError(
                f"invalid vacuum retention of {self.vacuum_retention_h:g} hours; use {RETENTION_HOURS_MIN:g} or more, "
                "and not less than the time between two updates of the current-state tables"
            )
        for table, count in self.buckets.items():
            if not 2 <= count <= _BUCKETS_MAX:
                raise ConfigurationError(
                    f"buckets of {table} are {count}; use a number from 2 to {_BUCKETS_MAX}"
                )

    def chosen(self) -> frozenset[TableName] | None:
        """Return the tables with a current state; None: all."""
        return None if self.tables is None else frozenset(map(TableName.parse, self.tables))

    def bucket_counts(self) -> dict[TableName, int]:
        """Return the number of buckets by table."""
        return {TableName.parse(table): count for table, count in self.buckets.items()}

    def types(self) -> dict[ColumnName, str]:
        """Return the lake types by column."""
        return {ColumnName.parse(column): kind for column, kind in self.column_types.items()}
