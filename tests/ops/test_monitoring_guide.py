"""The guide to monitoring: its tables list the metrics, and its commands and queries run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.test_metrics_files import REPORT
from pgsluice.cli.main import cli
from pgsluice.ops.metrics.catalog import METRICS
from pgsluice.worker.process.metrics import StatusCollector
from support.metrics import fill
from support.servers import Database

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "monitoring.md"
BLOCK = re.compile(r"```(bash|sql)\n(.*?)```", re.DOTALL)


def tables() -> tuple[str, str]:
    """Return the tables of metrics of the database and of workers."""
    state = [(each.sample_name, each.labels, each.help) for each in METRICS]
    worker = [
        (
            family.name + ("_total" if family.type == "counter" else ""),
            tuple(family.samples[0].labels),
            family.documentation,
        )
        for family in StatusCollector(REPORT).collect()
    ]
    return _table(state), _table(worker)


def _table(metrics: list[tuple[str, tuple[str, ...], str]]) -> str:
    lines = [f"| `{name}` | {', '.join(labels)} | {text} |\n" for name, labels, text in metrics]
    return "".join(["| metric | labels | meaning |\n|---|---|---|\n", *lines])


def test_guide_lists_every_metric_with_its_labels_and_help():
    text = GUIDE.read_text(encoding="utf-8")

    for table in tables():
        assert table in text, table


def test_commands_of_the_guide_run(database_18: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGSLUICE_DSN", database_18.url)
    lines = [
        shlex.split(line, comments=True)
        for kind, block in BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
        if kind == "bash"
        for line in block.splitlines()
    ]
    commands = [words[1:] for words in lines if words[0] == "pgsluice"]
    assert len(commands) > 4

    for arguments in commands:
        # Those that serve run until interrupted; tests/ops/test_prometheus.py runs them.
        ends = not any(option in arguments for option in ("--port", "--metrics-port"))
        done = CliRunner().invoke(cli, arguments if ends else [*arguments, "--help"])
        assert done.exit_code == 0, done.output


def test_queries_of_the_guide_run(database_18: Database):
    with database_18.connect() as connection:
        fill(connection)
        connection.execute("select sluice.take_samples()")
        for kind, block in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
            if kind == "sql":
                for query in block.split(";\n"):
                    if query.strip():
                        assert connection.execute(query).fetchall(), query
