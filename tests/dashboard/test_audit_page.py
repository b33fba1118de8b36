"""The page of the audit: actions of operators, newest first."""

from __future__ import annotations

from psycopg.types.json import Jsonb

SCRIPT = "<script>alert(1)</script>"


def test_empty_audit_names_recorded_actions(client):
    assert "No action in the last 90 days" in client.get("/audit").text


def test_actions_are_shown_newest_first_with_their_reason(client, work):
    work.create("orders")
    work.set_queue_options("orders", paused=True, pause_reason="provider is down")
    work.purge_queue("orders")

    text = client.get("/audit").text

    assert text.index("purge_queue") < text.index("set_queue_options")
    assert "provider is down" in text


def test_actions_are_filtered_by_queue_and_paged(client, work):
    for name in ("orders", "mails"):
        work.create(name)
    work.set_queue_options("mails", paused=True)
    for _ in range(26):
        work.set_queue_options("orders", paused=True)
        work.set_queue_options("orders", paused=False)

    first = client.get("/audit?queue=orders").text
    second = client.get("/audit?queue=orders&before=3").text

    assert "Older actions" in first
    assert first.count('<th scope="row">') == 50
    assert second.count('<th scope="row">') == 1
    assert "mails" not in first + second


def test_arguments_are_escaped_and_hidden_keys_are_hidden(opened, connection):
    chosen = {"conditional": {"secret": "hunter-1234", "name": SCRIPT}}
    connection.execute(
        "insert into sluice.action (acted_at, actor, application, action, queue_name, filter, message_count, note) "
        "values (now(), %s, %s, 'redrive_matching', %s, %s, 7, %s)",
        (SCRIPT, SCRIPT, SCRIPT, Jsonb(chosen), SCRIPT),
    )

    text = opened(hidden_keys=["SECRET"]).get("/audit").text

    assert "&lt;script&gt;" in text
    assert "<script>alert" not in text
    assert "hunter-1234" not in text


def test_invalid_page_is_refused(client):
    assert client.get("/audit?before=x").status_code == 400
    assert client.get(f"/audit?before={10**30}").status_code == 400


def test_role_with_sluice_monitor_sees_the_role_it_needs(monitor, work):
    work.create("orders")
    work.set_queue_options("orders", paused=True)

    text = monitor.get("/audit").text

    assert "sluice_admin" in text
    assert "set_queue_options" not in text
