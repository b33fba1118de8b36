"""A real Prometheus scrapes both endpoints and loads the alert rules."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from pgsluice import WorkQueue
from support import wait_until
from support.metrics import fill, names_of, of, samples_of, scrape
from support.object_store import free_port
from support.processes import environment

PGSLUICE = [sys.executable, "-m", "pgsluice"]
APP = """
from pgsluice import App
app = App()

@app.handler("parcels")
async def ship(payload: dict) -> None:
    if payload["n"] == 3:
        raise KeyError("address")
"""
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="Prometheus is not installed: apt-get install prometheus",
)


@contextmanager
def running(arguments, **options):
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture
def worker(database_18, tmp_path):
    """The port of a worker that handles the queue `parcels`."""
    (tmp_path / "shipping.py").write_text(APP, encoding="utf-8")
    with database_18.connect() as connection:
        queue = WorkQueue(connection)
        queue.create("parcels")
        queue.send_batch("parcels", [{"n": n} for n in range(5)])
    port = free_port()
    arguments = ["worker", "run", "shipping:app", "--health-port", str(port), "--no-maintenance"]
    with running(
        [*PGSLUICE, *arguments, "--dsn", database_18.url], cwd=tmp_path, env=environment(tmp_path)
    ):
        wait_until(lambda: done(port) == 4, "the messages to be handled", 30)
        yield port


def done(port):
    try:
        found = samples_of(scrape(port))
    except OSError:
        return None
    key = {"process": "1", "handler": "ship", "outcome": "done"}
    return found.get(("pgsluice_worker_messages_total", frozenset(key.items())))


@pytest.mark.slow
def test_worker_has_metrics_of_its_handlers_and_sources(worker):
    wait_until(
        lambda: "pgsluice_worker_errors_total" in names_of(scrape(worker)), "the failed attempt"
    )
    found = samples_of(scrape(worker))

    assert of(found, "pgsluice_worker_live") == of(found, "pgsluice_worker_ready") == 1
    assert of(found, "pgsluice_worker_running", process="1") == 1
    assert of(found, "pgsluice_worker_running_messages", process="1", handler="ship") == 0
    failed = {"process": "1", "handler": "ship", "error_type": "KeyError"}
    assert of(found, "pgsluice_worker_errors_total", **failed) >= 1
    text = scrape(worker, accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    with pytest.raises(HTTPError):
        scrape(worker, path="/other")


@pytest.mark.slow
def test_maintain_serves_metrics_and_is_the_leader(database_18, tmp_path):
    port = free_port()
    arguments = ["maintain", "--metrics-port", str(port), "--dsn", database_18.url]
    with (
        running([*PGSLUICE, *arguments], env=environment(tmp_path), stderr=subprocess.PIPE, text=True) as process,
        database_18.connect() as connection,
    ):  # fmt: skip
        assert process.stderr.readline() == f"metrics http://127.0.0.1:{port}/metrics\n"
        wait_until(
            lambda: connection.execute(
                "select is_active from sluice.leader('notifier')"
            ).fetchone()[0],
            "the maintainer to lead",
        )
        found = samples_of(scrape(port))

    assert of(found, "pgsluice_up") == of(found, "pgsluice_leader") == 1
    assert of(found, "pgsluice_notifier_age_seconds") < 60


@pytest.mark.slow
@needs_prometheus
def test_prometheus_scrapes_both_endpoints_and_loads_the_rules(database_18, tmp_path, worker):
    state_port, port = free_port(), free_port()
    with database_18.connect() as connection:
        fill(connection)
    rules = subprocess.run(
        [*PGSLUICE, "metrics", "--print", "alerts"], capture_output=True, check=True, timeout=60
    )
    (tmp_path / "alerts.yml").write_bytes(rules.stdout)
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 1s}\n"
        "rule_files: [alerts.yml]\n"
        "scrape_configs:\n"
        "  - job_name: pgsluice\n"
        f"    static_configs: [{{targets: ['127.0.0.1:{state_port}', '127.0.0.1:{worker}']}}]\n",
        encoding="utf-8",
    )
    serve = ["metrics", "--port", str(state_port), "--cache", "0", "--dsn", database_18.url]
    prometheus = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with (
        running([*PGSLUICE, *serve], env=environment(tmp_path), stderr=subprocess.DEVNULL),
        running(
            [*prometheus, f"--web.listen-address=127.0.0.1:{port}"],
            cwd=tmp_path, stderr=subprocess.DEVNULL,
        ),
    ):  # fmt: skip
        wait_until(lambda: result(port, "sum(up)") == [2.0], "both endpoints to be up", 60)
        assert result(port, 'pgsluice_queue_ready_messages{queue="orders"}') == [2.0]
        assert result(port, "sum(pgsluice_worker_messages_total{outcome='done'})") == [4.0]
        wait_until(
            lambda: result(port, 'count(ALERTS{alertname="PgsluiceScheduleLate"})') == [1.0],
            "the alert for the late schedule to be pending",
            30,
        )


def result(port, query):
    """Return the values of an instant query; None while Prometheus starts."""
    try:
        with urlopen(
            f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}", timeout=10
        ) as response:
            found = json.load(response)
    except OSError:
        return None
    return [float(series["value"][1]) for series in found["data"]["result"]]
