"""Figures, findings, explanations and alerts over simulated hours, on each surface, compared with the tables."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pgsluice.cli import status as status_command
from pgsluice.client import Operations
from pgsluice.client.calls import doctor_logs
from pgsluice.dashboard import app, history, reader_history, rendering
from pgsluice.dashboard.pages import queues
from pgsluice.ops.metrics import collector
from support import figures_surfaces, replace_in
from support.clock import Clock
from support.dashboard import LOCAL
from support.figures_model import Truth, truth_of
from support.figures_rules import check_rules
from support.figures_surfaces import Sampled, check_all
from support.figures_world import PHASES, World
from support.metrics import Samples
from support.servers import Database

QUICK, LONG = len(PHASES), 60  # phases
SQL_ALERTS = figures_surfaces.sql_alerts()


@pytest.fixture
def shifted_pages(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Give the dashboard the clock of the server."""

    class Shifted(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return dt.datetime.now(tz) + dt.timedelta(seconds=clock.offset_s)

    for module in (rendering, history, reader_history, queues):
        monkeypatch.setattr(module, "datetime", Shifted)


@contextmanager
def living(database: Database, clock: Clock, seed: int) -> Iterator[tuple[World, TestClient]]:
    """A world, and a dashboard that shows it."""
    world = World(database, clock, seed)
    with TestClient(app(database.url, refresh_s=0.001), **LOCAL) as client:
        try:
            yield world, client
        finally:
            world.close()


def run(world: World, client: TestClient, phases: int) -> list[tuple[Truth, Samples]]:
    """Live the phases in random order, and compare after each; return the metrics."""
    sampled, left, lived = Sampled(), [], []
    for number in range(phases):
        if not left:
            left = world.dice.sample(PHASES, len(PHASES))
        phase = left.pop()
        world.live(phase)
        truth = truth_of(world)
        try:
            lived.append((truth, check_all(world, truth, sampled, client)))
        except AssertionError as error:
            raise AssertionError(f"phase {number}, {phase}: {error}") from error
    return lived


def test_every_surface_shows_what_the_tables_say(
    clock_database: Database, clock: Clock, shifted_pages: None, seed: int, tmp_path: Path
) -> None:
    with living(clock_database, clock, seed) as (world, client):
        lived = run(world, client, QUICK)
    if shutil.which("promtool"):
        check_rules(lived, tmp_path)


@pytest.mark.slow
def test_every_surface_shows_what_the_tables_say_for_long(
    clock_database: Database, clock: Clock, shifted_pages: None, seed: int, tmp_path: Path
) -> None:
    with living(clock_database, clock, seed) as (world, client):
        lived = run(world, client, LONG)
    if shutil.which("promtool"):
        check_rules(lived, tmp_path)


class _Operations(Operations):
    """Counts retrying messages as in flight."""

    def list_queue_states(self, **how: Any) -> list[Any]:
        return [
            replace(each, in_flight=each.in_flight + each.retrying, retrying=0)
            for each in super().list_queue_states(**how)
        ]


def _replacing(function: str, old: str, new: str) -> Callable[[World, pytest.MonkeyPatch], None]:
    return lambda world, _: replace_in(world.connection, function, old, new)


def _setting(module: Any, name: str, value: Any) -> Callable[[World, pytest.MonkeyPatch], None]:
    return lambda _, monkeypatch: monkeypatch.setattr(module, name, value)


# A wrong figure of each surface, by the surface that must report it; some figures are on several.
PLANTED = {
    "page of the queue": _replacing(
        "sluice._queue_state(text)", "into length, ready, in_flight, retrying, delayed,", "into length, ready, retrying, in_flight, delayed,"
    ),
    "overview": _replacing(
        "sluice.take_samples(interval)", "s.dead, null, null, null, s.retrying", "s.dead, null, null, null, s.delayed"
    ),
    "page of the log|overview": _replacing(
        "sluice.list_consumers(text)", "clock_timestamp() - oldest.event_at[s.number]", "s.pos_active - oldest.event_at[s.number]"
    ),
    "page of the log|metrics": _replacing(
        "sluice._group_state(sluice.share_group)", "c.redeliveries - o.settled", "c.redeliveries"
    ),
    "metrics": _setting(collector, "Operations", _Operations),
    "doctor": _setting(doctor_logs, "late_ticks", lambda _: doctor_logs.future_ticks(5)),
    "alerts.sql": _setting(
        figures_surfaces,
        "sql_alerts",
        lambda: {name: query.replace("> 300", "> 30000") for name, query in SQL_ALERTS.items()},
    ),
    "explain": _replacing(
        "sluice.explain_queue(text)", "m.vt <= $2\n            order by", "m.vt > $2\n            order by"
    ),
    "status": _setting(status_command, "paused_queues", lambda _: {}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("surface", PLANTED)
def test_a_planted_wrong_figure_is_found(
    clock_database: Database,
    clock: Clock,
    shifted_pages: None,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    surface: str,
) -> None:
    with living(clock_database, clock, seed) as (world, client):
        PLANTED[surface](world, monkeypatch)
        with pytest.raises(AssertionError, match=rf": ({surface}): .*( is so|missed|false)"):
            run(world, client, 5 * QUICK)
