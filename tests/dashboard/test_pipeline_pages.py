"""The pages of pipelines: whether each runs, its lag, and its last commit."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import pipelines
from support.dashboard import unlabelled

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def run_pipeline(connection, logs):
    """Hold the consumer of a pipeline in the test's session, 3 events behind."""

    def run(log="audit", consumer="lake", lake="s3://bucket/lake"):
        logs.create(log)
        logs.register_consumer(log, consumer)
        runner, pid = Runner(connection), connection.info.backend_pid
        runner.run(pipelines.hold_pipeline(log, consumer, "events", lake, pid))
        runner.run(
            pipelines.report_pipeline(log, consumer, 1234, datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
        )
        for number in range(3):
            logs.insert_event(log, "t", f"{number}")
        logs.log_tick(log)

    return run


def test_no_pipeline_names_the_command_that_starts_one(client):
    assert "pgsluice pipeline run" in client.get("/pipelines").text


def test_pipelines_are_shown_with_lag_rows_and_last_commit(client, run_pipeline):
    run_pipeline()

    text = unlabelled(client.get("/pipelines").text)

    assert '<span class="badge ok">running</span>' in text
    assert "1\u202f234" in text
    assert "2026-01-02 03:04:00 UTC" in text
    assert "s3://bucket/lake" in text
    assert '<td class="number">3</td>' in text


def test_pipeline_is_explained_with_its_position(client, run_pipeline):
    run_pipeline()

    text = client.get("/pipeline?log=audit&consumer=lake").text

    assert "Committed up to tick" in text
    assert "Held by pid" in text
    assert 'data-copy="s3://bucket/lake"' in text
    assert 'href="/pipeline?log=audit&amp;consumer=lake"' in (
        client.get("/consumer?log=audit&consumer=lake").text
    )


def test_missing_pipeline_is_not_found(client, logs):
    logs.create("audit")

    assert client.get("/pipeline?log=audit&consumer=x").status_code == 404
    assert client.get("/pipeline?log=x&consumer=x").status_code == 404
    assert client.get("/pipeline").status_code == 400


def test_names_are_escaped(client, run_pipeline):
    run_pipeline(SCRIPT, SCRIPT, SCRIPT)

    for path in ("/pipelines", "/pipeline"):
        text = client.get(path, params={"log": SCRIPT, "consumer": SCRIPT}).text
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text


def test_role_with_sluice_monitor_sees_pipelines(monitor, run_pipeline):
    run_pipeline()

    assert "s3://bucket/lake" in monitor.get("/pipelines").text
    assert "Committed up to tick" in monitor.get("/pipeline?log=audit&consumer=lake").text
