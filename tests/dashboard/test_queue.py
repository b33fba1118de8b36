"""The page of a queue: figures, charts, failing messages, settings, workers and actions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgsluice import FailedMessage, Operations
from pgsluice.dashboard.pages import queue as queue_page
from support.dashboard import make_world


@pytest.fixture
def orders(work):
    """The queue `orders`: 1 failed, 2 is in flight, 3 is ready, 4 is delayed."""
    work.create("orders")
    work.send_batch("orders", [1, 2, 3])
    work.send("orders", 4, delay=600)
    first, _ = work.read("orders", 600, 2)
    failed = FailedMessage(first, error_type="KeyError", error="<b>row 7 is missing</b>")
    work.fail("orders", [failed])
    return "orders"


def test_states_failing_messages_and_reasons_are_shown(client, orders):
    text = client.get("/queue?name=ORDERS").text

    assert "<h1>Queue orders</h1>" in text
    assert "KeyError" in text
    assert "&lt;b&gt;row # is missing&lt;/b&gt;" in text
    assert "/message?queue=orders&amp;msg_id=1" in text
    assert "No live worker is registered for queue orders" in text
    for state in ("visible", "in+flight", "delayed"):
        assert f"/messages?queue=orders&amp;state={state}" in text


def test_explanation_is_first_on_the_page_of_a_queue_in_trouble_and_charts_else(client, connection):
    make_world(connection)

    def is_explained_first(name):
        text = client.get(f"/queue?name={name}").text
        return text.index("Explanation</h2>") < text.index("Over time</h2>")

    # Paused, with dead letters, and with a parked key.
    names = ("orders", "held", "failed", "keyed")
    assert [is_explained_first(name) for name in names] == [False, True, True, True]


def test_policies_that_handlers_declare_are_shown_beside_that_of_the_queue(
    client, connection, work, orders
):
    connection.execute(
        "select sluice.report_worker('w', 'shop', 'h', 1, '1', array['queue orders'], null, '1 s', '[]', '{}', null, "
        """'[{"source": "queue orders", "handler": "ship", "max_attempts": 20, "backoff": "constant", '
        '"backoff_base": 600, "backoff_max": 600, "backoff_factor": 2, "backoff_jitter": false}]')"""
    )

    text = client.get("/queue?name=orders").text

    assert "Retries by ship of shop</th><td>20 attempts, constant back-off of 10 min" in text
    assert "Retries by other handlers</th><td>5 attempts" in text
    assert "of 20 attempts used" in client.get("/message?queue=orders&msg_id=1").text


def test_settings_are_shown(client, connection, work, orders):
    work.set_queue_options(
        orders,
        max_attempts=9,
        backoff="linear",
        archive_retention=timedelta(days=3),
        deduplication_window=timedelta(minutes=5),
        fleet_concurrency=12,
        rate=70,
        rate_interval=timedelta(minutes=2),
        priority_weights=[16, 4],
    )
    Operations(connection).enable_notify_insert(orders, throttle_interval_ms=750)

    text = client.get("/queue?name=orders").text

    for shown in (
        "9 attempts, linear back-off",
        "3 d",
        "5 min",
        "at most one in 750 ms",
        "12 messages in flight over all processes, 1 now",
        "70 messages in 2 min, 0 in the last",
        "priorities with weights 16, 4",
    ):
        assert shown in text


@pytest.mark.parametrize(("span", "every"), [("hour", 10), ("day", 60), ("month", 900)])
def test_samples_are_drawn_as_charts(client, connection, orders, span, every):
    slot = {10: 0, 60: 3, 900: 6}[every]
    connection.execute(
        "insert into sluice.sample (slot, source_id, taken_at, length, ready, in_flight, delayed, sent, finished, dead) "
        "select %s, hash_record_extended(row('queue'::text, 'orders'::text, ''::text), 0), "
        "now() - make_interval(secs => (20 - n) * %s), n, n, 0, 0, 100 * n, 90 * n, 0 from generate_series(1, 19) as n",
        (slot, every),
    )

    text = client.get(f"/queue?name=orders&span={span}").text

    assert text.count("<svg viewBox") == 4
    assert 'aria-label="Messages per second"' in text
    assert f"sent <b>{100 / every:.2g}</b>" in text or f"sent <b>{round(100 / every)}</b>" in text


def test_pause_is_shown_with_its_reason(client, work, orders):
    work.set_queue_options(orders, paused=True, pause_reason="provider <down>")

    assert "provider &lt;down&gt;" in client.get("/queue?name=orders").text


def test_blocked_keys_are_listed(acting, work, connection):
    work.create("orders")
    work.set_queue_options("orders", when_waiting="park")
    work.send_batch("orders", [1, 2], headers=[{"x-pgmq-group": "k<1>"}] * 2)
    claim = "select msg_id, read_ct from sluice.claim_messages('orders', 600, 1)"
    ((msg_id, read_ct),) = connection.execute(claim).fetchall()
    work.release("orders", msg_id, read_ct, delay=600)
    assert connection.execute(claim).fetchall() == []

    text = acting.get("/queue?name=orders").text

    assert "k&lt;1&gt;" in text
    assert "/act/unpark_messages?queue=orders&amp;key=k%3C1%3E" in text


def test_actions_are_offered_only_where_they_are_allowed(client, acting, orders):
    assert "/act/" not in client.get("/queue?name=orders").text
    text = acting.get("/queue?name=orders").text
    for act in ("send", "pause_queue", "set_retention", "purge_queue"):
        assert f"/act/{act}?queue=orders" in text


def test_missing_queue_is_not_found(client):
    shown = client.get("/queue?name=<i>")

    assert shown.status_code == 404
    assert "queue &#34;&lt;i&gt;&#34; does not exist" in shown.text


def test_monitor_sees_figures_and_no_errors(monitor, orders):
    text = monitor.get("/queue?name=orders").text

    assert "Queue orders has 4 messages" in text
    assert "5 attempts, exponential back-off" in text
    assert "sluice_reader" in text
    assert "is missing" not in text


def test_too_many_failing_messages_leave_the_rest_of_the_page(
    client, connection, orders, monkeypatch
):
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[20000]))")
    connection.execute(
        "insert into sluice.attempt (queue_name, msg_id, enqueued_at, read_ct, state, attempts, error, check_at) "
        "select 'orders', m.msg_id, m.enqueued_at, 1, 'failed', 1, 'e', now() from pgmq.q_orders as m where m.msg_id > 4"
    )
    monkeypatch.setattr(queue_page, "_FAILING_MS", 5)

    text = client.get("/queue?name=orders").text

    assert "too many messages fail" in text
    assert "5 attempts, exponential back-off" in text


def test_part_that_is_locked_leaves_the_others(opened, connection, orders):
    impatient = opened(timeout_s=0.3)
    with connection.transaction():
        connection.execute("lock table sluice.attempt in access exclusive mode")
        text = impatient.get("/queue?name=orders").text

    assert "locked by another transaction" in text
    assert "5 attempts, exponential back-off" in text
