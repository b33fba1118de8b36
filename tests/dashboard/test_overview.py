"""The overview: figures, doctor's findings, and the queues in trouble."""

from __future__ import annotations

import re

from pgsluice.client import ShareGroup
from support import wait_until


def test_overview_of_an_empty_database_is_empty(client):
    shown = client.get("/")

    assert shown.status_code == 200
    assert "No queue has ready messages or is in trouble." in shown.text


def test_queue_that_is_paused_with_messages_is_named_first(client, work):
    for name in ("calm", "held"):
        work.create(name)
        work.send_batch(name, [1, 2])
    work.set_queue_options("held", paused=True, pause_reason="<b>bank is down</b>")

    for page in ("/", "/queues"):
        text = client.get(page).text
        assert re.search(
            r"since <time .* by role .*: &lt;b&gt;bank is down&lt;/b&gt;</small>", text
        )
    text = client.get("/").text
    assert text.index(">held<") < text.index(">calm<")


def test_finding_of_doctor_is_shown_with_its_command(client, work):
    work.create("held")
    work.send("held", 1)
    work.set_queue_options("held", paused=True)

    command = "pgsluice queue set held paused=false"
    wait_until(lambda: command in client.get("/").text, "the checks to end")


def test_name_of_a_queue_is_escaped(client, work):
    work.create("<img src=x>")
    work.send("<img src=x>", 1)

    text = client.get("/").text

    assert "&lt;img src=x&gt;" in text
    assert "<img" not in text


def test_reader_that_is_behind_has_a_link_to_its_page(client, logs, connection):
    logs.create_queue("audit")
    logs.register_consumer("audit", "etl")
    ShareGroup(connection, "audit", "mailer").create(start="earliest")
    logs.insert_event("audit", "t", "1")
    logs.log_tick("audit")
    connection.execute("select sluice.take_samples('10 s')")

    text = client.get("/").text

    assert 'href="/consumer?log=audit&amp;consumer=etl"' in text
    assert 'href="/group?log=audit&amp;group=mailer"' in text
