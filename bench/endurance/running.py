"""One invocation of `bench --workload endurance`: continue a run for one slice, and write its result."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.endurance import parts
from bench.endurance.parts import OPTIONS, Part
from bench.endurance.sampling import Sample, read_samples
from bench.endurance.slices import Slice, set_up
from bench.endurance.verdict import (
    Finding,
    judge,
    latencies,
    memory_read_ns,
    percentile,
    rates,
)
from bench.measuring import described_server, machine
from pgsluice.connection import connect
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import ConfigurationError

POINTS = 400  # of a series in the result file


class Run:
    """A part in its folder: the data of its server, its sizes, samples and reports of slices."""

    def __init__(self, folder: Path, part: Part) -> None:
        """Use a folder; the first slice creates it."""
        self.folder, self.part = folder / part.name, part
        self._state = self.folder / "state.json"
        self._samples = self.folder / "samples.jsonl"

    @property
    def state(self) -> dict[str, Any]:
        """Sizes and reports of the slices; empty before the first."""
        return (
            dict(json.loads(self._state.read_text(encoding="utf-8")))
            if self._state.exists()
            else {}
        )

    @property
    def samples(self) -> list[Sample]:
        """Samples of all slices."""
        return read_samples(self._samples)

    @property
    def done(self) -> int:
        """Messages that were sent and done at the end of the last slice."""
        return sum(each["sent"] for each in self.state.get("slices", []))

    @property
    def is_finished(self) -> bool:
        """True if the target was reached."""
        return bool(self.state) and self.done >= OPTIONS[self.part.target]

    def run_slice(self) -> None:
        """Run the next slice; the sizes of the first apply, except for its length and the number of messages.

        Raises:
            ConfigurationError: A size differs from that of the first slice.
            SluiceError: The slice failed; the next invocation repeats it from what the database has.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)  # as root, the server runs as another user, which needs access
        sizes = parts.sizes(OPTIONS)
        state = self.state or {"sizes": sizes, "slices": [], "started": now()}
        state["sizes"][self.part.target] = sizes[self.part.target]
        if state["sizes"] != sizes:
            raise ConfigurationError(
                f"the run in {self.folder} has other sizes: {state['sizes']}; pass them with --option, or use "
                "another --folder"
            )
        server = EmbeddedServer(
            self.folder / "data", options={"autovacuum_naptime": f"{OPTIONS['naptime_seconds']}s"}
        )
        is_new = not self._state.exists()
        if is_new:  # what an interrupted set-up left
            server.stop("immediate")
            shutil.rmtree(server.data, ignore_errors=True)
        server.start()
        try:
            if is_new:
                set_up(server, self.part, OPTIONS)
                self._write(state)
            with connect(server.url()) as connection:
                state["server"] = described_server(connection)
            samples = self.samples
            current = Slice(self.folder, server, self.part, OPTIONS)
            number = samples[-1].slice + 1 if samples else 1
            current.run(number, samples[-1].at_s if samples else 0.0, self._samples)
        finally:
            server.stop()
        state["slices"].append(
            current.report
            | {"at": now(), "load": os.getloadavg(), "sent": self._sent(state, current)}
        )
        self._write(state)

    def _sent(self, state: dict[str, Any], current: Slice) -> int:
        """Return the messages of a slice, with those of a slice before it that was killed."""
        total = int(current.report["accounts"][parts.SENT])
        return total - sum(each["sent"] for each in state["slices"])

    def _write(self, state: dict[str, Any]) -> None:
        new = self._state.with_suffix(".new")
        new.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
        new.rename(self._state)

    def report(self) -> dict[str, Any]:
        """Return the contents of the result file."""
        state, samples = self.state, self.samples
        return {
            "workload": f"endurance-{self.part.name}",
            "title": self.part.title,
            "command": shlex.join([Path(sys.executable).name, "-m", "bench", *sys.argv[1:]]),
            "at": now(),
            "machine": {**machine(), "load_after": os.getloadavg()},
            "server": state.get("server", {}),
            "options": state["sizes"] | {"slice_seconds": OPTIONS["slice_seconds"]},
            "done": self.done,
            "is_finished": self.is_finished,
            "slices": state["slices"],
            "findings": [
                finding.as_json() for finding in judge(samples, self.part, state["sizes"])
            ],
            "memory_read_ns": memory_read_ns(samples),
            "series": series(samples),
            "results": [],  # no questions with rates, which `bench.page` draws
        }


def run(folder: Path, question: str, console: Console) -> dict[str, Any]:
    """Run one slice of the first chosen part that is not finished; print its findings.

    Args:
        folder: Folder of the run.
        question: Text in the names of the parts; empty: all.
        console: For the output.

    Returns:
        Contents of the result file.
    """
    runs = [Run(folder.absolute(), part) for part in parts.chosen(question)]
    current = next((each for each in runs if not each.is_finished), runs[-1])
    if not current.is_finished:
        current.run_slice()
    report = current.report()
    console.print(table(report))
    console.print(
        "random read of memory, first and last tenth: "
        + ", ".join(figure(ns) + " ns" for ns in report["memory_read_ns"])
    )
    target = report["options"][current.part.target]
    console.print(
        f"{current.part.name}: {current.done:,} of {target:,} messages in {len(report['slices'])} slices"
    )
    if any(not each.is_finished for each in runs):
        console.print(f"continue with: {report['command']}", markup=False, soft_wrap=True)
    return report


def table(report: dict[str, Any]) -> Table:
    """Format the findings as a table."""
    shown = Table(title=f"Endurance: {report['title']}", title_justify="left")
    for name in ("question", "first", "last", "goal", ""):
        shown.add_column(name, justify="right" if name in ("first", "last") else "left")
    for each in report["findings"]:
        finding = Finding(**each)
        outcome = {True: "reached", False: "[red]missed", None: "too little to tell"}[
            finding.reached
        ]
        shown.add_row(
            finding.question, figure(finding.first), figure(finding.last), finding.goal, outcome
        )
    return shown


def figure(value: float | None) -> str:
    """Format a figure of the table."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"


def series(samples: list[Sample]) -> dict[str, list[Any]]:
    """Return the series for the plots: medians or sums of adjacent samples, at most `POINTS` points."""
    step = max(len(samples) // POINTS, 1)
    by_sample = {id(sample): rate for sample, rate in rates(samples)}
    groups = [samples[first : first + step] for first in range(0, len(samples), step)]
    found: dict[str, list[Any]] = {
        "hours": [round(group[-1].at_s / 3600, 4) for group in groups],
        "done": [group[-1].done for group in groups],
        "per_s": [
            mean([by_sample[id(s)] for s in group if id(s) in by_sample]) for group in groups
        ],
        "held": [any("held" in s.flags for s in group) for group in groups],
        "disk_mb": [round(sum(group[-1].disk.values())) for group in groups],
        "wal_mb": [round(group[-1].disk.get("pg_wal", 0)) for group in groups],
        "xid_age": [group[-1].facts.get("xid_age") for group in groups],
        "cpu_us": [cpu_us(group) for group in groups],
        "memory_read_ns": [
            mean([s.memory_read_ns for s in group if s.memory_read_ns]) for group in groups
        ],
    }
    for kind in ("claim", "tick"):
        found[f"{kind}_p99_ms"] = [percentile(latencies(group, kind), 99) for group in groups]
    for name in sorted({name for sample in samples for name in sample.memory}):
        found[f"memory_mb {name}"] = [group[-1].memory.get(name) for group in groups]
    return found


def cpu_us(group: list[Sample]) -> float | None:
    """Return the microseconds of CPU time of all processes per message; None of one sample or after a restart."""
    spent = [sample.cpu_s for sample in group[1:]]
    done = group[-1].done - group[0].done
    if not spent or None in spent or done <= 0:
        return None
    return round(sum(each for each in spent if each is not None) / done * 1e6, 2)


def mean(values: list[float]) -> float | None:
    """Return the mean rounded to whole numbers, or None."""
    return round(sum(values) / len(values)) if values else None


def now() -> str:
    """Return the time for the files."""
    return datetime.now(UTC).isoformat(timespec="seconds")
