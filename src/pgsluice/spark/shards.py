"""One event log in one database, as a stream reads it; and which databases a stream reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pgsluice.client.calls import Call, pgq
from pgsluice.client.calls import spark as calls
from pgsluice.errors import (
    ConfigurationError,
    LogStateError,
    PositionLostError,
    PrivilegeError,
)
from pgsluice.spark.access import Access
from pgsluice.spark.offsets import Offset, Start
from pgsluice.spark.options import PARTITIONS_DEFAULT, duration_s, truth, whole_number
from pgsluice.spark.reconnecting import LastingConnection
from pgsluice.spark.snapshots import Snapshot

# A micro-batch costs 0.3 s whatever is in it: with 10k rows Spark reads 30k/s, with 100k 170k/s and more.
MAX_ROWS_DEFAULT = 200_000
# The driver of a low-latency stream holds a micro-batch in its memory.
MAX_ROWS_LOW_LATENCY = 10_000
# Below this a second task costs more than it brings: 20 ms of Spark, against 400k rows/s of one reader.
SLICE_EVENTS_MIN = 10_000
_LOOKS_MAX = 5
_START_OVER = (
    "start with another checkpoint and another lake table, or set failOnDataLoss to false to go on from the oldest "
    "tick that is kept"
)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How to read a log: the options of `stream`, checked."""

    queue_name: str
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
    fail_on_data_loss: bool

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> LogOptions:
        """Read the options.

        Raises:
            ConfigurationError: One cannot be used, or two not together.
        """
        low_latency = truth(options, "lowLatency", default=False)
        kind = options.get("offsets") or ("snapshots" if low_latency else "ticks")
        if kind not in ("ticks", "snapshots"):
            raise ConfigurationError(f"offsets is {kind!r}; use ticks or snapshots")
        limit = "maxRowsPerTrigger" if options.get("maxRowsPerTrigger") else "maxOffsetsPerTrigger"
        found = cls(
            queue_name=options["log"],
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
            fail_on_data_loss=truth(options, "failOnDataLoss", default=True),
        )
        if found.consumer is None and found.start.is_latest:
            raise ConfigurationError(
                "startingOffsets=latest needs the option consumer: Spark asks again after a crash, and only "
                "a registered consumer remembers where latest was"
            )
        if found.consumer is None and found.start.word == "committed":
            raise ConfigurationError(
                "startingOffsets=committed needs the option consumer, whose position it is"
            )
        if found.by_ticks and found.start.snapshot is not None:
            raise ConfigurationError(
                "startingOffsets is a snapshot, and offsets are ticks; give the option offsets=snapshots"
            )
        return found


def shard_accesses(options: Mapping[str, str]) -> dict[str, Access]:
    """Read the option `shards`, or `dsn`, `dsnFile` or `dsnEnv` for a log in one database.

    Returns:
        The ways to the databases by name, in the order of names; one without a name where there are no shards.

    Raises:
        ConfigurationError: `shards` is no JSON object of such options, or is given beside them.
    """
    text = options.get("shards")
    if not text:
        return {"": Access.from_options(options)}
    if Access.from_options(options) != Access():
        raise ConfigurationError(
            "the option shards is given, and dsn, dsnFile or dsnEnv beside it; put them into shards"
        )
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not (
        isinstance(value, dict)
        and value
        and "" not in value
        and all(
            isinstance(one, dict)
            and len(one) == 1
            and set(one) <= {"dsn", "dsnFile", "dsnEnv"}
            and all(isinstance(where, str) and where for where in one.values())
            for one in value.values()
        )
    ):
        # Not quoted: somebody may have put a password into it.
        raise ConfigurationError(
            'shards cannot be read; use a JSON object such as {"eu": {"dsnFile": "/etc/eu.dsn"}, '
            '"us": {"dsnEnv": "US_DSN"}}'
        )
    return {name: Access.from_options(value[name]) for name in sorted(value)}


def open_shards(options: Mapping[str, str]) -> dict[str, LogShard]:
    """The shards of a stream by name; they connect when they are asked something."""
    settings = LogOptions.from_options(options)
    return {
        name: LogShard(access, settings, name=name)
        for name, access in shard_accesses(options).items()
    }


def encode(offsets: Mapping[str, Offset]) -> dict[str, Any]:
    """The offsets of a stream's shards as Spark keeps them; of a log in one database just its own."""
    if "" in offsets:
        return dict(offsets[""].to_dict())
    return {name: offset.to_dict() for name, offset in offsets.items()}


def decode(offset: Mapping[str, Any], shards: Mapping[str, LogShard]) -> dict[str, Offset]:
    """The offsets of those shards of which Spark has one.

    Raises:
        LogStateError: It has one of another shard and losses are not allowed, or something that is no offset.
    """
    options = next(iter(shards.values())).options
    if "" in shards:
        return {"": Offset.from_dict(offset, by_ticks=options.by_ticks)}
    gone = ", ".join(sorted(set(offset) - set(shards)))
    if gone and options.fail_on_data_loss:
        raise LogStateError(
            f"the checkpoint holds offsets of {gone}, which the option shards does not name; name it "
            "again, or set failOnDataLoss to false to leave out what it still holds"
        )
    if gone:
        print(f"pgsluice: {gone} in the checkpoint is no shard any more", file=sys.stderr)
    return {
        name: Offset.from_dict(offset[name], by_ticks=options.by_ticks)
        for name in shards
        if name in offset
    }


class LogShard:
    """One event log in one database, on the driver.

    Executors get a copy without the connection, of which they use `access` alone.
    """

    def __init__(self, access: Access, options: LogOptions, *, name: str = "") -> None:
        self.access = access
        self.options = options
        self.auto_tick = options.auto_tick
        self.last_tick: int | None = None  # both are set for AvailableNow
        self.last_snapshot: Snapshot | None = None
        self._what = f"event log {options.queue_name!r}" + (f" of shard {name!r}" if name else "")
        self._connection = LastingConnection(self.access)

    def look(self) -> None:
        """See that the log is there.

        Raises:
            LogNotFoundError: It is not.
        """
        self._incarnation()

    def first(self) -> Offset:
        """Where a new stream begins; a consumer is registered there, and the answer is then the same each time."""
        options, start = self.options, self.options.start
        log = self._incarnation()
        if start.log is not None and start.log != log:
            raise LogStateError(
                f"startingOffsets is of another log ({start.log}) than this {self._what} ({log}); start "
                "from earliest or from a timestamp"
            )
        if start.snapshot is not None:
            if options.consumer is not None:
                # From the beginning, and then as far as is known to be read.
                self._call(calls.log_start(options.queue_name, options.consumer, "earliest"))
                self.commit(Offset(log, None, start.snapshot))
            return Offset(log, None, start.snapshot)
        return self._at_tick(
            log, lambda: calls.log_start(options.queue_name, options.consumer, self._starting())
        )

    def now(self) -> Offset:
        """The offset that covers all that is committed now.

        Raises:
            PrivilegeError: Offsets are ticks, and the role may not tick.
        """
        log = self._incarnation()
        if not self.options.by_ticks:
            return Offset(log, None, Snapshot.parse(self._call(calls.log_now())))
        return self._at_tick(log, lambda: calls.log_tick(self.options.queue_name))

    def has_reached(self, offset: Offset, wanted: Offset) -> bool:
        """Whether nothing lies between an offset and one that was wanted."""
        return offset.snapshot.covers(wanted.snapshot) or self.count(offset, wanted, 1) == 0

    def pin(self) -> None:
        """From now on read what is committed now, and nothing later."""
        name = self.options.queue_name
        if self.auto_tick:
            try:
                self.last_tick = self._call(calls.log_tick(name))
            except PrivilegeError:
                self.auto_tick = False
        if self.last_tick is None:
            self.last_tick = self._call(calls.log_newest(name))
        if not self.options.by_ticks:
            self.last_snapshot = Snapshot.parse(self._call(calls.log_now()))

    def end(self, start: Offset, max_events: int | None) -> Offset:
        """How far to read from an offset: about so many events, one tick or transaction at the least.

        Raises:
            LogStateError: The log may have forgotten events after it, or is another one.
        """
        name = self.options.queue_name
        if self.auto_tick and self.last_tick is None:
            self._tick()
        begin = self._begin(start)
        if begin.tick is not None:
            limit = sys.maxsize >> 1 if max_events is None else max_events
            tick = self._call(calls.log_end(name, begin.tick, limit, self.last_tick))
            snapshot = self._snapshot_of(tick) if tick > begin.tick else None
            return begin if snapshot is None else Offset(begin.log, tick, snapshot)
        last = None if self.last_snapshot is None else str(self.last_snapshot)
        text, txid = self._call(calls.log_cut(name, str(begin.snapshot), max_events, last))
        if txid is None:
            return begin
        return Offset(begin.log, None, Snapshot.parse(text).cut(txid))

    def count(self, start: Offset, end: Offset, at_most: int) -> int:
        """How many events lie between; counting ends at `at_most`."""
        return self._call(
            calls.log_count(
                self.options.queue_name, str(start.snapshot), str(end.snapshot), at_most
            )
        )

    def queries(
        self, start: Offset, end: Offset, *, columns: Sequence[str], slice_count: int
    ) -> list[str]:
        """The queries for what lies between: always the same rows, however many queries.

        Raises:
            LogStateError: The log may have forgotten some of it, or is another one.
        """
        # Spark asks for an empty range, and after a crash before the first commit for a reversed one.
        if start.log == end.log and start.snapshot.covers(end.snapshot):
            return []
        begin = self._begin(start)
        if begin.log != end.log:
            # Only if losses are allowed: what the checkpoint planned to read is not there any more.
            return []
        return self._call(
            calls.log_snapshot_slices(
                self.options.queue_name,
                str(begin.snapshot),
                str(end.snapshot),
                slice_count=slice_count,
                slice_events_min=self.options.slice_events_min,
                columns=columns,
            )
        )

    def require(self, after: str) -> None:
        """See that nothing was forgotten of what comes after a snapshot.

        Raises:
            LogStateError: It may have been.
        """
        if not self._call(calls.log_keeps(self.options.queue_name, after)):
            raise LogStateError(
                f"{self._what} was emptied while it was read; give the option consumer, which holds it, and "
                "leave that registered; or set failOnDataLoss to false"
            )

    def commit(self, end: Offset) -> None:
        """Let the log forget what the stream's consumer has read.

        Raises:
            LogStateError: The consumer is not registered any more, and the log may have forgotten what comes next.
        """
        name, consumer = self.options.queue_name, self.options.consumer
        if consumer is None or end.log != self._incarnation():
            return
        if self._move(end) or self._call(calls.log_consumers(name, consumer)):
            return  # it stood there already, or further
        lost = self._hold(end)
        if lost is not None and self.options.fail_on_data_loss:
            raise LogStateError(f"{lost}; {_START_OVER}")

    def close(self) -> None:
        self._connection.close()

    # --- inside --------------------------------------------------------------------------------------

    def _incarnation(self) -> str:
        # Asked each time: the log may have been dropped and made again.
        return self._call(
            calls.log_incarnation(self.options.queue_name, with_timeline=not self.options.by_ticks)
        )

    def _at_tick(self, log: str, call: Callable[[], Call[int]]) -> Offset:
        """The offset at a tick that is asked for; between two calls a tick that nobody holds may go."""
        for _ in range(_LOOKS_MAX):
            tick = self._call(call())
            snapshot = self._snapshot_of(tick)
            if snapshot is not None:
                return Offset(log, tick if self.options.by_ticks else None, snapshot)
        raise LogStateError(
            f"{self._what} forgets its ticks faster than they can be looked at; give the option consumer, "
            "whose ticks it keeps"
        )

    def _starting(self) -> str:
        start = self.options.start
        if start.word is not None:
            return start.word
        if start.moment is None:
            return str(start.tick)
        if start.moment > datetime.now(UTC):
            if start.latest_if_later:
                return "latest"
            raise ConfigurationError(
                f"startingTimestamp is {start.moment.isoformat()}, which has not come yet; give an earlier "
                "one, or the option startingOffsetsByTimestampStrategy=latest"
            )
        return str(self._call(calls.log_tick_at(self.options.queue_name, start.moment)))

    def _snapshot_of(self, tick: int) -> Snapshot | None:
        text = self._call(calls.log_snapshot(self.options.queue_name, tick))
        return None if text is None else Snapshot.parse(text)

    def _begin(self, start: Offset) -> Offset:
        """The offset to go on from: this one, or where the log begins if it is lost and losses are allowed."""
        log = self._incarnation()
        lost = self._lost(start, log) or self._hold(start)
        if lost is None:
            return start
        if self.options.fail_on_data_loss:
            raise LogStateError(f"{lost}; {_START_OVER}")
        tick = self._start_again()
        snapshot = self._snapshot_of(tick)
        if snapshot is None:
            raise LogStateError(f"{lost}, and the oldest tick {tick} went meanwhile; start again")
        print(f"pgsluice: {lost}; going on from tick {tick}", file=sys.stderr)
        if start.log == log and (start.tick is None or start.tick < tick):
            # It is this log's past that went: what was read of it is not read again.
            snapshot = snapshot.union(start.snapshot)
        return Offset(log, tick if self.options.by_ticks else None, snapshot)

    def _lost(self, start: Offset, log: str) -> str | None:
        """Why events after an offset may be missing; None when all are there."""
        if start.log != log:
            return (
                f"the checkpoint was written for another {self._what} ({start.log}, now {log}): it was "
                "dropped and made again, or its server replaced, promoted or restored"
            )
        if start.tick is None:
            keeps = self._call(calls.log_keeps(self.options.queue_name, str(start.snapshot)))
            return (
                None if keeps else f"{self._what} no longer keeps what comes after {start.snapshot}"
            )
        snapshot = self._snapshot_of(start.tick)
        if snapshot is None:
            return f"{self._what} no longer keeps tick {start.tick}"
        if snapshot != start.snapshot:
            return (
                f"tick {start.tick} of {self._what} is not the one in the checkpoint: its server was "
                "restored to an earlier moment"
            )
        return None

    def _hold(self, start: Offset) -> str | None:
        """Register the consumer at an offset of this log, unless it holds what comes after that already.

        A stream is without its consumer if the lake was moved, the consumer was renamed, or it was unregistered.

        Returns:
            Why events after the offset may be missing; None when the consumer holds them.
        """
        name, consumer = self.options.queue_name, self.options.consumer
        if consumer is None:
            return None
        standing = self._call(calls.log_consumers(name, consumer))
        if self._any_before(standing, start):
            return None
        place = "earliest"
        if start.tick is not None:
            place = str(start.tick)
        elif found := self._any_before(self._call(calls.log_consumers(name, None)), start):
            place = str(found)
        gone = (
            f"consumer {consumer!r} is not registered on {self._what}, which no longer keeps what comes "
            "after the checkpoint"
        )
        try:
            self._call(calls.log_start(name, consumer, place))
        except LogStateError:
            return gone
        except PositionLostError as error:
            return str(error)
        self._move(start)
        # Registered first: from here on nothing is forgotten that is found to be there.
        if not self._any_before(self._call(calls.log_consumers(name, consumer)), start):
            if not standing:
                self._call(pgq.unregister_consumer(name, consumer))
            return gone
        print(
            f"pgsluice: consumer {consumer!r} did not hold {self._what}; it was registered where the checkpoint is, "
            "and nothing was lost. If this stream had a consumer of another name before, unregister that one: it "
            "still holds the log",
            file=sys.stderr,
        )
        return None

    def _any_before(self, standing: list[tuple[int, str]], offset: Offset) -> int | None:
        """The newest of these positions whose consumer holds all that comes after an offset; its tick."""
        for tick, snapshot in standing:
            if offset.snapshot.covers(Snapshot.parse(snapshot)):
                return tick
        return None

    def _move(self, end: Offset) -> bool:
        """Move the consumer forward to an offset; False when it is not registered, or stands there or further."""
        name, consumer = self.options.queue_name, str(self.options.consumer)
        if end.tick is not None:
            return self._call(calls.log_commit(name, consumer, end.tick))
        return self._call(calls.log_commit_snapshot(name, consumer, str(end.snapshot)))

    def _start_again(self) -> int:
        """Find the oldest tick; the consumer, if there is one, holds it."""
        name, consumer = self.options.queue_name, self.options.consumer
        try:
            return self._call(calls.log_start(name, consumer, "earliest"))
        except PositionLostError:
            tick = self._call(calls.log_start(name, None, "earliest"))
            self._call(pgq.register_consumer_at(name, str(consumer), tick))
            return tick

    def _tick(self) -> None:
        try:
            self._call(pgq.ticker(self.options.queue_name))
        except PrivilegeError:
            self.auto_tick = False  # others tick
        except LogStateError:
            pass  # paused, or ticked from outside; that may end while the stream runs

    def _call(self, call: Call[Result]) -> Result:
        return self._connection.run(call)
