"""Measure the questions of a workload on all its systems, interleaved."""

from __future__ import annotations

import os
import platform
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
from rich.progress import track

from bench.goal import PEER, Goal
from bench.place import Place
from bench.systems import systems
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import ConfigurationError

SETTINGS = ("server_version", "synchronous_commit", "fsync", "shared_buffers", "wal_level")

# Question → system → messages a second, one per repetition.
Rates = dict[str, dict[str, list[float]]]


def run(
    name: str,
    workload: Any,
    repeats: int | None,
    synchronous_commit: str,
    is_wanted: Callable[[str], bool] = lambda _question: True,
    save: Callable[[dict[str, Any]], object] = lambda _report: None,
) -> dict[str, Any]:
    """Measure questions of a workload on all its systems, interleaved.

    Args:
        name: Name of the workload.
        workload: Its module.
        repeats: Measurements per question after one warm-up, 1 or more; None for the workload's own number.
        synchronous_commit: Setting of the server.
        is_wanted: True for the names of the questions to measure.
        save: Called with the contents of the result file so far after each measurement.

    Returns:
        Contents of the result file.
    """
    load_before, begin = os.getloadavg(), time.monotonic()
    contestants = getattr(workload, "SYSTEMS", None) or systems()
    repeats = repeats or getattr(workload, "REPEATS", 5)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgsluice-bench-")))
        folder.chmod(0o755)  # as root, the server runs as another user, which needs access
        server = EmbeddedServer(
            folder / "data",
            options={
                "synchronous_commit": synchronous_commit,
                **getattr(workload, "SERVER_OPTIONS", {}),
            },
            bin_dir=getattr(workload, "BIN_DIR", None),
            tcp=getattr(workload, "TCP", False),
        )
        server.start()
        stack.callback(server.stop, "immediate")
        places: dict[str, Place] = {}
        rates: Rates = {}

        def save_report() -> None:
            save(_report(name, workload, contestants, rates, connection, load_before, begin))

        for number, system in enumerate(contestants):
            with psycopg.connect(server.url(), autocommit=True) as connection:
                connection.execute(f"create database bench_{number}")
            connection = psycopg.connect(server.url(f"bench_{number}"), autocommit=True)
            places[system.name] = Place(
                system.name, stack.enter_context(connection), server, save_report, places
            )
            system.install(connection)
        measured(places, workload, repeats, rates, is_wanted, save_report)
        return _report(name, workload, contestants, rates, connection, load_before, begin)


def _report(
    name: str,
    workload: Any,
    contestants: Sequence[Any],
    rates: Rates,
    connection: psycopg.Connection[Any],
    load_before: tuple[float, float, float],
    begin: float,
) -> dict[str, Any]:
    """Return the contents of the result file; questions that are not measured yet are missing."""
    details = getattr(workload, "DETAILS", None)
    return {
        "workload": name,
        "command": shlex.join([Path(sys.executable).name, "-m", "bench", *sys.argv[1:]]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(time.monotonic() - begin),
        "machine": {**machine(), "load_before": load_before, "load_after": os.getloadavg()},
        "versions": {
            **{system.name: system.version() for system in contestants},
            "psycopg": version("psycopg"),
            "python": platform.python_version(),
        },
        "server": described_server(connection),
        "options": dict(getattr(workload, "OPTIONS", {})),
        "unit": workload.UNIT,
        "notes": list(getattr(workload, "NOTES", [])),
        **({} if details is None else {"details": details}),
        "results": with_goals(
            [
                summary(question, by_system)
                for question, by_system in rates.items()
                if all(by_system.values())
            ],
            workload.GOALS,
        ),
    }


def measured(
    places: dict[str, Place],
    workload: Any,
    repeats: int,
    rates: Rates,
    is_wanted: Callable[[str], bool],
    save: Callable[[], None],
) -> None:
    """Measure into `rates`, interleaved, and rotate the first system, so that drift affects all systems."""
    names = list(places)
    questions = [question for question in workload.QUESTIONS if is_wanted(question.name)]
    if not questions:
        raise ConfigurationError(
            "no question has this text in its name; choose from: "
            + "; ".join(question.name for question in workload.QUESTIONS)
        )
    rates.update({question.name: {name: [] for name in names} for question in questions})
    warm_ups = int(getattr(workload, "WARM_UP", True))
    for repetition in track(range(repeats + warm_ups), "measuring"):
        for question in questions:
            if repetition > warm_ups and getattr(question, "is_once", False):
                continue
            first = repetition % len(names)
            for name in names[first:] + names[:first]:
                rate = workload.measure(places[name], question)
                if repetition >= warm_ups:  # the first only warms up caches and plans
                    rates[question.name][name].append(rate)
                    save()


def summary(question: str, by_system: dict[str, list[float]]) -> dict[str, Any]:
    """Return medians, all measurements, and the ratios of our rate to the peers'."""
    medians = {name: statistics.median(rates) for name, rates in by_system.items()}
    ours, *peers = medians
    return {
        "question": question,
        "median": {name: round(median, 3) for name, median in medians.items()},
        "all": {name: [round(rate, 3) for rate in rates] for name, rates in by_system.items()},
        "ratio": {peer: round(medians[ours] / medians[peer], 3) for peer in peers},
    }


def with_goals(results: list[dict[str, Any]], goals: dict[str, Goal]) -> list[dict[str, Any]]:
    """Add goals to the results, and whether they were reached."""
    medians = {result["question"]: result["median"] for result in results}
    for result in results:
        goal = goals.get(result["question"])
        if goal is not None and goal.of in (None, PEER, *medians):
            reached = goal.reached(result["question"], medians)
            result["goal"] = str(goal)
            to_goal = goal.ratio(result["question"], medians)
            result["to_goal"] = round(to_goal, 3)
            result["shown"] = goal.shown(to_goal)
            result["reached"] = reached or f"missed: {goal.why_missed or 'no reason known'}"
    return results


def described_server(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Return the settings of a server that a result records."""
    return dict(
        connection.execute(
            "select name, current_setting(name) from pg_settings where name = any (%s)",
            [list(SETTINGS)],
        ).fetchall()
    )


def machine() -> dict[str, Any]:
    """Describe the machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        model = next(
            (s.partition(":")[2].strip() for s in lines if s.startswith("model name")), model
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
    }
