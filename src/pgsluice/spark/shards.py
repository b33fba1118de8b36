"""Shards of a log stream: one event log in each of its databases."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pgsluice.client.calls import Call, pgq
from pgsluice.client.calls import spark as calls
from pgsluice.client.calls.logs import log_tick
from pgsluice.errors import (
    ConfigurationError,
    LogStateError,
    PositionLostError,
    PrivilegeError,
)
from pgsluice.printable import print_warning
from pgsluice.shards import Shards
from pgsluice.spark.access import Access, access_for
from pgsluice.spark.log_options import LogSourceOptions
from pgsluice.spark.offsets import Offset
from pgsluice.spark.reconnecting import ReconnectingConnection
from pgsluice.spark.snapshots import Snapshot

Result = TypeVar("Result")


def shard_accesses(options: Mapping[str, str]) -> dict[str, Access]:
    """Parse the option `shards`, or `dsn`, `dsnFile` or `dsnEnv` for a single database.

    Returns:
        Database addresses by shard name, sorted; without shards, one with an empty name.

    Raises:
        ConfigurationError: `shards` is neither a JSON object of such options nor the path of a file of shards, or is
            combined with them.
    """
    text = options.get("shards")
    if not text:
        return {"": Access.from_options(options)}
    if Access.from_options(options) != Access():
        raise ConfigurationError(
            "the option shards cannot be combined with dsn, dsnFile or dsnEnv; put them into shards"
        )
    if text.endswith(".toml"):
        return {
            name: access_for(place) for name, place in sorted(Shards.load(text).places().items())
        }
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
        # Not quoted, as it may contain a password.
        raise ConfigurationError(
            'shards cannot be read; use a JSON object such as {"eu": {"dsnFile": "/etc/eu.dsn"}, '
            '"us": {"dsnEnv": "US_DSN"}}, or the path of a file of shards, which ends in .toml'
        )
    return {name: Access.from_options(value[name]) for name in sorted(value)}


def places_of(shards: Mapping[str, str] | str | Path) -> Mapping[str, str]:
    """Return the DSN, `env:NAME` or `file:PATH` of each shard, also of those of a file."""
    return Shards.load(shards).places() if isinstance(shards, str | Path) else shards


def open_shards(options: Mapping[str, str]) -> dict[str, LogShard]:
    """Return the shards of a stream by name; each connects on first use."""
    settings = LogSourceOptions.from_options(options)
    return {
        name: LogShard(access, settings, name=name)
        for name, access in shard_accesses(options).items()
    }


def encode(offsets: Mapping[str, Offset]) -> dict[str, Any]:
    """Serialise offsets for Spark: by shard name, or a single offset without shards."""
    if "" in offsets:
        return dict(offsets[""].to_dict())
    return {name: offset.to_dict() for name, offset in offsets.items()}


def decode(offset: Mapping[str, Any], shards: Mapping[str, LogShard]) -> dict[str, Offset]:
    """Parse Spark's offset into offsets by shard name; shards without an offset are omitted.

    Raises:
        LogStateError: It contains an unknown shard and data loss is not permitted, or it is not an offset.
    """
    options = next(iter(shards.values())).options
    if "" in shards:
        return {"": Offset.from_dict(offset, by_ticks=options.by_ticks)}
    gone = ", ".join(sorted(set(offset) - set(shards)))
    if gone and options.fail_on_data_loss:
        raise LogStateError(
            f"the checkpoint holds offsets of {gone}, which the shards of the stream do not name; add it to them, or "
            f"{options.loss_hint}"
        )
    if gone:
        print_warning(f"ignoring removed shard {gone} in the checkpoint")
    return {
        name: Offset.from_dict(offset[name], by_ticks=options.by_ticks)
        for name in shards
        if name in offset
    }


class LogShard:
    """Event log in one database, on the driver.

    Executors receive a copy without the open connection.
    """

    def __init__(
        self,
        access: Access,
        options: LogSourceOptions,
        *,
        name: str = "",
        connection: ReconnectingConnection | None = None,
    ) -> None:
        self.access = access
        self.options = options
        self.auto_tick = options.auto_tick
        self.last_tick: int | None = None  # this and last_snapshot are set for AvailableNow
        self.last_snapshot: Snapshot | None = None
        self._what = f"event log {options.log_name!r}" + (f" of shard {name!r}" if name else "")
        self._connection = connection or ReconnectingConnection(self.access)

    def check_log(self) -> None:
        """Check that the log exists.

        Raises:
            LogNotFoundError: It does not exist.
        """
        self._incarnation()

    def first(self) -> Offset:
        """Return the starting offset of a new stream; registers the consumer there, which makes the result stable."""
        options, start = self.options, self.options.start
        log = self._incarnation()
        if start.log is not None and start.log != log:
            raise LogStateError(
                f"startingOffsets is of another log ({start.log}) than {self._what} ({log}); start from earliest or "
                "from a timestamp"
            )
        if start.snapshot is not None:
            if options.consumer is not None:
                # Register at the oldest tick, then move forward to the snapshot.
                self._call(calls.log_start(options.log_name, options.consumer, "earliest"))
                self.commit(Offset(log, None, start.snapshot))
            return Offset(log, None, start.snapshot)
        return self._at_tick(
            log, calls.log_start(options.log_name, options.consumer, self._starting())
        )

    def now(self, *, ticked: bool = True) -> Offset:
        """Return the offset after everything committed so far; unless `ticked`, at the newest tick.

        Raises:
            PrivilegeError: Offsets are ticks, and the role may not tick.
        """
        log, name = self._incarnation(), self.options.log_name
        if not self.options.by_ticks:
            return Offset(log, None, self._now())
        if ticked:
            self._call(log_tick(name))
        return self._at_tick(log, calls.log_start(name, None, "latest"))

    def has_reached(self, offset: Offset, target: Offset) -> bool:
        """True if there are no events between an offset and the target."""
        return offset.snapshot.covers(target.snapshot) or self.count(offset, target, 1) == 0

    def pin(self) -> None:
        """Fix the end of the stream: read only what is committed by now."""
        name = self.options.log_name
        if self.auto_tick:
            try:
                self.last_tick = self._call(log_tick(name))
            except PrivilegeError:
                self.auto_tick = False
        if self.last_tick is None:
            self.last_tick, _ = self._call(calls.log_start(name, None, "latest"))
        if not self.options.by_ticks:
            self.last_snapshot = self._now()

    def end(self, start: Offset, max_events: int | None) -> Offset:
        """Return the end of the next micro-batch: about `max_events` events, but at least one tick or transaction.

        Raises:
            LogStateError: The log may have removed events after the start, or is a different log.
        """
        name = self.options.log_name
        if self.auto_tick and self.last_tick is None:
            self._tick()
        begin = self._begin(start)
        if begin.tick is not None:
            limit = sys.maxsize >> 1 if max_events is None else max_events
            tick, text = self._call(calls.log_end(name, begin.tick, limit, self.last_tick))
            return Offset(begin.log, tick, Snapshot.parse(text)) if tick > begin.tick else begin
        last = None if self.last_snapshot is None else str(self.last_snapshot)
        text, txid = self._call(calls.log_cut(name, str(begin.snapshot), max_events, last))
        if txid is None:
            return begin
        return Offset(begin.log, None, Snapshot.parse(text).cut(txid))

    def gap_after(self, start: Offset) -> str | None:
        """Return why this log lacks events after an offset; None if it has them, or is another log or a restored one.

        Registers the consumer at the offset if it can.
        """
        log = self._incarnation()
        if start.log != log:
            return None
        if start.tick is not None and self._snapshot_of(start.tick) not in (None, start.snapshot):
            return None
        return self._lost(start, log) or self._hold(start)

    def count(self, start: Offset, end: Offset, at_most: int) -> int:
        """Count the events between two offsets, up to `at_most`."""
        name = self.options.log_name
        return self._call(calls.log_count(name, str(start.snapshot), str(end.snapshot), at_most))

    def queries(
        self, start: Offset, end: Offset, *, columns: Sequence[str], slice_count: int
    ) -> list[str]:
        """Return queries for the events between two offsets; their union is the same for any number of queries.

        Raises:
            LogStateError: The log may have removed some of the events, or is a different log.
        """
        # Spark requests empty ranges, and reversed ones after a crash before the first commit.
        if start.log == end.log and start.snapshot.covers(end.snapshot):
            return []
        begin = self._begin(start)
        if begin.log != end.log:
            # Only if data loss is permitted: the planned events no longer exist.
            return []
        return self._call(
            calls.log_slices(
                self.options.log_name,
                str(begin.snapshot),
                str(end.snapshot),
                slice_count=slice_count,
                slice_events_min=self.options.slice_events_min,
                columns=columns,
            )
        )

    def require(self, after: str) -> None:
        """Check that the log still has all events after a snapshot.

        Raises:
            LogStateError: Some may have been removed.
        """
        if not self._call(calls.log_keeps(self.options.log_name, after)):
            consumer = self.options.consumer
            raise LogStateError(
                f"{self._what} was truncated while it was read, as consumer {consumer!r} was unregistered; "
                f"{self.options.loss_hint}"
                if consumer
                else f"{self._what} was truncated while it was read; set the option consumer, for which the log "
                "retains events, or set failOnDataLoss to false"
            )

    def commit(self, end: Offset) -> None:
        """Move the consumer position to an offset, so that the log may remove earlier events.

        Raises:
            LogStateError: The consumer is no longer registered, and the log may have removed later events.
        """
        name, consumer = self.options.log_name, self.options.consumer
        if consumer is None or end.log != self._incarnation():
            return
        if self._move(end) or self._call(calls.log_consumers(name, consumer)):
            return  # already there, or further
        lost = self._hold(end)
        if lost is not None and self.options.fail_on_data_loss:
            raise LogStateError(f"{lost}; {self.options.loss_hint}")

    def close(self) -> None:
        self._connection.close()

    # --- inside --------------------------------------------------------------------------------------

    def _incarnation(self) -> str:
        # Not cached: the log may have been dropped and recreated.
        return self._call(
            calls.log_incarnation(self.options.log_name, with_timeline=not self.options.by_ticks)
        )

    def _at_tick(self, log: str, call: Call[tuple[int, str]]) -> Offset:
        tick, snapshot = self._call(call)
        return Offset(log, tick if self.options.by_ticks else None, Snapshot.parse(snapshot))

    def _now(self) -> Snapshot:
        snapshot, _ = self._call(calls.log_cut(self.options.log_name, None, None, None))
        return Snapshot.parse(snapshot)

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
                f"startingTimestamp {start.moment.isoformat()} is in the future; use an earlier one, or set the option "
                "startingOffsetsByTimestampStrategy=latest"
            )
        return start.moment.isoformat()

    def _snapshot_of(self, tick: int) -> Snapshot | None:
        try:
            _, snapshot = self._call(calls.log_start(self.options.log_name, None, str(tick)))
        except LogStateError:
            return None
        return Snapshot.parse(snapshot)

    def _begin(self, start: Offset) -> Offset:
        """Return the offset to continue from: `start`, or the oldest tick after permitted data loss."""
        log = self._incarnation()
        lost = self._lost(start, log) or self._hold(start)
        if lost is None:
            return start
        if not self.options.permits_loss(start):
            raise LogStateError(f"{lost}; {self.options.loss_hint}")
        tick, text = self._start_again()
        snapshot = Snapshot.parse(text)
        print_warning(f"{lost}; continuing from tick {tick}")
        if start.log == log and (start.tick is None or start.tick < tick):
            # The same log lost old events: do not read again what was already read.
            snapshot = snapshot.union(start.snapshot)
        return Offset(log, tick if self.options.by_ticks else None, snapshot)

    def _lost(self, start: Offset, log: str) -> str | None:
        """Return the reason why events after an offset may be missing; None if all exist."""
        if start.log != log:
            return (
                f"the checkpoint was written for another {self._what} ({start.log}, now {log}): it was "
                "dropped and recreated, or its server replaced, promoted or restored"
            )
        if start.tick is None:
            keeps = self._call(calls.log_keeps(self.options.log_name, str(start.snapshot)))
            return None if keeps else f"{self._what} no longer keeps events after {start.snapshot}"
        snapshot = self._snapshot_of(start.tick)
        if snapshot is None:
            return f"{self._what} no longer keeps tick {start.tick}"
        if snapshot != start.snapshot:
            return (
                f"tick {start.tick} of {self._what} is not the one in the checkpoint: its server was "
                "restored to an earlier point in time"
            )
        return None

    def _hold(self, start: Offset) -> str | None:
        """Register the consumer at an offset of this log, unless it already retains the events after the offset.

        A stream lacks its consumer if the lake was moved, or the consumer was renamed or unregistered.

        Returns:
            The reason why events after the offset may be missing; None if the consumer retains them.
        """
        name, consumer = self.options.log_name, self.options.consumer
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
            f"consumer {consumer!r} is not registered on {self._what}, which no longer keeps events after the "
            "checkpoint"
        )
        try:
            self._call(calls.log_start(name, consumer, place))
        except LogStateError:
            return gone
        except PositionLostError as error:
            return str(error)
        self._move(start)
        # Check after the registration, which keeps the log from removing more events.
        if not self._any_before(self._call(calls.log_consumers(name, consumer)), start):
            if not standing:
                self._call(pgq.unregister_consumer(name, consumer))
            return gone
        print_warning(
            f"consumer {consumer!r} was not registered on {self._what}; it was registered at the checkpoint, "
            "and no events were lost. If this stream used another consumer name before, unregister that consumer: the "
            "log still retains events for it"
        )
        return None

    def _any_before(self, standing: list[tuple[int, str]], offset: Offset) -> int | None:
        """Return the tick of the newest consumer position at or before an offset; None without one."""
        for tick, snapshot in standing:
            if offset.snapshot.covers(Snapshot.parse(snapshot)):
                return tick
        return None

    def _move(self, end: Offset) -> bool:
        """Move the consumer forward to an offset; False if it is not registered, or already there or further."""
        name, consumer = self.options.log_name, str(self.options.consumer)
        if end.tick is not None:
            return self._call(calls.log_commit(name, consumer, end.tick))
        return self._call(calls.log_commit_snapshot(name, consumer, str(end.snapshot)))

    def _start_again(self) -> tuple[int, str]:
        """Return the oldest tick and its snapshot; if there is a consumer, register it there."""
        name, consumer = self.options.log_name, self.options.consumer
        try:
            return self._call(calls.log_start(name, consumer, "earliest"))
        except PositionLostError:
            tick, snapshot = self._call(calls.log_start(name, None, "earliest"))
            self._call(pgq.register_consumer_at(name, str(consumer), tick))
            return tick, snapshot

    def _tick(self) -> None:
        try:
            self._call(pgq.ticker(self.options.log_name))
        except PrivilegeError:
            self.auto_tick = False  # leave it to another ticker
        except LogStateError:
            pass  # ticker paused or external; this may change while the stream runs

    def _call(self, call: Call[Result]) -> Result:
        return self._connection.run(call)
