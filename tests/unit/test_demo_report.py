"""The demo's HTML report and its JSON result."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the report needs the extra 'report'")

from pgsluice.demo import plots
from pgsluice.demo.measure import Latency
from pgsluice.demo.reconcile import CHECKS, Reconciliation
from pgsluice.demo.report import render, write_report
from pgsluice.demo.result import Result, Series

NASTY = "<script>alert('x')</script> & \"q\" $title ${rates}"


def a_result(folder: Path) -> Result:
    return Result(
        run_id="0123abcd",
        server="PostgreSQL 18.4, embedded server",
        seconds=4,
        clients=2,
        workers=3,
        interruptions=0,
        counts={
            "accounts": 100_000,
            "transactions": 1_234,
            "messages_sent": 1_235,
            "processed": 1_234,
            "retried": 25,
            "archived": 1_234,
            "dead": 1,
            "events": 101_235,
            "lake_rows": 101_235,
            "lake_updates": 1_234,
            "lake_commits": 4,
        },
        rates_per_s={"transactions": 308.5, "processed": 300.0, "lake": 290.1},
        latencies=(
            Latency.of("transaction", [0.002, 0.003, 0.004]),
            Latency.of("sent → processed", [0.0, 0.5, 12.0]),
            Latency.of("changed → in the lake", []),
        ),
        series=Series(1.0, [300, 310], [290, 320], [0, 610], [0, 10, 0], [0, 300, 0]),
        steps_s={"load": 4.0, "drain": 2.5},
        checks=[Reconciliation(name, words, 5, 5, 0, ()) for name, words in CHECKS.items()],
        report=folder / "report.html",
    )


def with_difference(result: Result) -> Result:
    sample = ({"aid": 17, "in_lake": NASTY, "in_database": None},)
    failed = replace(result.checks[0], found=4, differing=1, sample=sample)
    counted = replace(result.checks[1], found=7)
    return replace(result, checks=[failed, counted, *result.checks[2:]])


class _Page(HTMLParser):
    """Collect resources and scripts that a browser would load, the text, and unclosed elements."""

    VOID = ("meta", "br", "link", "img", "input")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "action") or name.startswith("on"):
                self.references.append(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
def test_the_report_is_whole_and_loads_nothing(tmp_path: Path):
    page = _Page(render(a_result(tmp_path)))

    assert page.open == []
    assert not page.tags & {"script", "img", "link", "iframe"}
    # Elements of an SVG refer to each other by fragment.
    assert all(reference.startswith("#") for reference in page.references)


@pytest.mark.slow
def test_the_report_shows_every_check_figure_and_plot(tmp_path: Path):
    result = a_result(tmp_path)
    html = render(result)
    text = _Page(html).text

    assert "Reconciled" in text
    assert html.count("<svg") == 5
    assert [check.statement for check in result.checks if check.statement not in text] == []
    assert "1,234" in text
    assert "12 s" in text


@pytest.mark.slow
def test_a_difference_is_in_the_report_with_its_rows_escaped(tmp_path: Path):
    html = render(with_difference(a_result(tmp_path)))
    page = _Page(html)

    assert "Not reconciled" in page.text
    assert "2 of 10 checks found a difference" in page.text
    assert "script" not in page.tags
    assert json.dumps(NASTY) in page.text
    assert "Expected 5, found 7" in page.text


@pytest.mark.slow
def test_the_report_is_replaced_whole(tmp_path: Path):
    result = a_result(tmp_path)
    write_report(result)
    write_report(with_difference(result))

    assert "Not reconciled" in result.report.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_json_is_plain_and_has_null_where_nothing_was_measured(tmp_path: Path):
    text = json.dumps(a_result(tmp_path).as_json(), allow_nan=False)
    again = json.loads(text)

    assert again["reconciled"] is True
    assert again["latencies_s"]["changed → in the lake"]["p99"] is None
    assert again["latencies_s"]["transaction"] == {
        "count": 3, "p50": 0.003, "p95": 0.004, "p99": 0.004, "max": 0.004,
    }  # fmt: skip


def test_one_difference_makes_the_whole_not_reconciled(tmp_path: Path):
    result = a_result(tmp_path)
    for position, check in enumerate(result.checks):
        for wrong in (replace(check, found=6), replace(check, differing=1)):
            checks = [*result.checks[:position], wrong, *result.checks[position + 1 :]]
            assert not replace(result, checks=checks).reconciled


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.00085, "850 µs"), (0.0032, "3.2 ms"), (1.454, "1.45 s"), (0.9999, "1 s"), (0, "0 µs"), (850, "850 s"), (4000, "4,000 s")],
)  # fmt: skip
def test_durations_have_a_unit(seconds: float, words: str):
    assert plots.duration(seconds) == words


def test_a_duration_that_was_not_measured_is_a_dash():
    assert plots.duration(math.nan) == "-"


def test_every_check_has_its_file_and_every_file_its_check():
    import pgsluice.demo

    folder = Path(pgsluice.demo.__file__).parent / "sql" / "checks"

    assert {path.stem for path in folder.glob("*.sql")} == set(CHECKS)
    assert all(re.search(r"as expected,.*as found,.*as differing,.*as sample", text, re.DOTALL)
               for text in (path.read_text() for path in folder.glob("*.sql")))  # fmt: skip
