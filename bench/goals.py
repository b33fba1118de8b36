"""The table of goals of speed: its questions, their workloads, and their figures before.

The goals themselves, and the reasons for missed ones, are those of the workloads.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from bench.goal import PEER, Goal
from bench.measuring import machine, run
from pgsluice.errors import ConfigurationError

# Sizes that keep the run below half an hour on two cores.
SIZES = {
    "worker_noop": {"noop_messages": 60_000, "steady_messages": 1_000},
    "worker_latency": {"idle_messages": 120, "idle_per_s": 20},
    "log_horizon": {"horizon_phase_s": 30},
}


class Line(NamedTuple):
    """A question of the table.

    Attributes:
        workload: Name of its workload.
        question: Its name there.
        call: What is measured.
        setting: Further conditions; "off" and "on" are those of synchronous_commit.
        before: Value before the work on speed of 2026-11-24; empty if it was not measured.
        synchronous_commit: Setting of the server. Sessions of share groups set their own.
    """

    workload: str
    question: str
    call: str
    setting: str = ""
    before: str = ""
    synchronous_commit: str = "on"

    @property
    def label(self) -> str:
        """Its name in the table."""
        return f"{self.call}, {self.setting}" if self.setting else self.call


def _clients(clients: int) -> str:
    return f"{clients} client" + "s" * (clients > 1)


def _send_read(call: str, before: str) -> Iterator[Line]:
    for clients in (1, 2, 8):
        question = call if clients == 1 else f"{call}, {_clients(clients)}"
        for commit in ("off",) if clients == 2 else ("off", "on"):
            setting = f"{_clients(clients)}, {commit}"
            is_before = clients == 1 and commit == "off"
            yield Line("send_read", question, call, setting, before if is_before else "", commit)


def _read_flushed() -> Iterator[Line]:
    call = "read(1) + delete(1)"
    for clients in (1, 2, 8):
        named = call if clients == 1 else f"{call}, {_clients(clients)}"
        yield Line("send_read", f"{named}, on", call, f"{_clients(clients)}, on", "", "on")


def _share_claim(qty: int, before: dict[str, str]) -> Iterator[Line]:
    call = f"claim({qty}) + acknowledge"
    for clients in (1, 2, 8):
        named = "" if clients == 2 else f", {_clients(clients)}"
        for commit in ("off", "on"):
            question = f"{call}, {commit}, pgbench{named}"
            setting = f"{_clients(clients)}, {commit}"
            yield Line(
                "share_claim", question, call, setting, before[commit] if clients == 2 else ""
            )


ROWS: dict[str, tuple[Line, ...]] = {
    "share group, to PGMQ": (
        *_share_claim(100, {"off": "3.9 to 4.9", "on": "3.0 to 4.2"}),
        *_share_claim(10, {"off": "", "on": ""}),
        *_share_claim(1, {"off": "0.54", "on": "1.67"}),
        Line(
            "share_claim", "claim(1) + acknowledge, off, psycopg",
            "claim(1) + acknowledge, psycopg", "2 clients, off", "1.26",
        ),
    ),
    "event log, one event per transaction": (
        Line(
            "share_send", "insert_event to a prepared INSERT, off",
            "insert_event to a prepared INSERT", "off", "0.46",
        ),
        Line(
            "share_send", "insert_event to a prepared INSERT, on",
            "insert_event to a prepared INSERT", "on", "0.42",
        ),
        Line(
            "log_produce", "insert_event, one row a transaction",
            "insert_event to PgQ in C", "", "0.60", "off",
        ),
    ),
    "captured table, CPU": (
        Line("log_capture", "update of a row, captured", "update of one row", "captured, to one without", "", "off"),
        Line(
            "log_capture", "update of a row, captured, to the peer",
            "update of one row", "captured, to PgQ in C", "", "off",
        ),
    ),
    "work queue, to PGMQ": (
        *_send_read("send(1)", "0.99"),
        *_send_read("send_batch(100)", "0.84 to 0.94"),
        Line("send_read", "send_batch(10,000)", "send_batch(10,000)", "1 client, off", "0.96", "off"),
        Line("send_read", "send_batch(10,000)", "send_batch(10,000)", "1 client, on"),
        *(line for line in _send_read("read(1) + delete(1)", "1.33") if line.synchronous_commit == "off"),
        *_read_flushed(),
        *_send_read("read(100) + delete(100)", "1.19 to 1.35"),
        *_send_read("pop(1)", "1.40"),
    ),
    "event log, to PgQ in C, CPU": (
        Line(
            "log_consume", "next_batch + get_batch_events + finish_batch, empty batch",
            "batch without events", "", "1.26", "off",
        ),
        Line(
            "log_consume", "event of a batch of 10,000, get_batch_events",
            "event of a batch of 10,000", "SQL", "1.24", "off",
        ),
        Line(
            "log_consume", "event of a batch of 10,000, to the client",
            "event of a batch of 10,000", "client", "1.07 to 1.9", "off",
        ),
    ),
    "event log, 1,000 idle logs, to PgQ in C, CPU": (
        Line("log_idle", "pgq.ticker(), all pages", "pass of pgq.ticker()", "", "0.3 to 0.5", "off"),
        Line(
            "log_idle", "sluice.tick(), all pages, to the peer's pgq.ticker()",
            "pass of sluice.tick()", "", "0.3 to 0.5", "off",
        ),
        Line("log_idle", "pgq.get_queue_info()", "get_queue_info()", "", "0.3 to 0.5", "off"),
    ),
    "event log, page of a batch, CPU": (
        Line(
            "log_page", "first page by get_batch_cursor of 1,000,000",
            "first page by get_batch_cursor", "of 1,000,000", "", "off",
        ),
        Line("log_page", "page in the middle of 1,000,000", "page in the middle", "of 1,000,000", "", "off"),
    ),
    "share group, after a late transaction": (
        Line("share_backlog", "claim(100), late", "claim(100)", "600,000 newer messages"),
    ),
    "work queue, right after 300,000 messages were read": (
        Line("read_invisible", "read(1), just read in front", "read(1)", "to a short queue"),
        Line(
            "read_invisible", "read(1), just read in front, snapshot held",
            "read(1)", "snapshot held, to a short queue",
        ),
    ),
    "work queue, groups without create_fifo_index": (
        *(
            Line("groups_first", f"{reader}(100), 100,000 messages", f"{reader}(100)", "100,000 messages")
            for reader in ("read_grouped", "read_grouped_rr", "read_grouped_head")
        ),
        Line(
            "groups_first", "read_grouped(100), 1,000,000 messages",
            "read_grouped(100)", "1,000,000 messages", "up to 8 s",
        ),
    ),
    "work queue, latency": (
        Line("settle_one", "archive_claimed of 1", "archive_claimed of 1", "", "0.9 ms"),
    ),
    "worker latency": (
        Line("worker_latency", "p50 sent to started", "sent to started, waiting", "p50", "5.5 ms"),
        Line("worker_latency", "p99 sent to started", "sent to started, waiting", "p99", "20 ms"),
        Line(
            "worker_latency", "p50 sent to started, to the loop",
            "sent to started, waiting", "p50, to a loop written by hand",
        ),
        Line(
            "worker_latency", "p99 sent to started, to the loop",
            "sent to started, waiting", "p99, to a loop written by hand",
        ),
        Line("worker_latency", "p50 sent to started, to pgqueuer", "sent to started, waiting", "p50, to pgqueuer"),
        Line("worker_latency", "p99 sent to started, to pgqueuer", "sent to started, waiting", "p99, to pgqueuer"),
        Line(
            "worker_latency", "p50 sent to started, share group",
            "share group, sent to started", "p50, to a loop written by hand",
        ),
        Line(
            "worker_latency", "p99 sent to started, share group",
            "share group, sent to started", "p99, to a loop written by hand",
        ),
        Line("worker_noop", "p50 sent to done", "sent to done at 200/s", "p50", "3.9 ms"),
        Line("worker_noop", "p99 sent to done", "sent to done at 200/s", "p99", "8.5 ms"),
        Line(
            "worker_noop", "p50 sent to done, share group",
            "share group, sent to done at 200/s", "p50", "6.8 ms",
        ),
        Line(
            "worker_noop", "p99 sent to done, share group",
            "share group, sent to done at 200/s", "p99", "17 ms",
        ),
    ),
    "start": (
        Line("start_up", "pgsluice --help", "pgsluice --help", "to a Python that imports psycopg", "0.91"),
        Line("start_up", "pgsluice status", "pgsluice status", "to one that connects", "0.43"),
        Line(
            "start_up", "worker, from start to first message",
            "worker, from start to first message", "to one that claims",
        ),
    ),
    "event log, snapshot held": (
        *(
            Line(
                "log_horizon", f"batches a second of CPU, {phase}",
                "batches a second of CPU", f"{phase}, to before", "", "off",
            )
            for phase in ("held", "released")
        ),
    ),
    "no-op worker": (
        Line("worker_noop", "completed a second", "completed messages", "to pgqueuer", "4.2"),
        Line("worker_noop", "the same, compared with awa", "completed messages", "to awa", "10"),
        Line(
            "worker_noop", "the same, compared with procrastinate",
            "completed messages", "to procrastinate", "44",
        ),
    ),
}  # fmt: skip


def set_sizes(workloads: Mapping[str, Any]) -> None:
    """Set the sizes of the workloads for this table."""
    for name, sizes in SIZES.items():
        workloads[name].OPTIONS.update(sizes)


def measure(workloads: Mapping[str, Any], repeats: int, having: str = "") -> dict[str, Any]:
    """Measure the questions of the table.

    Args:
        workloads: Modules by name.
        repeats: Measurements per question.
        having: Text in the names of the rows, or in the names of the questions, to measure.

    Returns:
        Contents of the result file: the reports of the workloads, and the rows of the table.
    """
    load_before = os.getloadavg()
    lines = [
        line
        for row, of_row in ROWS.items()
        for line in of_row
        if having in row or having in line.label
    ]
    if not lines:
        raise ConfigurationError(
            f"no row has {having!r} in its name; choose from: {'; '.join(ROWS)}"
        )
    reports = []
    for name, commit in dict.fromkeys((line.workload, line.synchronous_commit) for line in lines):
        workload = workloads[name]
        wanted = {
            question
            for line in lines
            if (line.workload, line.synchronous_commit) == (name, commit)
            for question in (line.question, compared_with(workload, line.question))
        }
        reports.append(run(name, workload, repeats, commit, wanted.__contains__))
    return {
        "workload": "goals",
        "command": shlex.join([Path(sys.executable).name, "-m", "bench", *sys.argv[1:]]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {**machine(), "load_before": load_before, "load_after": os.getloadavg()},
        "rows": list(rows(reports, workloads)),
        "reports": reports,
    }


def rows(
    reports: list[dict[str, Any]], workloads: Mapping[str, Any]
) -> Iterator[dict[str, str | bool]]:
    """Yield the rows of the table: those that were measured."""
    measured = {
        (report["workload"], report["server"]["synchronous_commit"], result["question"]): result
        for report in reports
        for result in report["results"]
    }
    for row, lines in ROWS.items():
        for line in lines:
            result = measured.get((line.workload, line.synchronous_commit, line.question))
            if result is None:
                continue
            goal = workloads[line.workload].GOALS.get(line.question)
            if goal is None or "reached" not in result:
                print(f"skipped: {line.label}: its peer is not installed")
                continue
            lowest, highest = _range(goal, line, measured)
            yield {
                "row": row,
                "question": line.label,
                "before": line.before,
                "now": result["shown"],
                "range": f"{goal.shown(lowest)} to {goal.shown(highest)}",
                "goal": result["goal"],
                "reached": result["reached"],
            }


def table(report: dict[str, Any]) -> Table:
    """Format the table."""
    shown = Table(title="Goals of speed", title_justify="left")
    shown.add_column("question; off: of synchronous_commit", min_width=24)
    shown.add_column("before", justify="right", min_width=6)
    shown.add_column("now (range)", justify="right", min_width=12)
    shown.add_column("goal", min_width=10)
    shown.add_column("result")
    row = ""
    for each in report["rows"]:
        if each["row"] != row:
            row = each["row"]
            shown.add_section()
            shown.add_row(f"[bold]{row}")
        result = "[green]reached" if each["reached"] is True else f"[red]{each['reached']}"
        now = f"[bold]{each['now']}[/bold]\n[dim]{each['range']}"
        shown.add_row(each["question"], each["before"] or "-", now, each["goal"], result)
    return shown


def compared_with(workload: Any, question: str) -> str:
    """Return the question that the goal of a question is relative to, or the question itself."""
    goal = workload.GOALS.get(question)
    return question if goal is None or goal.of in (None, PEER) else str(goal.of)


def _range(
    goal: Goal, line: Line, measured: Mapping[tuple[str, str, str], dict[str, Any]]
) -> tuple[float, float]:
    """Return the lowest and the highest value of a round."""
    of_round = []
    for number in range(len(next(iter(_all(measured, line, line.question).values())))):
        rates = {
            question: {
                system: values[number] for system, values in _all(measured, line, question).items()
            }
            for question in {line.question, goal.of or PEER} - {PEER}
        }
        of_round.append(goal.ratio(line.question, rates))
    return min(of_round), max(of_round)


def _all(
    measured: Mapping[tuple[str, str, str], dict[str, Any]], line: Line, question: str
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = measured[line.workload, line.synchronous_commit, question][
        "all"
    ]
    return found
