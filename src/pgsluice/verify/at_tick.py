"""Compare at a snapshot of the database while writers and the pipeline continue.

PostgreSQL is read in one snapshot. The lake is opened once its pipeline has written every event that this snapshot
sees, so it may also have later changes. A row of a current-state table has the id of the event that wrote it, and a
deleted row stays as a tombstone: the keys of rows that later events wrote are not compared. All others must be equal.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psycopg

from pgsluice.client.calls import spark as log_calls
from pgsluice.client.calls.logs import log_tick
from pgsluice.errors import ConfigurationError, LogStateError, PrivilegeError, SluiceError
from pgsluice.lake.address import parse
from pgsluice.lake.current_tables import Tables, read_applied
from pgsluice.verify.comparing import ComparedColumns, fetch
from pgsluice.verify.lake import Lake, rows_of
from pgsluice.verify.lines import key_of, lines_of

_SEQ = "_seq"
# The app whose version is the id of the last truncate event that a current-state table has applied.
_EMPTIED = "pgsluice:emptied"
_LOOK_AGAIN_S = 0.2


def await_lake(
    observer: psycopg.Connection[Any], log: str, consumer: str, snapshot: str, *, deadline_s: float
) -> None:
    """Wait until a consumer has finished every event that a snapshot sees.

    Args:
        observer: A connection in autocommit mode.
        log: The event log.
        consumer: Consumer of the pipeline.
        snapshot: The snapshot.
        deadline_s: Maximum wait in seconds.

    Raises:
        ConfigurationError: The consumer is not registered.
        SluiceError: It did not finish them within the deadline.
    """
    end_s = time.monotonic() + deadline_s
    while True:
        # Not if the role may not tick: then another ticker does.
        with suppress(PrivilegeError):
            fetch(observer, log_tick(log))
        positions = fetch(observer, log_calls.log_consumers(log, consumer))
        if not positions:
            raise ConfigurationError(
                f"consumer {consumer!r} has no position on event log {log!r}; give the consumer of the pipeline"
            )
        if fetch(observer, log_calls.log_count(log, positions[0][1], snapshot, 1)) == 0:
            return
        if time.monotonic() > end_s:
            raise SluiceError(
                f"the pipeline with consumer {consumer!r} did not write the events of log {log!r} within "
                f"{deadline_s:g} s; check that it runs, or wait longer"
            )
        time.sleep(_LOOK_AGAIN_S)


def await_applied(current: Tables, *, deadline_s: float) -> None:
    """Wait until the changes among all events in the lake are in its current-state tables.

    Args:
        current: The current-state tables.
        deadline_s: Maximum wait in seconds.

    Raises:
        SluiceError: They are not within the deadline.
    """
    from pgsluice.lake.tables import last_version

    applied = read_applied(current)
    if applied is None:
        return
    target = last_version(current.events, applied.app_id)
    end_s = time.monotonic() + deadline_s
    while target is not None and applied is not None and applied.version < target:
        if time.monotonic() > end_s:
            raise SluiceError(
                f"the pipeline did not update the current-state tables of {current.lake} within {deadline_s:g} s; "
                "wait longer than its interval, apply_every_s (--apply-every)"
            )
        time.sleep(_LOOK_AGAIN_S)
        applied = read_applied(current)


def events_after(observer: psycopg.Connection[Any], log: str, snapshot: str) -> frozenset[int]:
    """Return the ids of all events of a log until now that a snapshot does not see.

    Raises:
        LogStateError: The log no longer keeps all of them.
    """
    queries = fetch(
        observer,
        log_calls.log_slices(
            log,
            snapshot,
            fetch(observer, log_calls.log_cut(log, None, None, None))[0],
            slice_count=1,
            slice_events_min=1,
            columns=["ev_id"],
        ),
    )
    ids = frozenset(
        int(ev_id) for query in queries for (ev_id,) in observer.execute(query.encode())
    )
    if not fetch(observer, log_calls.log_keeps(log, snapshot)):
        raise LogStateError(f"event log {log!r} was truncated while it was read; verify again")
    return ids


def changed_keys(lake: Lake, shape: ComparedColumns, events: frozenset[int]) -> frozenset[bytes]:
    """Return the keys of rows and tombstones that these events wrote.

    Raises:
        ConfigurationError: It is not a current-state table.
        LogStateError: One of these events emptied the table.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from pgsluice.lake.tables import last_version

    if _SEQ not in lake.types:
        raise ConfigurationError(
            f"the lake table {lake.name} has no column {_SEQ}; only a current-state table can be verified at a tick"
        )
    if last_version(parse(lake.name), _EMPTIED) in events:
        raise LogStateError(f"the table of {lake.name} was truncated meanwhile; verify again")
    columns, forms = shape.columns[: shape.key], shape.forms[: shape.key]
    later = pa.array(sorted(events), pa.int64())
    return frozenset(
        key_of(line, shape.key)
        for batch in rows_of(lake, [*columns, _SEQ])
        for line in lines_of(
            batch.filter(pc.is_in(batch.column(_SEQ), value_set=later)), columns, forms
        )
    )
