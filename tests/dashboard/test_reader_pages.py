"""The pages of consumers and share groups."""

from __future__ import annotations

import pytest

from pgsluice.client import ShareGroup
from support import wait_until
from support.dashboard import make_world, unlabelled
from support.log import give_up

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def audit(logs):
    """The log `audit` with the consumer `etl`, 5 events behind."""
    logs.create("audit")
    logs.register_consumer("audit", "etl")
    for number in range(5):
        logs.insert_event("audit", f"key-{number % 2}", f"{number}")
    logs.log_tick("audit")
    return logs


@pytest.fixture
def mailer(audit, connection):
    """A share group by key: one key is parked, the other one is claimed."""
    group = ShareGroup(connection, "audit", "mailer")
    group.create(start="earliest", key="ev_type", when_waiting="park")
    (first,) = group.claim(1)
    group.acknowledge(first, "retry", error=f"ValueError: {SCRIPT}\ntrace")
    group.claim(5)
    connection.execute("select sluice.take_samples('10 s')")
    return group


def test_consumer_is_explained_with_its_lag(client, audit):
    text = client.get("/consumer?log=audit&consumer=etl").text

    assert "Consumer etl of log audit" in text
    assert "about 5 events behind" in text
    assert "act/unregister_consumer" not in text


def test_consumer_offers_to_unregister_where_actions_are_allowed(acting, audit):
    text = acting.get("/consumer?log=audit&consumer=etl").text

    assert "/act/unregister_consumer?log=audit&amp;consumer=etl" in text


def test_consumer_that_is_a_share_group_is_redirected(client, mailer):
    response = client.get("/consumer?log=audit&consumer=mailer", follow_redirects=False)

    assert response.status_code == 303
    assert response.headers["location"] == "/group?log=audit&group=mailer"


def test_missing_readers_are_not_found(client, audit):
    for path in ("/consumer?log=audit&consumer=x", "/consumer?log=x&consumer=x"):
        assert client.get(path).status_code == 404
    for path in ("/group?log=audit&group=x", "/group?log=x&group=x"):
        assert client.get(path).status_code == 404


def test_group_shows_claims_keys_and_dead_letters(client, mailer):
    text = client.get("/group?log=audit&group=mailer").text

    assert "Share group mailer of log audit" in text
    assert '<span class="badge fail">parked</span>' in text
    assert 'data-copy="key-0"' in text
    assert "No claim is open." not in text
    assert 'href="/event?log=audit&amp;ev_id=1"' in text
    assert "/dead-letters?queue=audit&amp;consumer=mailer" in text
    assert "ValueError: &lt;script&gt;" in text
    assert "<script>alert" not in text
    assert "/act/" not in text


def test_group_offers_actions_where_they_are_allowed(acting, mailer):
    text = acting.get("/group?log=audit&group=mailer").text

    assert "/act/unpark_key?log=audit&amp;group=mailer&amp;key=key-0" in text
    letters = acting.get("/dead-letters?queue=audit&consumer=mailer").text
    assert "/act/redrive?queue=audit&amp;consumer=mailer" in letters
    assert "/act/purge_dead_letters?queue=audit&amp;consumer=mailer" in letters


def test_explanation_is_first_on_the_page_of_a_reader_in_trouble_and_charts_else(
    client, connection
):
    make_world(connection)

    def is_explained_first(page):
        text = client.get(page).text
        return text.index("Explanation</h2>") < text.index("Over time</h2>")

    assert is_explained_first("/group?log=audit&group=failed"), "it has dead letters"
    assert not is_explained_first("/consumer?log=audit&consumer=billing")
    give_up(connection, "too far behind", "billing")
    wait_until(
        lambda: is_explained_first("/consumer?log=audit&consumer=billing"), "the next reading"
    )


def test_group_that_was_dropped_is_shown_while_it_has_dead_letters(client, audit, connection):
    group = ShareGroup(connection, "audit", "mailer")
    group.create(start="earliest")
    group.reject(group.claim(5), "rejected", error="E1: a")
    group.drop()

    text = unlabelled(client.get("/group?log=audit&group=mailer").text)

    assert "was dropped" in text
    assert '<td class="text">E#: a</td><td>rejected</td><td class="number">5</td>' in text
    assert "/dead-letters?queue=audit&amp;consumer=mailer" in text


def test_names_are_escaped(client, logs, connection):
    logs.create(SCRIPT)
    logs.register_consumer(SCRIPT, SCRIPT)
    group = ShareGroup(connection, SCRIPT, f"g{SCRIPT}")
    group.create(start="earliest", key="ev_type", when_waiting="park")
    for number in range(2):
        logs.insert_event(SCRIPT, SCRIPT, f"{number}")
    (event,) = group.claim(1)
    group.acknowledge(event, "retry", error=SCRIPT)
    group.claim(1)

    for path, name in (("/consumer", {"consumer": SCRIPT}), ("/group", {"group": f"g{SCRIPT}"})):
        text = client.get(path, params={"log": SCRIPT, **name}).text
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text


def test_role_with_sluice_monitor_sees_figures_without_keys_and_errors(monitor, mailer):
    text = monitor.get("/group?log=audit&group=mailer").text

    assert "Open claims" in text
    assert "The keys are hidden" in text
    assert "The dead letters are hidden" in text
    assert "key-0" not in text
    assert "ValueError" not in text
    assert "about 5 events behind" in monitor.get("/consumer?log=audit&consumer=etl").text
