"""Count and measure a completed run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from pgsluice.demo import load, measure
from pgsluice.demo.lake import ChangesLake, TableCommit
from pgsluice.demo.measure import Latency
from pgsluice.demo.reconcile import Reconciliation
from pgsluice.demo.result import Result, Series
from pgsluice.demo.statements import one_row, statement
from pgsluice.demo.workspace import Workspace

_STEPS = 120  # of a plot


def summarise(
    db: psycopg.Connection[Any],
    workspace: Workspace,
    *,
    run: Mapping[str, Any],
    checks: Sequence[Reconciliation],
    steps_s: Mapping[str, float],
) -> Result:
    """Return the result of a completed run.

    Args:
        db: Connection to the demo's database.
        workspace: Workspace with the lake and pgbench's logs.
        run: `run_id`, `server`, `seconds`, `clients`, `workers` and `interruptions` of the result.
        checks: The reconciliation.
        steps_s: Duration of each step.
    """
    lake = ChangesLake(workspace.events)
    commits = lake.commits()
    counts = one_row(db, "counts")
    changed = sorted(itertools.chain.from_iterable(commit.changed_at for commit in commits))
    in_lake = _arrivals(commits)
    both = sorted([*changed, *in_lake])
    times = db.execute(statement("processed_times")).fetchall()
    sent = sorted(row[0] for row in times)
    processed = [row[1] for row in times]
    return Result(
        **run,
        counts={
            **counts,
            "lake_rows": lake.row_count(),
            "lake_updates": len(changed),
            "lake_commits": lake.commit_count(),
        },
        rates_per_s={
            "transactions": _rate(changed),
            "processed": _rate(processed),
            # Commits are seconds apart; only a much longer gap is an interruption.
            "lake": len(in_lake) / (measure.active_s(both, pause_s=60.0) or math.inf),
        },
        latencies=(
            Latency.of("transaction", load.read_latencies(workspace.logs)),
            Latency.of("sent → processed", (done - begun for begun, done in times)),
            Latency.of("changed → in the lake", _lake_latencies(commits)),
        ),
        series=_series(changed, sent, processed, commits),
        steps_s=dict(steps_s),
        checks=checks,
        report=workspace.report,
    )


def _lake_latencies(commits: Sequence[TableCommit]) -> list[float]:
    return [
        commit.committed_at - changed_at for commit in commits for changed_at in commit.changed_at
    ]


def _arrivals(commits: Sequence[TableCommit]) -> list[float]:
    return [commit.committed_at for commit in commits for _ in commit.changed_at]


def _rate(times: Sequence[float]) -> float:
    return len(times) / (measure.active_s(times) or math.inf)


def _series(
    changed: Sequence[float],
    sent: Sequence[float],
    processed: Sequence[float],
    commits: Sequence[TableCommit],
) -> Series:
    in_lake = _arrivals(commits)
    every = [times for times in (changed, sent, processed, in_lake) if times]
    start = min((times[0] for times in every), default=0.0)
    end = max((times[-1] for times in every), default=0.0)
    step_s = max(0.5, round((end - start) / _STEPS, 1))
    return Series(
        step_s,
        committed_per_s=measure.rate_per_s(changed, start, end, step_s),
        processed_per_s=measure.rate_per_s(processed, start, end, step_s),
        lake_per_s=measure.spread_rate_per_s(
            [(commit.committed_at, len(commit.changed_at)) for commit in commits],
            start,
            end,
            step_s,
        ),
        queued=measure.outstanding(sent, processed, start, end, step_s),
        not_in_lake=measure.outstanding(changed, in_lake, start, end, step_s),
    )
