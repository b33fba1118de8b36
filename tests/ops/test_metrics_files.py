"""The dashboard and the alert rules: each metric they name exists, and each SQL query runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from pgsluice.cli.main import cli
from pgsluice.connection import Target
from pgsluice.ops.metrics.collector import DatabaseCollector
from pgsluice.ops.metrics.endpoint import text_of
from pgsluice.worker.process.metrics import metrics_of
from support import rows
from support.metrics import fill, names_of
from support.servers import Database

NAME = re.compile(r"\bpgsluice_\w+")
REPORT = {
    "live": True,
    "ready": True,
    "processes": {
        "1": {
            "state": "running",
            "listener": "listening",
            "maintenance": "leader",
            "hung_threads": 0,
            "sources": [{"name": "queue orders", "is_reachable": True, "last_error": None}],
            "shards": [{"name": "a", "is_up": True, "error": None}],
            "handlers": [
                {
                    "name": "ship",
                    "running": 2,
                    "waiting": 3,
                    "counts": {
                        "done": 5,
                        "retry": 1,
                        "released": 0,
                        "dead": 0,
                        "lost": 0,
                        "by_error_type": {"KeyError": 1},
                    },
                    "call_counts": [1, 2, *[0] * 13, 1, 1],
                    "call_sum_s": 400.5,
                }
            ],
        }
    },
}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus"
)


def printed(name: str) -> str:
    """Return a file that `pgsluice metrics --print` prints."""
    done = CliRunner().invoke(cli, ["metrics", "--print", name])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def scraped(database_18: Database) -> str:
    """A scrape of a database with an object of each kind, and one of a worker."""
    with database_18.connect() as connection:
        fill(connection)
        state = text_of(DatabaseCollector(Target(database_18.url, "test")))
    return state + metrics_of(REPORT, None)[0].decode()


def test_every_metric_of_the_alert_rules_and_of_the_dashboard_is_scraped(scraped):
    rules = "\n".join(re.findall(r"expr: (?:>-\n)?(.*(?:\n {10}.*)?)", printed("alerts")))
    dashboard = json.loads(printed("grafana"))
    queries = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    variables = json.dumps(dashboard["templating"])

    for text in (rules, "\n".join(queries), variables):
        named = set(NAME.findall(text))
        assert named
        assert named - names_of(scraped) == set()


def test_every_sql_alert_runs_as_a_monitor_and_finds_what_is_wrong(database_18):
    with database_18.connect() as connection:
        fill(connection)
        connection.execute(
            "update pgmq.q_orders set (vt, enqueued_at) = (now() - interval '1 h', now() - interval '1 h') where msg_id = 5"
        )
        connection.execute("set role sluice_monitor")
        found = {}
        for query in printed("alerts-sql").split("-- name: ")[1:]:
            name, _, statement = query.partition("\n")
            found[name] = [summary for (summary,) in rows(connection, statement)]
        connection.execute("reset role")

    assert {name for name, summaries in found.items() if summaries} == {
        "no maintenance", "maintenance fails", "queue not drained", "dead letters", "schedule late",
    }  # fmt: skip
    assert found["dead letters"] == ["dead letters of queue orders: 1"]


@needs_promtool
def test_promtool_accepts_rules_and_metrics(scraped, tmp_path):
    rules = tmp_path / "alerts.yml"
    rules.write_text(printed("alerts"), encoding="utf-8")
    checked = subprocess.run(
        ["promtool", "check", "rules", rules],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr

    linted = subprocess.run(
        ["promtool", "check", "metrics"], input=scraped, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout + linted.stderr
