"""Compare what each surface shows with what it must show."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from click.testing import CliRunner
from starlette.testclient import TestClient

from pgsluice.cli.main import cli
from pgsluice.client import Operations
from pgsluice.connection import Target
from pgsluice.ops.doctor import diagnose
from pgsluice.ops.metrics.collector import DatabaseCollector
from pgsluice.ops.metrics.endpoint import text_of
from support import rows
from support.figures_model import UNSURE_S, Truth, alerts_of, are_ticks_late, findings_of
from support.figures_pages import Page, duration_s, number
from support.figures_world import CONSUMER, GROUP, LOG, QUEUE, SCHEDULE, World
from support.metrics import Samples, samples_of

STATES = {
    "visible": "Ready",
    "in flight": "In flight",
    "retrying": "Retrying",
    "delayed": "Delayed",
}
METRICS = {
    "visible": "ready",
    "in flight": "in_flight",
    "retrying": "retrying",
    "delayed": "delayed",
}


@dataclass
class Sampled:
    """The state at the last samples, or None before the first."""

    truth: Truth | None = None

    def at(self, now: Truth) -> Truth | None:
        """Return the state at the last samples, unless they are too old to be shown."""
        if self.truth is None or (now.now - self.truth.now).total_seconds() > 300:
            return None
        return self.truth


@dataclass
class Differences:
    """Differences of one surface, for the message of a failure."""

    surface: str
    found: list[str] = field(default_factory=list)

    def same(self, what: str, shown: object, expected: object) -> None:
        if shown != expected:
            self.found.append(f"{what}: {shown!r} is shown, {expected!r} is so")

    def about(
        self, what: str, shown_s: float | None, expected_s: float | None, error_s: float = 0
    ) -> None:
        if (shown_s is None) != (expected_s is None) or (
            shown_s is not None and abs(shown_s - (expected_s or 0)) > UNSURE_S + error_s
        ):
            self.found.append(f"{what}: {shown_s} s is shown, {expected_s} s is so")

    def lasts(self, what: str, text: str, expected_s: float | None) -> None:
        shown = duration_s(text)
        self.about(what, None if shown is None else shown[0], expected_s, shown[1] if shown else 0)

    def lag(
        self, what: str, shown_s: float | None, ages_s: list[float], error_s: float = 0
    ) -> None:
        """The lag is the age of the first event, or of one between it and the oldest."""
        least, most = (ages_s[0], max(ages_s)) if ages_s else (0, 0)
        if not least - UNSURE_S - error_s <= (shown_s or 0) <= most + UNSURE_S + error_s:
            self.found.append(f"{what}: {shown_s} s is shown, {least} to {most} s is so")

    def truth(self, what: str, shown: bool, expected: bool | None) -> None:
        if expected is not None and shown != expected:
            self.found.append(f"{what}: {'false' if shown else 'missed'}")

    def check(self) -> None:
        assert not self.found, f"{self.surface}: " + "; ".join(self.found)


def check_all(world: World, truth: Truth, sampled: Sampled, client: TestClient) -> Samples:
    """Compare all surfaces; return the metrics."""
    if truth.is_maintained:
        sampled.truth = truth
    check_queue_page(truth, client)
    check_overview(truth, sampled.at(truth), client)
    check_log_pages(truth, sampled.at(truth), client)
    found = check_metrics(world, truth)
    check_doctor(world, truth)
    check_alerts(world, truth)
    check_explain(world, truth)
    check_status(world, truth)
    return found


def opened(client: TestClient, path: str, **query: str) -> Page:
    """Return a page; the dashboard may have to connect again after a restart."""
    for _ in range(20):
        answer = client.get(path, params=query)
        if answer.status_code == 200:
            break
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def check_queue_page(truth: Truth, client: TestClient) -> None:
    of, page = Differences("page of the queue"), opened(client, "/queue", name=QUEUE)
    for state, label in STATES.items():
        of.same(label, number(page.tiles[label]), truth.states[state])
    of.lasts("Oldest ready", page.tiles["Oldest ready"], truth.oldest_s)
    of.same("Dead letters", number(page.tiles["Dead letters"]), truth.dead)
    of.same("Finished in all", number(page.tiles["Finished in all"]), truth.finished)
    of.same("paused", "Paused by" in page.text, truth.is_paused)
    of.check()


def check_overview(truth: Truth, sampled: Truth | None, client: TestClient) -> None:
    of, page = Differences("overview"), opened(client, "/")
    listed = opened(client, "/queues").tables["Queue"]
    # Without any samples the queues are read directly.
    figures = sampled or truth
    for state, label in STATES.items():
        labelled = "Ready messages" if state == "visible" else label
        of.same(labelled, number(page.tiles[labelled]), figures.states[state])
        of.same(f"{label} in the list", number(listed[0][label]), figures.states[state])
    of.same("Dead letters", number(page.tiles["Dead letters"]), figures.dead)
    of.lasts("Oldest ready in the list", listed[0]["Oldest ready"], figures.oldest_s)
    age = re.search(r"Figures as of (just now|.*? ago)", page.text)
    assert age, f"overview: no age of its figures: {page.text[:500]}"
    said_s, error_s = (0.0, 1.0) if age[1] == "just now" else duration_s(age[1]) or (0.0, 0.0)
    of.about("age of the figures", said_s, (truth.now - figures.now).total_seconds(), error_s)
    state = listed[0]["State"]
    of.same("paused in the list", "paused" in state, truth.is_paused)
    behind = {row["Reader"]: row for row in page.tables.get("Log", ()) if "Reader" in row}
    expected = set()
    if sampled is not None:
        expected |= {CONSUMER} if sampled.lag else set()
        expected |= {GROUP} if sampled.unclaimed else set()
    of.same("readers behind", set(behind), expected)
    if CONSUMER in behind and sampled is not None:
        shown = duration_s(behind[CONSUMER]["Time behind"]) or (0, 0)
        of.lag("lag of the consumer", shown[0], sampled.lag, shown[1])
    of.check()


def check_log_pages(truth: Truth, sampled: Truth | None, client: TestClient) -> None:
    of, page = Differences("page of the log"), opened(client, "/log", name=LOG)
    of.lasts("newest tick", page.tiles["Time since the newest tick"], truth.tick_s)
    (row,) = page.tables["Consumer"]
    of.same("events behind is 0", number(row["Events behind"]) == 0, not truth.lag)
    shown = duration_s(row["Time behind"]) or (0, 0)
    of.lag("lag of the consumer", shown[0], truth.lag, shown[1])
    of.lasts("Idle for", row["Idle for"], truth.idle_s)
    tile = opened(client, "/consumer", log=LOG, consumer=CONSUMER).tiles["Time behind"]
    shown = duration_s(tile) or (0, 0)
    of.lag("lag on the page of the consumer", shown[0], truth.lag, shown[1])
    tiles = opened(client, "/group", log=LOG, group=GROUP).tiles
    of.same("figures of the group are shown", "Leased" in tiles, sampled is not None)
    if sampled is not None and "Leased" in tiles:
        of.same("the group is behind", number(tiles["Events behind"]) != 0, bool(sampled.unclaimed))
        of.lasts(
            "oldest event to claim",
            tiles["Oldest event to claim"],
            max(sampled.unclaimed, default=0),
        )
        leased, retrying = number(tiles["Leased"]) or 0, number(tiles["Retrying"]) or 0
        of.same("leased and retrying", leased + retrying, sampled.outstanding)
        of.same("enough leased", leased >= sampled.leased, True)
        of.same("dead letters of the group", number(tiles["Dead letters"]), sampled.group_dead)
    of.check()


def check_metrics(world: World, truth: Truth) -> Samples:
    of = Differences("metrics")
    collector = DatabaseCollector(Target(world.database.url, "test"), cache_s=0)
    found = samples_of(text_of(collector))

    def metric(name: str, **labels: str) -> float | None:
        return found.get((f"pgsluice_{name}", frozenset(labels.items())))

    for state, name in METRICS.items():
        of.same(name, metric(f"queue_{name}_messages", queue=QUEUE), truth.states[state])
    of.about(
        "oldest ready", metric("queue_oldest_ready_seconds", queue=QUEUE), truth.oldest_s or 0.0
    )
    for name, number_ in (("sent_messages_total", truth.sent), ("finished_messages_total", truth.finished),
                          ("dead_messages", truth.dead)):  # fmt: skip
        of.same(name, metric(f"queue_{name}", queue=QUEUE), number_)
    of.same("paused", metric("queue_paused", queue=QUEUE), 1 if truth.is_paused else None)
    of.same("leader", metric("leader"), truth.is_maintained)
    of.same(
        "failing", metric("maintenance_failing_steps", task="rotate"), 1 if truth.failures else None
    )
    live = truth.is_worker_live
    if live is not None:
        for state, is_so in (("live", live), ("silent", truth.reported_s is not None and not live)):
            of.same(
                f"{state} workers", metric("workers", app="app", state=state), 1 if is_so else None
            )
    of.about("late", metric("schedule_late_seconds", schedule=SCHEDULE), truth.late_s)
    reader = {"log": LOG, "consumer": CONSUMER}
    of.about("tick age", metric("log_tick_age_seconds", log=LOG), truth.tick_s)
    of.same(
        "the consumer is behind", metric("log_consumer_lag_events", **reader) != 0, bool(truth.lag)
    )
    of.lag("consumer lag", metric("log_consumer_lag_seconds", **reader), truth.lag)
    of.same("lost", metric("log_consumer_lost", **reader), 0)
    group = {"log": LOG, "group": GROUP}
    of.same("the group is behind", metric("group_lag_events", **group) != 0, bool(truth.unclaimed))
    of.about("group lag", metric("group_lag_seconds", **group), max(truth.unclaimed, default=0.0))
    leased, retrying = (
        metric("group_claimed_events", **group),
        metric("group_retrying_events", **group),
    )
    of.same("claimed and retrying", (leased or 0) + (retrying or 0), truth.outstanding)
    of.same("enough claimed", (leased or 0) >= truth.leased, True)
    of.same("dead letters of the group", metric("group_dead_letters", **group), truth.group_dead)
    of.same(
        "parts not read", [k for k, v in found.items() if k[0] == "pgsluice_read_errors" and v], []
    )
    of.check()
    return found


def check_doctor(world: World, truth: Truth) -> None:
    of, expected = Differences("doctor"), findings_of(truth)
    for finding in diagnose(world.connection, only=set(expected)):
        if finding.status == "unknown":
            of.found.append(f"{finding.check} is unknown: {finding.what}")
        of.truth(finding.check, finding.status in ("warn", "fail"), expected[finding.check])
    of.check()


def sql_alerts() -> dict[str, str]:
    """Return the queries of alerts.sql by name."""
    text = files("pgsluice").joinpath("ops/metrics/alerts.sql").read_text(encoding="utf-8")
    return {
        name: query
        for name, _, query in (part.partition("\n") for part in text.split("-- name: ")[1:])
    }


def check_alerts(world: World, truth: Truth) -> None:
    of, expected, queries = Differences("alerts.sql"), alerts_of(truth), sql_alerts()
    of.same("names", set(queries), set(expected))
    for name, query in queries.items():
        of.truth(name, bool(rows(world.connection, query)), expected[name])
    of.check()


def check_explain(world: World, truth: Truth) -> None:
    of = Differences("explain")
    facts = Operations(world.connection).explain_queue(QUEUE)
    for state, name in METRICS.items():
        key = "visible" if state == "visible" else name
        of.same(key, facts[0].detail[key], truth.states[state])
    reasons = {fact.cause: fact for fact in facts if fact.section == "reason"}
    of.truth("paused", "paused" in reasons, truth.is_paused)
    of.truth("empty", "empty" in reasons, truth.length == 0)
    of.truth(
        "none visible", "none visible" in reasons, truth.length > 0 and not truth.states["visible"]
    )
    expired = reasons["expired leases"].detail["expired"] if "expired leases" in reasons else 0
    of.same("expired leases", expired, truth.expired)
    asked = truth.states["visible"] > 0 and not truth.is_paused
    live = truth.is_worker_live
    of.truth("no worker", "no worker" in reasons, None if live is None else asked and not live)
    consumer = _reasons(world.log.explain_consumer(LOG, CONSUMER))
    of.truth("up to date", "up to date" in consumer, truth.is_tick_read)
    of.truth("consumer lag", "consumer lag" in consumer, not truth.is_tick_read)
    of.truth("no tick", "no tick" in consumer, are_ticks_late(truth))
    # Of a share group, the events that are not settled count.
    in_log = _reasons(world.log.explain_log(LOG))
    of.truth("lag in the log", "consumer lag" in in_log, True if truth.lag else None)
    of.truth("all claimed", "all claimed" in _reasons(world.group.explain()), not truth.unclaimed)
    of.check()


def _reasons(facts: list[Any]) -> set[str]:
    return {fact.cause for fact in facts if fact.section == "reason"}


def check_status(world: World, truth: Truth) -> None:
    of = Differences("status")
    done = CliRunner().invoke(cli, ["status", "--json", "--dsn", world.database.url])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    of.same("queues", report["queues"], [QUEUE])
    of.same("logs", report["logs"], [LOG])
    of.same("paused", len(report["paused"]), truth.is_paused)
    of.same("failures", len(report["failures"]), len(truth.failures))
    of.same("problems", report["problems"], [])
    of.check()
