"""Options of a log stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgsluice.errors import ConfigurationError
from pgsluice.spark.offsets import Offset, Start
from pgsluice.spark.options import PARTITIONS_DEFAULT, duration_s, truth, whole_number

# A micro-batch has a fixed overhead of 0.3 s: with 10k rows Spark reads 30k rows/s, with 100k over 170k rows/s.
MAX_ROWS_DEFAULT = 200_000
# The driver of a low-latency stream keeps a micro-batch in memory.
MAX_ROWS_LOW_LATENCY = 10_000
# For fewer events, the overhead of a second task (20 ms) exceeds its gain: one reader reads 400k rows/s.
SLICE_EVENTS_MIN = 10_000
_START_OVER = (
    "start with another checkpoint and another lake table, or set failOnDataLoss to false to continue from the oldest "
    "tick kept"
)


@dataclass(frozen=True, slots=True)
class LogSourceOptions:
    """Validated options of `stream`."""

    log_name: str
    consumer: str | None
    start: Start
    by_ticks: bool
    low_latency: bool
    max_rows: int
    min_rows: int
    max_delay_s: float
    slice_count: int
    slice_events_min: int
    auto_tick: bool
    commits: bool
    fail_on_data_loss: bool
    loss_permitted_after: frozenset[str]
    loss_hint: str

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> LogSourceOptions:
        """Parse and validate the options.

        Raises:
            ConfigurationError: An option is invalid, or two are incompatible.
        """
        low_latency = truth(options, "lowLatency", default=False)
        kind = options.get("offsets") or ("snapshots" if low_latency else "ticks")
        if kind not in ("ticks", "snapshots"):
            raise ConfigurationError(f"offsets is {kind!r}; use ticks or snapshots")
        limit = "maxRowsPerTrigger" if options.get("maxRowsPerTrigger") else "maxOffsetsPerTrigger"
        found = cls(
            log_name=options["log"],
            consumer=options.get("consumer") or None,
            start=Start.from_options(options),
            by_ticks=kind == "ticks",
            low_latency=low_latency,
            max_rows=whole_number(
                options, limit, MAX_ROWS_LOW_LATENCY if low_latency else MAX_ROWS_DEFAULT
            ),
            min_rows=whole_number(options, "minOffsetsPerTrigger", 1),
            max_delay_s=duration_s(options, "maxTriggerDelay", 900.0),
            slice_count=whole_number(options, "numPartitions", PARTITIONS_DEFAULT),
            slice_events_min=whole_number(options, "sliceEventsMin", SLICE_EVENTS_MIN),
            auto_tick=truth(options, "autoTick", default=True),
            commits=truth(options, "commitOffsets", default=True),
            fail_on_data_loss=truth(options, "failOnDataLoss", default=True),
            loss_permitted_after=frozenset(options.get("lossPermittedAfter", "").split()),
            loss_hint=options.get("lossHint") or _START_OVER,
        )
        if found.consumer is None and found.start.is_latest:
            raise ConfigurationError(
                "startingOffsets=latest needs the option consumer; without a registered consumer, latest would be a "
                "later position after a crash"
            )
        if found.consumer is None and found.start.word == "committed":
            raise ConfigurationError(
                "startingOffsets=committed needs the option consumer; it starts at that consumer's position"
            )
        if found.by_ticks and found.start.snapshot is not None:
            raise ConfigurationError(
                "startingOffsets is a snapshot, but offsets are ticks; set the option offsets=snapshots"
            )
        return found

    def permits_loss(self, start: Offset) -> bool:
        """True if the stream continues if events after an offset are lost."""
        return not self.fail_on_data_loss or str(start.snapshot) in self.loss_permitted_after
