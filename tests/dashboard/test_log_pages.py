"""The pages of logs: figures, segments, consumers, share groups and charts."""

from __future__ import annotations

import pytest

from pgsluice.client import ShareGroup

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def audit(logs, connection):
    """The log `audit` with a consumer and a share group that are 5 events behind, with samples of 10 minutes."""
    logs.create("audit")
    logs.register_consumer("audit", "etl")
    ShareGroup(connection, "audit", "mailer").create(start="earliest")
    for number in range(5):
        logs.insert_event("audit", "t", f'{{"n": {number}}}')
    logs.log_tick("audit")
    connection.execute("select sluice.take_samples('10 s')")
    connection.execute(
        "insert into sluice.sample (slot, source_id, taken_at, sent, finished, lag_events, lag_s, pinned_bytes) "
        "select s.slot, s.source_id, s.taken_at - make_interval(mins => n), s.sent - n, 0, 5, 3.5, 100 "
        "from sluice.sample as s, generate_series(1, 3) as n"
    )
    return logs


def test_no_log_names_the_command_that_creates_one(client):
    assert "pgsluice log create audit" in client.get("/logs").text


def test_logs_are_shown_with_the_reader_that_is_furthest_behind(client, audit):
    audit.create("other")

    text = client.get("/logs").text

    assert 'href="/log?name=audit"' in text
    assert 'href="/consumer?log=audit&amp;consumer=etl"' in text
    assert "no reader" in text


def test_logs_are_paged_and_searched(client, connection):
    for name in ("first", "second"):
        connection.execute("select pgq.create_queue(%s)", (name,))

    text = client.get("/logs?search=SEC").text
    assert ">second<" in text
    assert ">first<" not in text
    assert ">first<" not in client.get("/logs?after=first").text
    assert "No log has this in its name." in client.get("/logs?search=third").text


def test_captured_tables_are_shown_with_their_problems(client, audit, connection):
    connection.execute("create table good (id int primary key)")
    connection.execute("create table light (id int primary key)")
    for table in ("good", "light"):
        audit.capture(table, "audit")
    connection.execute("alter table light set unlogged")

    text = client.get("/log?name=audit").text

    assert "Captured tables" in text
    assert '<span class="badge warn">unlogged</span>' in text
    assert "alter table public.light set logged" in text
    good = text[text.index(">good<") :]
    assert good[: good.index("</tr>")].count('<span class="badge ok">ok</span>') == 1


def test_log_is_shown_with_segments_consumers_and_groups(client, audit):
    audit.set_log_options("audit", max_lag_events=1000, keepers=["lake"])

    text = client.get("/log?name=audit").text

    assert "Log audit" in text
    assert "etl, mailer" in text  # they need the segment
    assert 'href="/consumer?log=audit&amp;consumer=etl"' in text
    assert 'href="/group?log=audit&amp;group=mailer"' in text
    assert 'href="/consumer?log=audit&amp;consumer=mailer"' not in text
    assert "1\u202f000 events" in text
    assert "keeper, not registered" in text
    assert "Consumer etl is about 5 events behind" in text
    assert text.count("<svg viewBox") == 3


@pytest.mark.parametrize("span", ["day", "month", "<x>"])
def test_charts_are_drawn_over_the_chosen_time(client, audit, span):
    response = client.get("/log", params={"name": "audit", "span": span})

    assert response.status_code == 200
    assert "<x>" not in response.text
    assert f'aria-current="true">{"hour" if span == "<x>" else span}<' in response.text


def test_log_that_does_not_exist_is_not_found(client):
    response = client.get("/log?name=none")

    assert response.status_code == 404
    assert "Log not found" in response.text
    assert client.get("/log").status_code == 400


def test_names_are_escaped(client, logs, connection):
    logs.create(SCRIPT)
    logs.register_consumer(SCRIPT, SCRIPT)
    ShareGroup(connection, SCRIPT, f"{SCRIPT}2").create(start="earliest")
    logs.insert_event(SCRIPT, SCRIPT, SCRIPT)
    logs.log_tick(SCRIPT)
    connection.execute("select sluice.take_samples('10 s')")

    for path in ("/logs", "/log"):
        text = client.get(path, params={"name": SCRIPT}).text
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text


def test_role_with_sluice_monitor_sees_logs(monitor, audit, connection):
    connection.execute("create table captured (id int primary key)")
    audit.capture("captured", "audit")
    assert "/consumer?log=audit&amp;consumer=etl" in monitor.get("/logs").text

    text = monitor.get("/log?name=audit").text

    assert "about 5 events behind" in text
    assert "captured</th>" in text
    assert "permission denied" not in text


def test_part_that_takes_too_long_is_named(opened, audit, database_18):
    with database_18.connect(autocommit=False) as other:
        other.execute("lock table sluice.log_policy in access exclusive mode")
        text = opened(timeout_s=0.2).get("/log?name=audit").text

    assert "narrow your filter" in text
    assert "about 5 events behind" in text or "not read within" in text
    assert "Segments" in text
