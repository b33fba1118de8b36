"""The manifests for Kubernetes: their commands, probes, times and metrics exist. No cluster is at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgsluice.durations import parse_duration
from pgsluice.ops.metrics.catalog import METRICS
from tidy.test_docs_name_real_things import unknown_in_command

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kubernetes"
HARD_STOP_S = 4


@pytest.fixture
def pods():
    found = yaml.safe_load_all((EXAMPLE / "shop.yaml").read_text())
    return {each["metadata"]["name"]: each["spec"]["template"] for each in found}


def test_commands_and_options_exist(pods):
    for pod in pods.values():
        (container,) = pod["spec"]["containers"]
        program, *words = container["command"]
        assert program == "pgsluice"
        assert unknown_in_command(words) is None


def test_probes_use_the_endpoints_and_the_port_of_the_worker(pods):
    (worker,) = pods["shop-worker"]["spec"]["containers"]
    probes = [
        worker[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    ]

    assert [probe["path"] for probe in probes] == ["/live", "/live", "/ready"]
    assert {f"--health-port={probe['port']}" for probe in probes} <= set(worker["command"])
    assert "--health-host=0.0.0.0" in worker["command"]


def test_grace_period_is_longer_than_shutdown_and_hard_stop(pods):
    pod = pods["shop-worker"]["spec"]
    (option,) = re.findall(r"--shutdown-timeout=(\w+)", " ".join(pod["containers"][0]["command"]))
    shutdown_s = parse_duration(option)

    assert shutdown_s is not None
    assert pod["terminationGracePeriodSeconds"] >= shutdown_s + HARD_STOP_S


def test_ports_for_prometheus_are_those_of_the_commands(pods):
    for name, option in (("shop-worker", "--health-port"), ("shop-maintenance", "--metrics-port")):
        port = pods[name]["metadata"]["annotations"]["prometheus.io/port"]
        assert f"{option}={port}" in pods[name]["spec"]["containers"][0]["command"]


def test_scaling_uses_metrics_that_exist():
    texts = [(EXAMPLE / "keda.yaml").read_text(), (ROOT / "docs/guides/kubernetes.md").read_text()]
    names = {name for text in texts for name in re.findall(r"pgsluice_queue_\w+", text)}

    assert names
    assert names <= {metric.name for metric in METRICS}
    target = yaml.safe_load(texts[0])["spec"]["scaleTargetRef"]["name"]
    assert f"name: {target}" in (EXAMPLE / "shop.yaml").read_text()
