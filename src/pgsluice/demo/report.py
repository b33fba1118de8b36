"""The report: one self-contained HTML file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from pgsluice.demo import plots
from pgsluice.demo.measure import Latency
from pgsluice.demo.reconcile import Reconciliation
from pgsluice.demo.result import Result
from pgsluice.report import fill, write_whole

_COLOURS = (plots.DATABASE_COLOUR, plots.WORKER_COLOUR, plots.LAKE_COLOUR)


def write_report(result: Result) -> None:
    """Write `result.report` atomically."""
    write_whole(result.report, render(result))


def render(result: Result) -> str:
    """Return the report as HTML, with all values escaped."""
    series = result.series
    committed, worker, lake = _COLOURS
    return fill(
        "pgsluice.demo",
        "report.html",
        title="Reconciled" if result.reconciled else "Not reconciled",
        verdict="holds" if result.reconciled else "differs",
        summary=escape(_summary(result)),
        facts=_facts(result),
        figures=_figures(result),
        rates=plots.rates_plot(
            series.step_s,
            (
                ("transactions committed", committed, series.committed_per_s),
                ("messages processed", worker, series.processed_per_s),
                ("changes into the lake", lake, series.lake_per_s),
            ),
        ),
        outstanding=plots.outstanding_plot(
            series.step_s,
            (
                ("messages in the queue", worker, series.queued),
                ("changes not yet in the lake", lake, series.not_in_lake),
            ),
        ),
        latencies="".join(
            _latency(latency, colour)
            for latency, colour in zip(result.latencies, _COLOURS, strict=True)
        ),
        latency_rows="".join(map(_latency_row, result.latencies)),
        checks="".join(map(_check_row, result.checks)),
        differences="".join(_difference(check) for check in result.checks if not check.holds),
        steps=_table_rows((name, f"{seconds:.1f} s") for name, seconds in result.steps_s.items()),
    )


def _summary(result: Result) -> str:
    counts = result.counts
    if not result.reconciled:
        failed = sum(not check.holds for check in result.checks)
        return f"{failed} of {len(result.checks)} checks found a difference."
    return (
        f"{counts['transactions']:,} transactions, {counts['messages_sent']:,} messages and "
        f"{counts['events']:,} change events: nothing lost, nothing duplicated, and the lake alone gives "
        f"the balance of each of {counts['accounts']:,} accounts."
    )


def _facts(result: Result) -> str:
    facts = {
        "server": result.server,
        "load": f"{result.clients} clients for {result.seconds} s",
        "workers": f"{result.workers}",
        "interruptions": f"{result.interruptions}",
        "run": result.run_id,
    }
    return "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())


def _figures(result: Result) -> str:
    counts, rates = result.counts, result.rates_per_s
    tiles = (
        ("transactions", counts["transactions"], f"{rates['transactions']:,.0f} per second"),
        ("messages processed", counts["processed"], f"{rates['processed']:,.0f} per second"),
        ("retried", counts["retried"], "failed as planned, then processed"),
        ("dead letters", counts["dead"], "the poison message"),
        ("events in the lake", counts["lake_rows"], f"{counts['lake_commits']:,} commits"),
    )
    return "".join(
        f'<div class="tile"><b>{value:,}</b><span>{escape(name)}</span>'
        f"<small>{escape(text)}</small></div>"
        for name, value, text in tiles
    )


def _latency(latency: Latency, colour: str) -> str:
    return (
        f"<figure><figcaption>{escape(latency.name)}</figcaption>"
        f"{plots.latency_plot(latency, colour)}</figure>"
    )


def _latency_row(latency: Latency) -> str:
    figures = (latency.p50_s, latency.p95_s, latency.p99_s, latency.max_s)
    cells = "".join(f'<td class="n">{escape(plots.duration(value))}</td>' for value in figures)
    return f'<tr><td>{escape(latency.name)}</td><td class="n">{latency.count:,}</td>{cells}</tr>'


def _check_row(check: Reconciliation) -> str:
    mark = '<td class="ok">✓</td>' if check.holds else '<td class="no">✗</td>'
    numbers = (check.expected, check.found, check.differing)
    cells = "".join(f'<td class="n">{number:,}</td>' for number in numbers)
    return f"<tr>{mark}<td>{escape(check.statement)}</td>{cells}</tr>"


def _difference(check: Reconciliation) -> str:
    return (
        f'<section class="difference"><h3>{escape(check.statement)}</h3>'
        f"<p>{check.differing:,} rows differ; the first:</p>{_sample(check.sample)}</section>"
        if check.sample
        else f'<section class="difference"><h3>{escape(check.statement)}</h3>'
        f"<p>Expected {check.expected:,}, found {check.found:,}.</p></section>"
    )


def _sample(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(rows[0])
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{escape(json.dumps(row.get(name)))}</td>" for name in names)
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _table_rows(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{escape(value)}</td></tr>'
        for name, value in rows
    )
