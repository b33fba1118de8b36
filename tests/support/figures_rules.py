"""The alert rules for Prometheus over the metrics of many phases, evaluated by promtool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from support.figures_model import Truth, alerts_of
from support.metrics import Samples

PHASE_MIN = 40  # longer than the longest `for` of a rule but one, and than the windows of rates
LOOK_MIN = 5  # after the start of a phase: a rate sees the step
_ALIKE = {
    "PgsluiceNoMaintenance": "no maintenance",
    "PgsluiceMaintenanceFails": "maintenance fails",
    "PgsluiceQueueNotDrained": "queue not drained",
    "PgsluiceWorkerSilent": "worker silent",
    "PgsluiceConsumerLags": "consumer lags",
    "PgsluiceGroupLags": "group lags",
    "PgsluiceScheduleLate": "schedule late",
}


def check_rules(phases: Sequence[tuple[Truth, Samples]], folder: Path) -> None:
    """Let promtool evaluate the rules as if each phase had lasted, and compare the alerts that fire."""
    rules = files("pgsluice").joinpath("ops/metrics/alerts.yml").read_text(encoding="utf-8")
    (folder / "alerts.yml").write_text(rules, encoding="utf-8")
    names = sorted({name for _, samples in phases for name in samples}, key=str)
    test = {
        "interval": "1m",
        "input_series": [{"series": _series(name), "values": _values(name, phases)} for name in names],
        "promql_expr_test": [
            *(_expected(number, PHASE_MIN * (number + 1) - 1, _at_end(phases, number)) for number in range(len(phases))),
            *(_expected(n, PHASE_MIN * n + LOOK_MIN, _at_step(phases, n)) for n in range(1, len(phases))),
        ],
    }  # fmt: skip
    tests = {"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "tests.yml").write_text(json.dumps(tests), encoding="utf-8")  # JSON is YAML
    done = subprocess.run(
        ["promtool", "test", "rules", "tests.yml"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, f"alerts.yml: {done.stdout}{done.stderr}"


def _series(name: tuple[str, frozenset[tuple[str, str]]]) -> str:
    labels = {"job": "pgsluice", "instance": "db", **dict(name[1])}
    return (
        f"{name[0]}{{{', '.join(f'{key}={json.dumps(value)}' for key, value in labels.items())}}}"
    )


def _values(name: Any, phases: Sequence[tuple[Truth, Samples]]) -> str:
    held = [
        f"_x{PHASE_MIN}" if name not in samples else f"{samples[name]:f}+0x{PHASE_MIN - 1}"
        for _, samples in phases
    ]
    return " ".join(held)


def _at_end(phases: Sequence[tuple[Truth, Samples]], number: int) -> dict[str, bool | None]:
    """Return the alerts at the end of a phase, in which nothing was finished."""
    truth = phases[number][0]
    by_sql = alerts_of(truth)
    *_, (is_paused, last) = [
        (k, len(list(g))) for k, g in groupby(t.is_paused for t, _ in phases[: number + 1])
    ]
    return {name: by_sql[alike] for name, alike in _ALIKE.items()} | {
        "PgsluiceQueueStalled": truth.states["visible"] > 0,
        "PgsluiceQueuePaused": is_paused and last * PHASE_MIN > 60,
        "PgsluiceDeadLetters": False,
    }


def _at_step(phases: Sequence[tuple[Truth, Samples]], number: int) -> dict[str, bool | None]:
    """Return the alert for new dead letters, after the start of a phase; of the others some wait."""
    others = dict.fromkeys([*_ALIKE, "PgsluiceQueueStalled", "PgsluiceQueuePaused"])
    return {**others, "PgsluiceDeadLetters": phases[number][0].dead > phases[number - 1][0].dead}


def _expected(number: int, at_min: int, alerts: dict[str, bool | None]) -> dict[str, Any]:
    unsure = "|".join(name for name, is_so in alerts.items() if is_so is None) or "none"
    return {
        "expr": f'count by (alertname) (ALERTS{{alertstate="firing", alertname!~"{unsure}"}})',
        "eval_time": f"{at_min}m",
        "exp_samples": [
            {"labels": f'{{alertname="{name}"}}', "value": 1}
            for name, is_so in alerts.items()
            if is_so
        ],
    }
