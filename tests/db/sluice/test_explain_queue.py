"""Facts about a queue; the reasons that it shares with its messages are in test_explain_message.py.

Covers poison_message, _explain_failures, _explain_workers.
"""

from __future__ import annotations

import time

import psycopg
import pytest

from support.explaining import causes, commands, explain, sentences
from support.queue_options import set_queue_options


def explained(connection):
    return explain(connection, "explain_queue", "orders")


@pytest.fixture
def queue(connection):
    connection.execute("select pgmq.create('orders')")
    return connection


def test_empty_queue_has_nothing_to_claim(queue):
    assert sentences(explained(queue), "state") == ["Queue orders is empty"]
    assert causes(explained(queue)) == ["empty"]

    queue.execute("select pgmq.send('orders', '1')")

    assert sentences(explained(queue), "state")[0].startswith(
        "Queue orders has 1 message: 1 visible"
    )
    assert causes(explained(queue)) == ["no worker"]
    assert commands(explained(queue)) == ["pgsluice worker run MODULE:APP --queues orders"]


def test_messages_are_counted_by_state(queue):
    queue.execute("select pgmq.send('orders', '1') from generate_series(1, 4)")
    queue.execute("select pgmq.send('orders', '1', 300)")
    queue.execute("select sluice.claim_messages('orders', 600, 2)")
    queue.execute("select sluice.release('orders', 2, 1, 300)")

    assert sentences(explained(queue), "state") == [
        "Queue orders has 5 messages: 2 visible, 1 in flight, 1 waiting for a retry or the delay of a release, 1 delayed",
        "The oldest visible message became visible",
    ]
    assert sentences(explained(queue), "next")[1:] == [
        "The next lease expires, unless its worker settles or renews it",
        "The next delayed message or retry becomes visible",
    ]

    queue.execute("select pgmq.delete('orders', array[3, 4]::bigint[])")

    assert causes(explained(queue)) == ["none visible"]


def test_expired_leases_are_named_until_they_are_claimed_again(queue):
    queue.execute("select pgmq.send('orders', '1')")
    queue.execute("select sluice.claim_messages('orders', 0, 1)")
    assert "expired leases" in causes(explained(queue))
    assert "1 lease expired without an outcome" in sentences(explained(queue), "reason")

    queue.execute("select sluice.claim_messages('orders', 600, 1)")

    assert causes(explained(queue)) == ["none visible"]


def test_poison_message_is_named_until_it_is_archived(queue):
    queue.execute("select pgmq.send('orders', '1') from generate_series(1, 3)")
    queue.execute("update pgmq.q_orders set read_ct = msg_id * 50 where msg_id < 3")

    (poison,) = (fact for fact in explained(queue) if fact.cause == "poison message")
    assert (poison.detail["msg_id"], poison.detail["read_ct"]) == (2, 100)
    assert poison.commands == ("pgsluice queue archive orders 2",)
    queue.execute("select pgmq.archive('orders', 2)")

    assert causes(explained(queue)) == ["no worker"]


def test_parked_keys_and_failures_of_maintenance_are_named(queue):
    queue.execute(
        "select pgmq.send('orders', '1', '{\"x-pgmq-group\": \"k\"}'::jsonb) from generate_series(1, 2)"
    )
    set_queue_options(queue, "orders", when_waiting="park")
    queue.execute("select sluice.claim_messages('orders', 600, 1)")
    queue.execute("select sluice.release('orders', 1, 1, 600)")
    queue.execute("select sluice.claim_messages('orders', 600, 1)")
    queue.execute("select sluice._note_failure('retention', 'orders', null, 'no space')")

    assert {"keys parked", "maintenance failure"} <= set(causes(explained(queue)))

    queue.execute("select sluice.unpark_key('orders', 'k')")
    queue.execute("select sluice._note_failure('retention', 'orders', null, null)")

    # The message is due at once, as after an expired lease.
    assert causes(explained(queue)) == ["expired leases", "no worker"]


def test_pause_is_named_with_its_author_until_the_queue_is_resumed(queue):
    queue.execute("select pgmq.send('orders', '1')")
    set_queue_options(queue, "orders", paused=True, pause_reason="printer on fire")

    assert causes(explained(queue)) == ["paused"]
    assert sentences(explained(queue), "reason")[0].endswith(": printer on fire")

    assert commands(explained(queue)) == ["pgsluice queue set orders paused=false"]
    set_queue_options(queue, "orders", paused=False)

    assert causes(explained(queue)) == ["no worker"]


def test_registered_workers_are_counted(queue):
    queue.execute("select pgmq.send('orders', '1')")
    queue.execute(
        "select sluice.report_worker('w', 'shop', 'h', 1, '1', array['queue orders'], 4, '1 s', '[]', '{}', "
        "pg_backend_pid())"
    )

    assert causes(explained(queue)) == ["none"]

    queue.execute("select sluice.end_worker('w')")

    assert causes(explained(queue)) == ["no worker"]


def test_dead_letters_of_the_last_day_show_the_last_error(queue):
    queue.execute("select pgmq.send('orders', '1')")
    queue.execute("select sluice.claim_messages('orders', 600, 1)")
    queue.execute("select sluice.reject('orders', 1, 1, 'bad', 'trace')")

    assert any(
        fact.startswith("1 dead letter in the last day")
        for fact in sentences(explained(queue), "history")
    )


def test_monitors_see_no_error_texts(queue, as_member):
    queue.execute("select sluice._note_failure('retention', 'orders', null, 'customer 5')")

    query = "select cause, detail::text from sluice.explain_queue('orders')"
    assert "customer 5" in str(as_member("sluice_reader", query))
    assert "customer 5" not in str(as_member("sluice_monitor", query))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", query)


def test_queue_that_does_not_exist_is_an_error(connection):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist"):
        connection.execute("select * from sluice.explain_queue('missing')")


@pytest.mark.long
@pytest.mark.parametrize("is_analyzed", [True, False])
def test_a_million_messages_are_explained_within_a_tenth_of_a_second(queue, is_analyzed):
    """Ready, delayed, in flight, expired and dead ones, of 1,000 keys in order; with and without statistics."""
    set_queue_options(queue, "orders", when_waiting="block", fleet_concurrency=10000, rate=10)
    queue.execute(
        "insert into pgmq.q_orders (vt, enqueued_at, read_ct, last_read_at, message, headers) "
        "select case n % 5 when 0 then now() + '1 hour' when 1 then now() - '1 hour'::interval when 2 then now() + '1 hour' else now() - '2 hours'::interval end, "
        "now() - '2 hours'::interval, case when n % 5 in (0, 1) then 1 else 0 end, case when n % 5 in (0, 1) then now() end, "
        "'{}', jsonb_build_object('x-pgmq-group', n % 1000) from generate_series(1, 1000000) as n"
    )
    queue.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) "
        "select 'orders', 2000000 + n, 1, now(), 'bad' from generate_series(1, 200000) as n"
    )
    if is_analyzed:
        queue.execute("vacuum analyze pgmq.q_orders, sluice.dead_letter")

    for query in (
        "select * from sluice.explain_queue('orders')",
        "select * from sluice.explain_message('orders', 999998)",
        "select * from sluice.explain_message('orders', 500000)",
        "select * from sluice.explain_message('orders', 2100000)",
    ):
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            queue.execute(query)
            taken.append(time.perf_counter() - start)
        assert min(taken) < 0.1, f"{query}: {taken}"
        print(f"{query}: {min(taken) * 1000:.1f} ms")


@pytest.mark.parametrize("due", ["- interval '1 hour'", "+ interval '1 hour'"])
def test_explanation_reads_few_of_many_delayed_messages_due_before_or_after_now(queue, due):
    queue.execute(
        "insert into pgmq.q_orders (enqueued_at, vt, message) "
        f"select now() - interval '2 hours', now() {due} + n * interval '1 ms', '1' "
        "from generate_series(1, 50000) as n"
    )
    queue.execute("analyze pgmq.q_orders")
    queue.execute("set track_counts = on")

    with queue.transaction():
        explained(queue)
        (entries,) = queue.execute(
            "select sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) from pg_index as i "
            "where i.indrelid = 'pgmq.q_orders'::regclass"
        ).fetchone()

    assert 1_000 <= entries < 25_000
