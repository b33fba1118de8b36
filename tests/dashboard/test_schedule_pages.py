"""The pages of schedules: when each fires, why it does not, and what it sends."""

from __future__ import annotations

import re

import pytest

from pgsluice.client import Schedules

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def schedules(connection, work, logs):
    """The schedules `waits`, `paused`, `late`, `failing` and `event`."""
    work.create("orders")
    logs.create("audit")
    schedules = Schedules(connection)
    for name in ("waits", "paused", "late", "failing"):
        schedules.schedule(
            name, "orders", {"card": "471108154711", "price": 1.10}, cron="0 3 * * *"
        )
    schedules.schedule_event("event", "audit", "tick", '{"card": 471108154711}', every_s=60)
    schedules.pause_schedule("paused")
    connection.execute(
        "update sluice.schedule set due_at = now() - interval '1 h' where name = 'late'"
    )
    connection.execute(
        "update sluice.schedule set error = 'queue refuses 471108154711' where name = 'failing'"
    )
    return schedules


def test_no_schedule_names_the_command_that_creates_one(client):
    assert "pgsluice schedule create" in client.get("/schedules").text


def test_schedules_are_shown_with_their_state_the_troubled_ones_first(client, schedules):
    text = client.get("/schedules").text

    names = ["failing", "late", "event", "waits", "paused"]
    positions = [text.index(f'/schedule?name={name}"') for name in names]
    assert positions == sorted(positions)
    assert "queue refuses 471108154711" in text
    assert "<code>0 3 * * *</code> UTC" in text
    assert "every 1 min" in text
    assert '/log?name=audit"' in text


def test_pause_of_a_schedule_is_shown_with_its_role_if_an_operator_paused_it(
    client, monitor, connection, schedules
):
    connection.execute("update sluice.schedule set paused_at = now() where name = 'waits'")
    (role,) = connection.execute("select current_user").fetchone()

    text = client.get("/schedules").text
    assert len(re.findall(r"pause\"><time [^\n]*</time></small>", text)) == 1, "paused by its app"
    assert len(re.findall(rf"pause\"><time [^\n]*</time> by {role}</small>", text)) == 1

    assert f"by {role}</small>" in client.get("/schedule?name=paused").text
    assert 'pause"><time' in monitor.get("/schedules").text


def test_schedules_are_searched_by_name_and_target(client, schedules):
    text = client.get("/schedules?search=AUD").text

    assert "/schedule?name=event" in text
    assert "/schedule?name=waits" not in text


def test_schedule_is_explained_with_what_it_sends(client, schedules):
    text = client.get("/schedule?name=waits").text

    assert "Schedule waits for queue orders has its next slot" in text
    assert "&#34;price&#34;: 1.10" in text or "&#34;price&#34;: 1.1" in text
    assert "the last one is fired" in text
    assert "/act/" not in text
    assert "&#34;card&#34;: 471108154711" in client.get("/schedule?name=event").text


def test_schedule_offers_to_run_pause_and_resume_where_actions_are_allowed(acting, schedules):
    waits = acting.get("/schedule?name=waits").text
    paused = acting.get("/schedule?name=paused").text

    assert "/act/run_schedule?name=waits" in waits
    assert "/act/pause_schedule?name=waits" in waits
    assert "/act/resume_schedule?name=paused" in paused
    assert "/act/pause_schedule" not in paused


def test_missing_schedule_is_not_found(client):
    response = client.get("/schedule?name=none")

    assert response.status_code == 404
    assert "Schedule not found" in response.text


def test_hidden_keys_are_hidden_in_messages_and_events(opened, schedules):
    client = opened(hidden_keys=["card"])

    for name in ("waits", "event"):
        text = client.get(f"/schedule?name={name}").text
        assert "•••" in text
        assert "471108154711" not in text


def test_names_are_escaped(client, connection, work):
    work.create(SCRIPT)
    Schedules(connection).schedule(SCRIPT, SCRIPT, {SCRIPT: SCRIPT}, every_s=60, declared_by=SCRIPT)
    connection.execute("update sluice.schedule set error = %s", (SCRIPT,))

    for path in ("/schedules", "/schedule"):
        text = client.get(path, params={"name": SCRIPT}).text
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text


def test_role_with_sluice_monitor_sees_states_without_contents(monitor, schedules):
    listed = monitor.get("/schedules").text
    shown = monitor.get("/schedule?name=failing").text

    assert '<span class="badge fail">failing</span>' in listed
    assert "hidden from this role" in listed
    assert "What it sends is hidden" in shown
    assert "471108154711" not in listed + shown
