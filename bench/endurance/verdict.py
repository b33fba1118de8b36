"""Verdict on a long run: its end compared with its beginning, and a search for what grows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from bench.endurance.parts import Part
from bench.endurance.sampling import Sample

TENTHS = 10
LEAST_SAMPLES = 20
RATE_LEAST, LATENCY_MOST = 0.95, 1.5
MEMORY_MOST, MEMORY_SLACK_MB, MEMORY_MOST_MB = 1.1, 8.0, 32.0
# A series grows if its end is this much above its beginning, and it rises in most tenths or from slice to slice.
GROWTH, RISES_LEAST, RISE = 1.25, 7, 1.005
SLICES_LEAST, SLICE_RISE = 3, 1.05
SLACK_BYTES, SLACK_ROWS, SLACK_DISK_MB, SLACK_RELATIONS = 1_000_000, 1_000, 32.0, 20
FREEZE_MAX_AGE = (
    200_000_000  # autovacuum_freeze_max_age and its counterpart of multixacts by default
)
FREEZE_SLACK = 1.01
YEARS_LEAST, SECONDS_PER_YEAR = 100, 31_557_600
# Rows that are kept for longer than a run, by series: their number is bounded by the figure.
# Samples: of 10 seconds for 90 minutes, of a minute for 36 hours, of 15 minutes for 45 days, of at most six sources.
RETAINED_ROWS = {"sluice.sample_#": 6 * (540 + 2_160 + 4_320)}
WAL_MB = 1_100  # max_wal_size by default, and the segments of a checkpoint
QUEUE_TABLE, ARCHIVE_TABLES = "pgmq.q_endurance", "pgmq.a_endurance_P#"
ROW_BYTES = 400  # with its share of the indexes, generously


@dataclass(frozen=True)
class Finding:
    """One comparison.

    Attributes:
        question: What is compared.
        first: Figure of the first tenth, or of the beginning.
        last: Figure of the last tenth, or of the end.
        goal: Limit, in words.
        reached: True if it is kept; None if there was too little to tell.
    """

    question: str
    first: float | None
    last: float | None
    goal: str
    reached: bool | None

    def as_json(self) -> dict[str, Any]:
        """Return it for the result file."""
        return asdict(self)


def judge(samples: Sequence[Sample], part: Part, sizes: dict[str, int]) -> list[Finding]:
    """Return the findings of a run.

    Args:
        samples: All, of all slices.
        part: Part of the run.
        sizes: Values of `parts.OPTIONS`.
    """
    if len(samples) < LEAST_SAMPLES:
        return [Finding("samples", None, float(len(samples)), f"at least {LEAST_SAMPLES}", None)]
    return [
        *speed(samples, part),
        *growth(samples, sizes),
        *retention(samples, part, sizes),
        *transaction_ids(samples),
    ]


def speed(samples: Sequence[Sample], part: Part) -> list[Finding]:
    """Compare throughput and latency of the last tenth with the first, without starts and held snapshots."""
    by_tenth = tenths(samples)
    found = []
    first, last = (_steady_rates(samples, by_tenth[place]) for place in (0, -1))
    a, b = (statistics.median(rates) if rates else None for rates in (first, last))
    found.append(
        Finding(
            "messages a second",
            a,
            b,
            f"at least {RATE_LEAST} of the first tenth",
            b >= RATE_LEAST * a if a and b else None,
        )
    )
    for kind in ("claim", "tick") if part.is_log else ("claim",):
        a, b = (percentile(latencies(_steady(by_tenth[place]), kind), 99) for place in (0, -1))
        found.append(
            Finding(
                f"p99 of a {kind}, ms",
                a,
                b,
                f"at most {LATENCY_MOST} of the first tenth",
                b <= LATENCY_MOST * a if a and b else None,
            )
        )
    return found


def memory_read_ns(samples: Sequence[Sample]) -> tuple[float | None, float | None]:
    """Return the medians of a random read of memory in the first and last tenth: if they differ, the machine does."""
    by_tenth = tenths(samples)
    found = [
        [s.memory_read_ns for s in _steady(by_tenth[place]) if s.memory_read_ns]
        for place in (0, -1)
    ]
    first, last = (statistics.median(each) if each else None for each in found)
    return first, last


def growth(samples: Sequence[Sample], sizes: dict[str, int]) -> list[Finding]:
    """Search for series that grow: memory, disk, catalog, and the size, rows and dead rows of each table."""
    found = []
    longest = max(slices(samples), key=len)
    for name in sorted({name for sample in longest for name in sample.memory}):
        series = [sample.memory.get(name) for sample in longest if "starting" not in sample.flags]
        found.append(_memory(name, [mb for mb in series if mb is not None]))
    for name in sorted({name for sample in samples for name in sample.disk}):
        slack_mb = WAL_MB if name == "pg_wal" else SLACK_DISK_MB
        if name == "base":  # the tables of queue and archive have limits of their own
            slack_mb += (4 * sizes["endurance_backlog"] + _kept(sizes)) * ROW_BYTES / 1e6
        found.append(
            _grows(samples, f"disk, {name}, MB", lambda s, n=name: s.disk.get(n, 0.0), slack_mb)
        )
    for name in ("relations", "statistics"):
        found.append(
            _grows(samples, f"catalog, {name}", lambda s, n=name: s.facts.get(n), SLACK_RELATIONS)
        )
    for name in sorted(
        {
            name
            for sample in samples
            for name in sample.relations
            if not name.startswith("endurance.")
        }
    ):
        slack_rows, slack_bytes = SLACK_ROWS, float(SLACK_BYTES)
        if name in RETAINED_ROWS:
            slack_rows, slack_bytes = RETAINED_ROWS[name], RETAINED_ROWS[name] * ROW_BYTES
        elif name == QUEUE_TABLE:
            slack_bytes = 4.0 * ROW_BYTES * sizes["endurance_backlog"]
        elif name == ARCHIVE_TABLES:  # whose limit is that of the retention
            continue
        found.append(_grows(samples, f"{name}, bytes", _field(name, 0), slack_bytes))
        # Other segments are replaced by size, whatever their rows.
        if "_#" not in name or name in RETAINED_ROWS:
            found.append(_grows(samples, f"{name}, rows", _field(name, 3), slack_rows))
    return [finding for finding in found if finding is not None]


def retention(samples: Sequence[Sample], part: Part, sizes: dict[str, int]) -> list[Finding]:
    """Compare the disk of an archive with what its retention keeps."""
    if part.keep != "archive" or part.is_log:
        return []
    name = ARCHIVE_TABLES
    before, last = samples[0], max(samples, key=lambda s: s.relations.get(name, [0])[0] or 0)
    bytes_, _, relations, _ = last.relations.get(name, [0, 0, 0, 0])
    kept = _kept(sizes)
    goal = f"at most what {kept:,} messages of {ROW_BYTES} bytes occupy"
    first = float(before.relations.get(name, [0])[0] or 0)
    empty = (relations or 0) * 6 * 8192
    return [
        Finding(
            "archive at its largest, bytes",
            first,
            float(bytes_ or 0),
            goal,
            (bytes_ or 0) <= kept * ROW_BYTES + empty,
        )
    ]


def _kept(sizes: dict[str, int]) -> int:
    """Return the messages in an archive: one partition is current, one expires, and those in advance are empty."""
    return sizes["retained_messages"] + 3 * sizes["retained_partition"]


def transaction_ids(samples: Sequence[Sample]) -> list[Finding]:
    """Check that autovacuum froze in time, and that no sequence is near its end.

    A run that ends before the oldest transaction id has come to autovacuum_freeze_max_age shows nothing of it.
    """
    found = []
    for name, fact in (("transaction ids", "xid_age"), ("multixacts", "multixact_age")):
        ages = [age for sample in samples if (age := sample.facts.get(fact)) is not None]
        limit = FREEZE_MAX_AGE * FREEZE_SLACK
        is_in_time = max(ages) <= limit and ages[-1] < FREEZE_MAX_AGE
        has_come = fact != "xid_age" or max(ages) >= FREEZE_MAX_AGE
        goal = "autovacuum_freeze_max_age is not passed by 1 %, and the end is below it"
        found.append(
            Finding(
                f"age of {name}, largest and at the end",
                max(ages),
                ages[-1],
                goal,
                is_in_time if has_come else None,
            )
        )
    years = {name: _years_left(samples, name) for name in samples[-1].sequences}
    name = min(years, key=years.__getitem__, default=None)
    if name is not None:
        found.append(Finding(f"years until sequence {name} ends, the first to end", None, years[name],
                             f"at least {YEARS_LEAST}", years[name] >= YEARS_LEAST))  # fmt: skip
    return found


def tenths(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Divide samples by messages done into ten lists."""
    first, last = samples[0].done, samples[-1].done
    found: list[list[Sample]] = [[] for _ in range(TENTHS)]
    for sample in samples:
        place = (sample.done - first) * TENTHS // max(last - first, 1)
        found[min(place, TENTHS - 1)].append(sample)
    return found


def slices(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Divide samples by slice."""
    return [
        [s for s in samples if s.slice == number] for number in sorted({s.slice for s in samples})
    ]


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return a percentile; None of fewer than two values."""
    return statistics.quantiles(values, n=100)[percent - 1] if len(values) > 1 else None


def latencies(samples: Iterable[Sample], kind: str) -> list[float]:
    """Return the measured latencies of one kind in milliseconds."""
    return [ms for sample in samples for ms in sample.latencies.get(kind, [])]


def rates(samples: Sequence[Sample]) -> list[tuple[Sample, float]]:
    """Return the samples of a slice with the messages done per second since the sample before."""
    return [
        (b, (b.done - a.done) / (b.at_s - a.at_s))
        for a, b in pairwise(samples)
        if a.slice == b.slice and b.at_s > a.at_s
    ]


def _steady(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples without a recent start and a held snapshot, if any."""
    started = [sample for sample in samples if "starting" not in sample.flags]
    return [sample for sample in started if "held" not in sample.flags] or started


def _steady_rates(samples: Sequence[Sample], chosen: list[Sample]) -> list[float]:
    wanted = {id(sample) for sample in _steady(chosen)}
    return [rate for sample, rate in rates(samples) if id(sample) in wanted]


def _field(name: str, place: int) -> Callable[[Sample], float | None]:
    def value(sample: Sample) -> float | None:
        # A series without relations is empty.
        return sample.relations.get(name, [0, 0, 0, 0])[place]

    return value


def _memory(name: str, series: list[float]) -> Finding | None:
    """Compare the end of the longest slice with its second tenth: processes start anew in each slice.

    Caches fill at first, and a restart of the server empties those of its sessions: a small rise is not growth
    unless it is steady.
    """
    if len(series) < TENTHS:
        return None
    groups = [
        series[len(series) * n // TENTHS : len(series) * (n + 1) // TENTHS] for n in range(TENTHS)
    ]
    medians = [statistics.median(group) for group in groups]
    first, last = medians[1], medians[-1]
    rises = sum(b > a * RISE for a, b in pairwise(medians[1:]))
    is_flat = last <= first * MEMORY_MOST + MEMORY_SLACK_MB
    is_bounded = rises < RISES_LEAST - 1 and last <= first * MEMORY_MOST + MEMORY_MOST_MB
    goal = f"at most {MEMORY_MOST} of the beginning and {MEMORY_SLACK_MB:g} MB, or {MEMORY_MOST_MB:g} if unsteady"
    return Finding(f"memory of {name}, MB", first, last, goal, is_flat or is_bounded)


def _years_left(samples: Sequence[Sample], name: str) -> float:
    """Return the years of this load until a sequence ends."""
    first = next(sample for sample in samples if name in sample.sequences)
    used = samples[-1].sequences[name] - first.sequences[name]
    seconds = samples[-1].clock_s - first.clock_s
    return (
        (1 - samples[-1].sequences[name]) * seconds / used / SECONDS_PER_YEAR
        if used > 0
        else float("inf")
    )


def _grows(
    samples: Sequence[Sample], question: str, value: Callable[[Sample], float | None], slack: float
) -> Finding | None:
    """Return a finding if the series is above its beginning by more than the slack; not reached if it grows steadily.

    A series that a held snapshot or a rotation raises once has few rises. One that grows rises in most tenths,
    or in each slice.
    """
    medians = _medians(tenths(samples), value, statistics.median)
    peaks = _medians(slices(samples), value, max)
    if len(medians) < 2 or medians[-1] <= medians[0] * GROWTH + slack:
        return None
    rises = sum(b > a * RISE for a, b in pairwise(medians))
    is_steady = rises >= RISES_LEAST
    is_by_slice = len(peaks) >= SLICES_LEAST and all(b > a * SLICE_RISE for a, b in pairwise(peaks))
    goal = f"no rise in {RISES_LEAST} of 9 tenths, nor in each slice"
    return Finding(question, medians[0], medians[-1], goal, not (is_steady or is_by_slice))


def _medians(
    groups: list[list[Sample]],
    value: Callable[[Sample], float | None],
    of: Callable[[list[float]], float],
) -> list[float]:
    series = [[v for sample in group if (v := value(sample)) is not None] for group in groups]
    return [of(values) for values in series if values]
