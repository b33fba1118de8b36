"""Queue metrics without Spark: computation, gold tables and the HTML report."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="gold tables need the extra 'spark'")
pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pgsluice.errors import ConfigurationError
from pgsluice.pipelines.queue_metrics.figures import Attempts, Figures, Summary, combine
from pgsluice.pipelines.queue_metrics.gold import read_gold, write_gold

START = datetime(2026, 1, 31, 10, tzinfo=UTC)
AT = int(START.timestamp())


def ended(queue: str | None, at: int | None, done: int, dead: int = 0, **more: Any) -> dict:
    return {
        "queue": queue, "ended_in": at, "done": done, "dead": dead, "retried": 1, "retries": 2,
        "latency_us": [1_000_000, 2_000_000, 3_000_000], "latency_max_us": 4_000_000,
        "work_us": None, "first_us": 0, "last_us": 10_000_000,
    } | more  # fmt: skip


def test_the_backlog_of_a_window_is_what_was_sent_and_had_not_ended_when_it_closed():
    windows, totals = combine(
        [
            ended(None, None, 99),
            ended("q", None, 7, 1),
            ended("q", AT, 2),
            ended("q", AT + 180, 5, 1),
        ],
        [
            {"queue": "q", "sent_in": AT, "sent": 6},
            {"queue": "q", "sent_in": AT + 60, "sent": 5},
            {"queue": "new", "sent_in": AT, "sent": 3},
        ],
        window_s=60,
    )

    assert [(w.queue, w.window_start, w.sent, w.done, w.dead, w.backlog) for w in windows] == [
        ("new", START, 3, 0, 0, 3),
        ("q", START, 6, 2, 0, 4),
        ("q", START + timedelta(seconds=60), 5, 0, 0, 9),
        ("q", START + timedelta(seconds=180), 0, 5, 1, 3),
    ]
    assert [(t.queue, t.sent, t.done, t.backlog, t.done_per_s) for t in totals] == [
        ("new", 3, 0, 3, 0.0),
        ("q", 11, 7, 3, 0.7),
    ]
    assert (windows[1].done_per_s, windows[1].latency_p95_s, windows[1].work_p50_s) == (2 / 60, 2.0, None)  # fmt: skip
    assert (windows[2].latency_p50_s, windows[2].window_s) == (None, 60)


def figures(queue: str, minute: int, done: int) -> Figures:
    return Figures(queue, START + timedelta(minutes=minute), 60, done=done, latency_p50_s=0.5)


def summary(*windows: Figures) -> Summary:
    queues = sorted({window.queue for window in windows})
    return Summary(
        windows, [Figures(q, done=7) for q in queues], [Attempts(q, 1, 7, 0) for q in queues], 7
    )


def test_figures_are_replaced_per_queue_and_from_a_time_on(tmp_path: Path):
    write_gold(tmp_path, summary(figures("a", 0, 1), figures("b'c", 0, 1)), ["a", "b'c"], None)
    first = read_gold(tmp_path)
    write_gold(tmp_path, summary(figures("b'c", 0, 2), figures("b'c", 1, 3)), ["b'c"], None)
    write_gold(tmp_path, summary(figures("b'c", 1, 4)), ["b'c"], START + timedelta(minutes=1))

    gold = read_gold(tmp_path)

    assert [(w.queue, w.window_start, w.done, w.latency_p50_s) for w in gold.windows] == [
        ("a", START, 1, 0.5),
        ("b'c", START, 2, 0.5),
        ("b'c", START + timedelta(minutes=1), 4, 0.5),
    ]
    assert [total.queue for total in gold.totals] == ["a", "b'c"]
    assert gold.attempts == [Attempts("a", 1, 7, 0), Attempts("b'c", 1, 7, 0)]
    assert gold.measured_at > first.measured_at


def test_a_queue_whose_messages_are_all_gone_loses_its_figures(tmp_path: Path):
    write_gold(tmp_path, summary(figures("a", 0, 1)), ["a"], None)
    write_gold(tmp_path, summary(), ["a"], None)

    assert read_gold(tmp_path).windows == []


def test_without_figures_there_is_nothing_to_go_on_from(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="run the pipeline analytics without since first"):
        read_gold(tmp_path)


@pytest.mark.slow
def test_the_report_shows_each_queue_and_escapes_its_name(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="the report needs the extra 'report'")
    from pgsluice.pipelines.queue_metrics.page import write_report

    busy = [
        Figures(
            "<b>", START + timedelta(minutes=n), 60, sent=60 * n, done=30 * n, dead=n, backlog=9,
            latency_p50_s=0.0, latency_p95_s=0.1 * n, latency_p99_s=float(n),
        )
        for n in range(1, 6)
    ]  # fmt: skip
    idle = [Figures("idle", START, 60, sent=1, backlog=1)]
    write_gold(tmp_path, summary(*busy, *idle), ["<b>", "idle"], None)

    write_report(tmp_path, "report.html", read_gold(tmp_path))

    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (
        html.count("<svg") == 7
    )  # the idle queue has archived nothing and so has no plot of latencies
    assert "<h2>&lt;b&gt;</h2>" in html
    assert "<b>" not in html
    assert not re.search(r"""(src|href)=["']http""", html)
