"""Continue after events that the log removed before they were in the lake.

Such a gap is skipped once: first each current-state table gets a durable request of a rebuild, so no later event is
applied to its rows; then the lake records the gap, and the stream may continue after the offsets of the checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from pgsluice.lake.current_tables import Gap, add_gap, read_gaps, read_states, request_rebuild
from pgsluice.pipelines.current_state.apply import CurrentStates
from pgsluice.pipelines.current_state.snapshot import Snapshots
from pgsluice.spark.checkpoint import is_interrupted, last_planned, planned_offset
from pgsluice.spark.offsets import Offset
from pgsluice.spark.shards import LogShard

_log = logging.getLogger(__name__)
_START_OVER = "start with another --checkpoint and another --lake"
# End of the error of lost events, by `after_loss`.
LOSS_HINTS: Mapping[str, str] = {
    "fail": "run the pipeline with --after-loss rebuild, which skips lost events and rebuilds the current-state "
    f"tables; if the log was recreated or restored, {_START_OVER}",
    "rebuild": "start the pipeline again, which rebuilds the current-state tables; if the log was recreated or "
    f"restored, {_START_OVER}",
}


def skip_gap(
    shard: LogShard,
    checkpoint: Path,
    states: CurrentStates,
    snapshots: Snapshots,
    *,
    is_allowed: bool,
) -> dict[str, str]:
    """Prepare a lake for a stream whose next events are lost.

    Args:
        shard: The event log.
        checkpoint: Spark's checkpoint.
        states: The current-state tables; no stream may run.
        snapshots: The snapshots of the pipeline; it takes them again after a gap.
        is_allowed: False to skip only a gap that an earlier run recorded, which ended before the stream had passed it.

    Returns:
        Options with which the stream skips the gap; empty if there is none.
    """
    current = states.lake
    gaps = read_gaps(current)
    if not gaps and not is_allowed:
        return {}
    last = last_planned(checkpoint)
    planned = {batch: planned_offset(checkpoint, batch) for batch in (last - 1, last)}
    offsets = {
        batch: Offset.from_dict(found, by_ticks=True)
        for batch, found in planned.items()
        if found is not None
    }
    is_planned = is_interrupted(checkpoint)
    start = offsets.get(last - 1 if is_planned else last)
    if start is None:
        return {}
    with closing(shard):  # it connects again when it is used
        reason = shard.gap_after(start)
        # A run that ends after the planned batch starts in the same gap.
        is_within = is_planned and last in offsets and shard.gap_after(offsets[last]) is not None
    if reason is None:
        return {}
    after = f"tick {start.tick}"
    if all(after not in (gap.after, gap.planned) for gap in gaps):
        if not is_allowed:
            return {}
        for name, state in read_states(current).items():
            if states.selects(name) and state.parked is None:
                request_rebuild(current, name, reason=f"events were lost, as {reason}")
        snapshots.forget()
        found_at = datetime.now(UTC).isoformat(timespec="seconds")
        planned_end = f"tick {offsets[last].tick}" if is_within else ""
        add_gap(current, Gap(after, found_at, reason, planned_end))
    _log.warning(
        "events lost: the table of events has a gap after %s, and all current-state tables are rebuilt: %s",
        after,
        reason,
        extra={"lake": str(current.lake)},
    )
    return {"lossPermittedAfter": " ".join(str(one.snapshot) for one in offsets.values())}
