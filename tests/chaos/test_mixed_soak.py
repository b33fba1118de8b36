"""Everything at its maximum under one held snapshot: it must neither slow down nor grow.

A worker handles events of share groups with and without keys, tick batches, captured changes,
scheduled messages and a work queue, with retries and delays; see `mixed_load.py`. Maintenance runs in
its own process. Logs rotate every few seconds. One REPEATABLE READ snapshot is held throughout.

    PGSLUICE_MIXED_SOAK_MINUTES   duration in minutes (0.5); from 10 on the limits are strict

The speed of a machine changes by a fifth within minutes. So at the end of a run of ten minutes or more
its throughput is compared with that of a new server, by turns.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from chaos.mixed_load import SLOT_S, Tally
from chaos.mixed_soak import Sample, Soak, rate_of
from pgsluice import schema
from pgsluice.embedded import EmbeddedServer

MINUTES = float(os.environ.get("PGSLUICE_MIXED_SOAK_MINUTES", "0.5"))
FULL_MINUTES = 10
ROUNDS = 10
# Of a new server's rate, and in a short run, beside which other tests run, of the rate at the start.
LEAST_RATE, LEAST_RATE_SHORT = 0.95, 0.4
# A short run ends before every segment is used again.
MOST_BYTES = 1.25
MOST_MEMORY = 1.2
# Those of a vacuum that is due.
DEAD_ROWS = 50
# One per fired slot, and those of the rotations of four logs.
DEAD_ROWS_PER_S = 6


def first_and_last(samples: list[Sample], minutes: float) -> tuple[list[Sample], list[Sample]]:
    """Return the samples of a sixth of the time after the warm-up, and those of the last sixth."""
    window_s, warm_up_s = minutes * 10, min(60.0, minutes * 12)
    first = [s for s in samples if warm_up_s <= s.at_s <= warm_up_s + window_s]
    last = [s for s in samples if s.at_s >= samples[-1].at_s - window_s]
    return first, last


def check_size(samples: list[Sample], minutes: float) -> None:
    first, last = first_and_last(samples, minutes)
    growth = max(s.size for s in last) / max(s.size for s in first)
    assert growth <= MOST_BYTES, f"the tables grew to {growth:.2f} of the start's size"


def check(
    samples: list[Sample],
    report: dict[str, Any],
    minutes: float,
    turns: list[tuple[float, float]],
) -> None:
    """Require each message once, and that the end is like the beginning.

    Args:
        samples: The last sixth is compared with the first after the warm-up.
        report: That of the load.
        minutes: Duration.
        turns: Rates of this server and of a new one; only of a full run.
    """
    is_full = minutes >= FULL_MINUTES
    first, last = first_and_last(samples, minutes)

    for what in ("lost", "doubled", "unordered", "slots_doubled"):
        assert not report[what], f"{what}: {report[what]}"
    slots = [datetime.fromisoformat(slot) for slot in report["slots"]]
    gaps = [str(a) for a, b in pairwise(slots) if b - a != timedelta(seconds=SLOT_S)]
    assert not gaps, f"scheduled messages are missing after {gaps[:5]}"
    assert all(report["done"].values()), report["done"]
    assert report["retries"] > 0

    if is_full:
        ratio, least = statistics.median(aged / new for aged, new in turns), LEAST_RATE
    else:
        ratio, least = rate_of(last) / rate_of(first), LEAST_RATE_SHORT
    assert ratio >= least, (
        f"throughput is {ratio:.2f} of that of {'a new server' if is_full else 'the start'}; at least {least}"
    )
    dead = max(s.dead for s in last) - max(s.dead for s in first)
    assert dead <= DEAD_ROWS, f"{dead} dead rows more than at the start"
    rare = (last[-1].rare_dead - first[0].rare_dead) / (last[-1].at_s - first[0].at_s)
    assert rare <= DEAD_ROWS_PER_S, (
        f"{rare:.1f} dead rows per second of tables that are updated rarely"
    )
    if is_full:
        check_size(samples, minutes)
    memory = max(s.memory_mb for s in last) / max(s.memory_mb for s in first)
    assert memory <= MOST_MEMORY or not is_full, f"the worker grew to {memory:.2f} of its memory"


@pytest.fixture
def new_url(servers_folder: Path) -> Iterator[Callable[[], str]]:
    """Return the URL of a new server at each call."""
    with ExitStack() as stack:

        def start() -> str:
            folder = Path(tempfile.mkdtemp(dir=servers_folder))
            folder.chmod(0o755)
            server = EmbeddedServer(folder / "soak")
            server.start()
            stack.callback(server.stop, "immediate")
            with psycopg.connect(server.url()) as connection:
                schema.install(connection)
            return server.url()

        yield start


def take_turns(aged: Soak, new: Soak) -> list[tuple[float, float]]:
    """Return the rates of both, each while the other is paused."""
    aged.pause()
    turns = []
    with new.running():
        new.turn()  # until its caches are filled
        for _ in range(ROUNDS):
            turns.append((aged.turn(), new.turn()))
            print(f"aged {turns[-1][0]:,.0f}, new {turns[-1][1]:,.0f} messages/s", flush=True)
    return turns


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 900)
def test_under_a_held_snapshot_a_mixed_load_neither_slows_down_nor_grows(new_url, tmp_path):
    soak, turns = Soak(new_url(), tmp_path / "aged", "1s"), []
    with soak.running():
        soak.sample_all(MINUTES)
        if MINUTES >= FULL_MINUTES:
            turns = take_turns(soak, Soak(new_url(), tmp_path / "new", "1s"))

    print(
        f"{soak.report['done']}, {soak.report['retries']} retries, {len(soak.report['slots'])} slots"
    )
    print(f"dead rows at the end: {soak.dead_by_table}")
    check(soak.samples, soak.report, MINUTES, turns)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_without_maintenance_the_soak_finds_growth(new_url, tmp_path):
    """Planted: logs are ticked, but neither rotated nor truncated."""
    soak = Soak(new_url(), tmp_path / "aged", "1h")
    with soak.running():
        soak.sample_all(2)

    with pytest.raises(AssertionError, match="the tables grew"):
        check_size(soak.samples, 2)


FLAT = [Sample(float(s), {"jobs": 1_000 * s}, 100, 10_000_000, 50) for s in range(601)]
GOOD = {
    **{what: [] for what in ("lost", "doubled", "unordered", "slots_doubled")},
    "slots": [f"2026-01-01 00:00:{second:02}+00:00" for second in range(5)],
    "done": {"jobs": 5},
    "retries": 1,
}


def changed(**of_last: Any) -> list[Sample]:
    return [replace(s, **of_last) if s.at_s > 550 else s for s in FLAT]


SAME = [(4_000.0, 4_100.0), (5_000.0, 4_900.0), (3_000.0, 3_100.0)]


def test_the_check_accepts_a_flat_run():
    check(FLAT, GOOD, 10, SAME)
    check(FLAT, GOOD, 5, [])


@pytest.mark.parametrize(
    ("samples", "report", "found"),
    [
        (FLAT, {"lost": {"jobs": [3]}}, "lost"),
        (FLAT, {"doubled": {"jobs": [3]}}, "doubled"),
        (FLAT, {"unordered": [3]}, "unordered"),
        (FLAT, {"slots_doubled": ["2026"]}, "slots_doubled"),
        (FLAT, {"slots": [GOOD["slots"][0], GOOD["slots"][2]]}, "scheduled messages are missing"),
        (FLAT, {"done": {"jobs": 5, "steps": 0}}, "steps"),
        (changed(dead=301), {}, "201 dead rows"),
        (changed(rare_dead=4_000), {}, "rarely"),
        (changed(size=13_000_000), {}, "the tables grew to 1.30"),
        (changed(memory_mb=70), {}, "the worker grew"),
    ],
)
def test_the_check_finds_each_violation(samples, report, found):
    with pytest.raises(AssertionError, match=found):
        check(samples, GOOD | report, 10, SAME)


def test_the_check_finds_lower_throughput():
    with pytest.raises(AssertionError, match="is 0.94 of that of a new server; at least 0.95"):
        check(FLAT, GOOD, 10, [(4_000, 4_000), (3_760, 4_000), (2_820, 3_000)])
    with pytest.raises(AssertionError, match="is 0.38 of that of the start; at least 0.4"):
        check(changed(done_by_kind={"jobs": 569_000}), GOOD, 5, [])


def test_a_tally_finds_lost_and_doubled_numbers():
    tally = Tally()
    tally.sent = 5
    for number in (0, 2, 1, 4, 2):
        tally.add(number)

    assert (tally.lost(), tally.doubled, tally.outstanding) == ([3], [2], 1)
