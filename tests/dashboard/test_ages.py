"""Figures from samples or reports show their age, and actions refresh what they change."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from pgsluice.client import ShareGroup
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import pipelines
from pgsluice.dashboard.rendering import duration
from support import value, wait_until
from support.dashboard import submit

OLD = "4 min"
PAGES = {
    "/": "Figures",
    "/queues": "Figures",
    "/dead-letters": "Figures",
    "/queue?name=orders": "Charts",
    "/logs": "Readers furthest behind",
    "/log?name=audit": "Charts",
    "/consumer?log=audit&consumer=etl": "Charts",
    "/pipeline?log=audit&consumer=etl": "Charts",
    "/group?log=audit&group=mailer": "Figures",
}


@pytest.fixture
def sampled(connection, work, logs):
    """A queue and the readers of a log, with samples of four minutes ago: maintenance has stopped since."""
    work.create("orders")
    work.send("orders", 1)
    work.read("orders", 60)
    connection.execute("select sluice.reject('orders', 1, 1, 'bad')")
    work.send("orders", 1)
    logs.create("audit")
    logs.register_consumer("audit", "etl")
    ShareGroup(connection, "audit", "mailer").create(start="earliest")
    runner, pid = Runner(connection), connection.info.backend_pid
    runner.run(pipelines.hold_pipeline("audit", "etl", "events", "/lake", pid))
    runner.run(pipelines.report_pipeline("audit", "etl", 7, datetime.now(UTC)))
    logs.insert_event("audit", "t", "1")
    logs.log_tick("audit")
    connection.execute("select sluice.take_samples('10 s')")
    connection.execute("update sluice.sample set taken_at = taken_at - interval '245 s'")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (65, "1 min 5 s"),
        (7_199.6, "2 h"),
        (7_201, "2 h"),
        (7_261, "2 h 1 min"),
        (86_400 + 59 * 60, "1 d"),
        (86_400 * 365 + 86_400, "1 y 1 d"),
    ],
)
def test_an_age_has_its_largest_unit_and_the_next_one(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.parametrize("path", PAGES)
def test_figures_show_their_age_if_maintenance_has_stopped(client, sampled, path):
    text = client.get(path).text

    what = PAGES[path]
    assert re.search(rf'class="problem" role="status">{what} as of <time[^>]*>{OLD}', text), path
    assert "Newer ones are taken by" in text


@pytest.mark.parametrize("path", PAGES)
def test_fresh_figures_say_their_age_without_a_warning(client, sampled, connection, path):
    connection.execute("select setval('sluice.sample_turn', 1)")
    connection.execute("select sluice.take_samples('10 s')")

    text = client.get(path).text

    if PAGES[path] == "Charts":  # of a consumer, the newest sample counts
        assert f"{PAGES[path]} as of <time" in text
    else:
        assert re.search(rf'class="none">{PAGES[path]} as of <time', text)
    assert "Newer ones are taken by" not in text


def test_queue_without_samples_of_five_minutes_has_no_figures(client, sampled, work, connection):
    work.create("new")
    connection.execute("update sluice.sample set taken_at = now()")

    assert "no figures of the last five minutes" in client.get("/queues").text
    assert "Without 1 queue that had no samples in the last five minutes." in client.get("/").text


def test_running_calls_of_a_silent_worker_say_when_it_reported(client, work, connection):
    work.create("orders")
    connection.execute(
        "select sluice.report_worker('w', 'shop', 'host', 1, '0', array['queue orders'], null, '1 h', "
        '\'[{"handler": "ship", "queue": "orders", "msg_id": 1, "running_s": 3}]\', \'{}\', pg_backend_pid())'
    )
    connection.execute(
        "update sluice.process_report set reported_at = reported_at - interval '65 s'"
    )

    text = client.get("/workers").text

    running = text[text.index("Running now") :]
    assert re.search(r">1 min \d+ s ago", running)
    assert "at most 30 seconds ago" not in text


def test_pipelines_say_when_they_reported(client, sampled, connection):
    connection.execute(
        "update sluice.process_report set reported_at = reported_at - interval '2 h'"
    )

    assert ">2 h ago" in client.get("/pipelines").text


def test_act_is_seen_in_another_process_as_soon_as_its_shared_result_is_old(
    opened, acting, work, connection
):
    work.create("orders")
    other = opened(refresh_s=1.0)  # results are shared for 0.8 s
    shown = "Paused by"
    assert shown not in other.get("/queue?name=orders").text

    submit(acting, "pause_queue", {"queue": "orders"})
    acted_at = value(connection, "select clock_timestamp()")

    assert shown in acting.get("/queue?name=orders").text
    wait_until(lambda: shown in other.get("/queue?name=orders").text, "the other process", 5)
    seen_s = (value(connection, "select clock_timestamp()") - acted_at).total_seconds()
    assert seen_s < 2


def test_job_that_is_shown_as_done_has_refreshed_what_is_shared(opened, work):
    work.create("orders")
    work.send_batch("orders", [1, 2, 3])
    acting = opened(allow_actions=True, refresh_s=60.0)
    acting.headers["sec-fetch-site"] = "same-origin"
    assert "3</a>" in acting.get("/queue?name=orders").text
    dashboard = acting.app.state.dashboard
    dashboard.diagnosis.latest()

    submit(acting, "purge_queue", {"queue": "orders"})
    wait_until(
        lambda: all(not job.is_open for job in dashboard.jobs.newest()), "the end of the job"
    )

    assert "3</a>" not in acting.get("/queue?name=orders").text
    assert dashboard.diagnosis._began_at_s is None
