"""The overview: figures, doctor's findings, and the queues in trouble."""

from __future__ import annotations

import re

import pytest

from pgsluice.client import ShareGroup
from support import wait_until

AGAIN = "select setval('sluice.sample_turn', 1)"
REPORT = "select sluice.report_worker(%s, 'shop', 'host-1', 1, '1', array['queue orders'], 4, %s::interval)"


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
            r"pause\"><time .* by role .*: &lt;b&gt;bank is down&lt;/b&gt;</small>", text
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
    logs.create("audit")
    logs.register_consumer("audit", "etl")
    ShareGroup(connection, "audit", "mailer").create(start="earliest")
    logs.insert_event("audit", "t", "1")
    logs.log_tick("audit")
    connection.execute("select sluice.take_samples('10 s')")

    text = client.get("/").text

    assert 'href="/consumer?log=audit&amp;consumer=etl"' in text
    assert 'href="/group?log=audit&amp;group=mailer"' in text


def section(text, title):
    """Return the part of a page below a heading."""
    return re.split(r"<h2>", text.split(f"<h2>{title}</h2>")[1])[0]


def changed(client):
    return section(client.get("/").text, "Changed in the last ten minutes")


def test_last_hour_of_all_queues_is_drawn(client, connection, work):
    for name in ("orders", "mails"):
        work.create(name)
        work.send_batch(name, [1, 2])
    connection.execute("select sluice.take_samples('10 s')")
    connection.execute("update sluice.sample set taken_at = taken_at - interval '1 minute'")
    work.send_batch("mails", [3] * 60)
    connection.execute(AGAIN)
    connection.execute("select sluice.take_samples('10 s')")

    drawn = section(client.get("/").text, "Last hour, all queues")

    assert re.search(r"ready <b>64</b>", drawn)
    # Sixty messages in a minute and the moments between.
    assert 0.3 < float(re.search(r"sent <b>([\d.]+)</b>", drawn)[1]) <= 1
    for title in ("Messages per second", "Age of the oldest ready message"):
        assert f"<figcaption>{title}</figcaption><svg" in drawn


def test_figures_have_links_to_what_they_count(client, connection, work):
    for name, count in (("few", 1), ("many", 3), ("none", 0)):
        work.create(name)
        for _ in range(count):
            work.send(name, 1)
    connection.execute("select sluice.take_samples('10 s')")

    text = client.get("/").text
    shown = client.get("/queues?order=ready").text

    assert '<a href="/queues?order=ready">4</a>' in text
    assert '<a href="/dead-letters">0</a>' in text
    assert '<a href="/workers">0</a>' in text
    assert shown.index(">many<") < shown.index(">few<")
    assert ">none<" not in shown
    assert client.get("/queues?order=x").text.index(">few<") > 0


@pytest.mark.parametrize(("age", "is_said"), [("2 minutes", True), ("1 second", False)])
def test_figures_that_are_outdated_say_their_age(client, connection, work, age, is_said):
    work.create("orders")
    connection.execute("select sluice.take_samples('10 s')")
    connection.execute("update sluice.sample set taken_at = now() - %s::interval", (age,))

    text = client.get("/").text

    assert ("Newer ones are taken by" in text) is is_said
    assert bool(re.search(r"2 min( \d+ s)? ago", text)) is is_said


def test_queue_without_figures_is_named_as_such(client, connection, work):
    work.create("orders")
    connection.execute("select sluice.take_samples('10 s')")
    work.create("new")

    assert "Without 1 queue that had no samples" in client.get("/").text


def test_changes_of_the_last_ten_minutes_are_listed_newest_first(client, connection, work, logs):
    work.create("orders")
    logs.create("audit")
    logs.register_consumer("audit", "etl")
    for worker_id, uptime in (("old", "1 hour"), ("new", "1 minute"), ("gone", "2 hours")):
        connection.execute(REPORT, (worker_id, uptime))
    connection.execute("select sluice.end_worker('gone')")
    connection.execute(
        "update sluice.process_report set reported_at = now() - interval '3 minutes' where process_id = 'old'"
    )
    work.set_queue_options("orders", paused=True)
    work.set_queue_options("orders", paused=False)
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason, error_type, dead_at) "
        "select 'orders', n, 5, now(), '1', 'too many attempts', case when n < 4 then 'KeyError' else 'Old' end, "
        "case when n < 4 then now() else now() - interval '11 minutes' end from generate_series(1, 5) as n"
    )
    connection.execute("select sluice._note_failure('rotate', 'audit', null, 'disk full (53100)')")
    logs.unregister_consumer("audit", "etl")

    text = changed(client)

    me = connection.info.user
    expected = (
        f"consumer etl of log audit dropped by {me}",
        "maintenance rotate of audit failed",
        "3 dead letters of queue orders: KeyError",
        f"queue orders resumed by {me}",
        f"queue orders paused by {me}",
        "worker shop on host-1 ended",
        "worker shop on host-1 started",
        "worker shop on host-1 reported last: it is lost",
    )
    for sentence in expected:
        assert sentence in text
    assert text.index(expected[3]) < text.index(expected[4]) < text.index(expected[-1])
    assert "Old" not in text
    assert 'href="/dead-letters?queue=orders&amp;error_type=KeyError"' in text
    assert 'href="/workers?worker=new"' in text
    assert 'href="/audit?queue=orders"' in text
    assert text.count("started") == 1


def test_changes_are_bounded(client, connection):
    connection.execute(
        "select sluice.note_action('send', 'q' || n, null, null, null) from generate_series(1, 200) as n"
    )

    text = changed(client)

    assert text.count("<li>") == 30
    assert "The newest 30 of 50 or more." in text


def test_text_of_a_change_is_escaped(client, connection):
    connection.execute("select sluice.note_action('<script>', '<b>', null, null, null)")

    assert "&lt;script&gt; of &lt;b&gt;" in changed(client)


def test_changes_that_a_monitor_may_not_read_are_named(monitor, connection):
    connection.execute(REPORT, ("new", "1 minute"))

    text = changed(monitor)

    assert "started" in text
    assert "Without actions of operators" in text
    assert "Without dead letters" in text
