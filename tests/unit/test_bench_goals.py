"""The table of goals of speed and its page."""

from __future__ import annotations

import io
import json

from bench import page
from bench.__main__ import RESULTS, WORKLOADS
from bench.goal import Goal
from bench.goals import ROWS, SIZES, rows, table
from bench.measuring import summary, with_goals
from bench.workloads import worker_noop
from rich.console import Console

LINES = [line for lines in ROWS.values() for line in lines]


def report(workload, rates, at="2026-01-02T03:04:05+00:00", commit="on"):
    """Return a report with rates per round, by question and system."""
    results = [summary(question, by_system) for question, by_system in rates.items()]
    return {
        "workload": workload,
        "at": at,
        "machine": {"processor": "Chip", "cores": 2, "memory_gb": 8, "system": "Linux"},
        "versions": {"pgsluice": "0.1.0", "PGMQ": "1.13.0"},
        "server": {"server_version": "18.4", "synchronous_commit": commit},
        "unit": WORKLOADS[workload].UNIT,
        "results": with_goals(results, WORKLOADS[workload].GOALS),
    }


def shown_of(report):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table({"rows": list(rows([report], WORKLOADS))}))
    return console.export_text()


def test_each_line_of_the_table_is_a_question_with_a_goal():
    for line in LINES:
        workload = WORKLOADS[line.workload]
        assert line.question in [question.name for question in workload.QUESTIONS]
        # Without a peer of the workers there is no goal relative to it.
        if line.workload not in ("worker_noop", "worker_latency") or len(worker_noop.SYSTEMS) == 6:
            assert line.question in workload.GOALS


def test_sizes_of_the_table_are_options_of_their_workloads():
    for name, sizes in SIZES.items():
        assert sizes.keys() <= WORKLOADS[name].OPTIONS.keys()


def test_the_table_shows_the_figures_before_and_now_and_a_reached_goal():
    rates = {"send(1)": {"pgsluice": [120.0, 110.0, 90.0], "PGMQ": [100.0, 100.0, 100.0]}}

    shown = shown_of(report("send_read", rates, commit="off"))

    assert "work queue, to PGMQ" in shown
    for text in (
        "send(1), 1 client, off",
        "0.99",
        "1.10",
        "0.90 to 1.20",
        "1 of the peer",
        "reached",
    ):
        assert text in shown
    assert "missed" not in shown


def test_the_table_gives_the_reason_of_a_missed_goal():
    rates = {"read(1) + delete(1), on": {"pgsluice": [120.0], "PGMQ": [100.0]}}

    shown = " ".join(shown_of(report("send_read", rates)).split())

    assert "1.20" in shown
    why = WORKLOADS["send_read"].GOALS["read(1) + delete(1), on"].why_missed
    assert f"missed: {why}" in shown


def test_a_latency_is_shown_in_milliseconds_and_compared_for_the_named_system():
    name = "p99 sent to done, share group"
    rates = {name: {"work queue": [1000.0], "share group": [1000 / 7.5], "awa": [1.0]}}

    shown = shown_of(report("worker_noop", rates))

    assert "7.5 ms" in shown
    assert "at most 8 ms" in shown
    assert "reached" in shown


def test_a_goal_in_milliseconds_is_missed_above_it():
    goal = Goal.at_most_ms(8)

    assert goal.reached("q", {"q": {"ours": 1000 / 7.9}})
    assert not goal.reached("q", {"q": {"ours": 1000 / 8.1}})


def test_a_goal_relative_to_another_question_compares_the_named_system():
    goal = Goal(2.0, of="small", ours="b")
    medians = {"small": {"a": 1.0, "b": 10.0}, "large": {"a": 100.0, "b": 15.0}}

    assert goal.ratio("large", medians) == 1.5


def test_the_page_draws_the_newest_result_of_each_question(tmp_path):
    old = {
        "send(1)": {"pgsluice": [111.0], "PGMQ": [100.0]},
        "pop(1)": {"pgsluice": [555.0], "PGMQ": [5.0]},
    }
    new = {"send(1)": {"pgsluice": [222.0], "PGMQ": [100.0]}}
    (tmp_path / "a.json").write_text(json.dumps(report("send_read", old)))
    goals = {
        "workload": "goals",
        "reports": [report("send_read", new, "2026-01-03T00:00:00+00:00")],
    }
    (tmp_path / "b.json").write_text(json.dumps(goals))

    svg = page.page(tmp_path)

    for text in (
        "work queue: send(1)",
        ">222<",
        ">555<",
        "2026-01-02",
        "2026-01-03",
        "PGMQ 1.13.0",
    ):
        assert text in svg
    assert ">111<" not in svg
    assert "prefers-color-scheme: dark" in svg
    assert "PgQue, River and Oban" in svg


def test_the_page_in_the_repository_shows_the_newest_results():
    """Renew it with: python -m bench.page."""
    svg = page.PAGE.read_text(encoding="utf-8")

    for panel in page.panels_of(page.newest(RESULTS)):
        assert f"{panel[0].row}: {panel[0].line.call}<" in svg
        assert panel[0].report["at"][:10] in svg
        for _, each, system in page.bars(panel):
            assert each is None or f">{page.number(each.bar(system)[0])}<" in svg
