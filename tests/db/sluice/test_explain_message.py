"""Each reason is made to happen by real sessions; when its cause is removed, it is no longer returned.

Covers _find_message, _explain_claims, poison_message, _explain_key, _count_ahead, _may_read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from support import rows, value, wait_until
from support.explaining import commands, explain, sentences
from support.queue_options import NO_LIMITS, set_queue_options


@pytest.fixture
def queue(connection):
    connection.execute("select pgmq.create('orders')")
    return connection


@pytest.fixture
def send(queue):
    def send(key=None, delay=0):
        headers = None if key is None else f'{{"x-pgmq-group": "{key}"}}'
        return value(
            queue, "select pgmq.send('orders', '{\"secret\": 1}', %s::jsonb, %s)", headers, delay
        )

    return send


def explained(connection, msg_id):
    return explain(connection, "explain_message", "orders", msg_id)


def facts(connection, msg_id, section):
    return sentences(explained(connection, msg_id), section)


def state(connection, msg_id):
    return explained(connection, msg_id)[0].detail["state"]


def causes(connection, msg_id):
    return {
        fact.cause: fact.at for fact in explained(connection, msg_id) if fact.section == "reason"
    }


def claim(connection, vt=600, qty=1):
    return rows(
        connection,
        "select msg_id, read_ct from sluice.claim_messages('orders', %s, %s, 'w1')",
        vt,
        qty,
    )


def test_ready_message_has_no_reason_until_another_precedes_it(queue, send):
    first, second = send(), send()

    assert [fact.section for fact in explained(queue, first)] == [
        "state", "history", "reason", "next",
    ]  # fmt: skip
    assert state(queue, first) == "ready"
    assert list(causes(queue, first)) == ["no worker"]
    assert list(causes(queue, second)) == ["order"]
    assert "1 visible message with a lower id is claimed first" in facts(queue, second, "reason")

    claim(queue)

    assert list(causes(queue, second)) == ["no worker"]


def test_delayed_message_names_the_end_of_its_delay(queue, send):
    msg_id = send(delay=600)

    assert state(queue, msg_id) == "delayed"
    assert list(causes(queue, msg_id)) == ["delay"]
    left = causes(queue, msg_id)["delay"] - datetime.now(UTC)
    assert timedelta(seconds=500) < left < timedelta(seconds=700)

    queue.execute("select pgmq.set_vt('orders', %s, 0)", (msg_id,))

    assert list(causes(queue, msg_id)) == ["no worker"]


def test_message_that_is_never_visible_names_the_function_that_shows_it(queue, send):
    msg_id = send()
    queue.execute("update pgmq.q_orders set vt = 'infinity'")

    assert facts(queue, msg_id, "state") == [
        f"Message {msg_id} is in queue orders, delayed without an end"
    ]
    assert facts(queue, msg_id, "reason") == ["Its delay has no end"]
    assert facts(queue, msg_id, "next") == [
        "It stays invisible until pgmq.set_vt sets its visibility timeout"
    ]
    queue.execute("select pgmq.set_vt('orders', %s, 0)", (msg_id,))

    assert state(queue, msg_id) == "ready"


def test_claimed_message_names_the_end_of_its_lease(queue, send):
    msg_id = send()
    claim(queue)

    assert state(queue, msg_id) == "in flight"
    assert list(causes(queue, msg_id)) == ["lease"]
    assert value(queue, "select vt from pgmq.q_orders") == causes(queue, msg_id)["lease"]
    assert "Claimed once" in facts(queue, msg_id, "history")

    queue.execute("select sluice.archive('orders', %s, 1)", (msg_id,))

    assert state(queue, msg_id) == "archived"
    assert causes(queue, msg_id) == {}


def test_second_attempt_names_the_worker_that_runs_it(queue, send):
    msg_id = send()
    claim(queue, vt=0)
    claim(queue)
    queue.execute(
        "select sluice.begin_attempts('orders', array[%s]::bigint[], '{2}', 'w2')", (msg_id,)
    )

    assert "Worker w2 runs it; its lease ends" in facts(queue, msg_id, "reason")
    assert "2 of 5 attempts used" in facts(queue, msg_id, "history")


def test_running_message_names_the_handler_and_process_that_run_it(queue, send):
    msg_id = send()
    claim(queue)
    queue.execute(
        "select sluice.report_worker('w', 'shop', 'host7', 42, '1', array['queue orders'], 4, '1 s', jsonb_build_array("
        "jsonb_build_object('handler', 'pack', 'queue', 'orders', 'msg_id', %s::bigint, 'running_s', 1)), '{}', pg_backend_pid())",
        (msg_id,),
    )

    assert list(causes(queue, msg_id)) == ["lease", "running"]
    assert "Handler pack runs it in worker shop on host host7, pid 42, since" in facts(
        queue, msg_id, "reason"
    )


def test_killed_worker_that_holds_the_lease_is_named(queue, send, database):
    msg_id = send()
    claim(queue)
    with database.connect() as session:
        session.execute(
            "select sluice.report_worker('w', 'shop', 'host7', 42, '1', array['queue orders'], 4, '1 s', jsonb_build_array("
            "jsonb_build_object('handler', 'pack', 'queue', 'orders', 'msg_id', %s::bigint, 'running_s', 1)), '{}', pg_backend_pid())",
            (msg_id,),
        )
        assert "not live any more" not in str(facts(queue, msg_id, "reason"))

    sentence = "Handler pack runs it in worker shop on host host7, pid 42, which is not live any more, since"
    wait_until(
        lambda: sentence in facts(queue, msg_id, "reason"), "the end of the session to be seen"
    )


def test_message_that_was_claimed_a_hundred_times_is_archived_by_the_named_command(queue, send):
    msg_id = send()
    queue.execute("select pgmq.read('orders', 0, 1) from generate_series(1, 99)")
    assert "poison message" not in causes(queue, msg_id)
    claim(queue)
    assert list(causes(queue, msg_id)) == ["poison message", "lease"]
    assert (
        f"Message {msg_id} was claimed 100 times and never acknowledged; it was last claimed"
        in facts(queue, msg_id, "reason")
    )

    assert commands(explained(queue, msg_id)) == [f"pgsluice queue archive orders {msg_id}"]
    queue.execute("select pgmq.archive('orders', %s::bigint)", (msg_id,))

    assert causes(queue, msg_id) == {}


def test_message_that_its_handler_releases_again_and_again_is_no_poison_message(queue, send):
    msg_id = send()
    queue.execute("update pgmq.q_orders set read_ct = 99")
    claim(queue)
    queue.execute(
        "select sluice.begin_attempts('orders', array[%s]::bigint[], '{100}', 'w')", (msg_id,)
    )
    queue.execute(
        "select sluice.release('orders', array[%s]::bigint[], '{100}', is_attempt => false)",
        (msg_id,),
    )

    assert "poison message" not in causes(queue, msg_id)


def test_expired_lease_is_named_until_the_message_is_claimed_again(queue, send):
    msg_id = send()
    claim(queue, vt=0)

    assert state(queue, msg_id) == "ready"
    assert "its lease expired" in facts(queue, msg_id, "state")[0]

    claim(queue)

    assert state(queue, msg_id) == "in flight"


def test_failed_message_waits_for_its_back_off_and_shows_its_error(queue, send):
    msg_id = send()
    claim(queue)
    queue.execute(
        "select sluice.fail('orders', jsonb_build_array(jsonb_build_object("
        "'msg_id', %s::bigint, 'read_ct', 1, 'delay', 300, 'error_type', 'ValueError', 'error', 'bad')), 'w1')",
        (msg_id,),
    )

    assert state(queue, msg_id) == "retrying"
    assert list(causes(queue, msg_id)) == ["back-off"]
    assert "It failed; its back-off before attempt 2 of 5 ends" in facts(queue, msg_id, "reason")
    assert "Last error: ValueError: bad" in facts(queue, msg_id, "history")

    queue.execute("select pgmq.set_vt('orders', %s, 0)", (msg_id,))

    assert list(causes(queue, msg_id)) == ["no worker"]


def test_released_message_waits_for_its_delay(queue, send):
    msg_id = send()
    claim(queue)
    queue.execute("select sluice.release('orders', %s, 1, 300)", (msg_id,))

    assert state(queue, msg_id) == "released"
    assert list(causes(queue, msg_id)) == ["delay"]

    queue.execute("update pgmq.q_orders set vt = 'infinity'")

    assert facts(queue, msg_id, "state") == [
        f"Message {msg_id} is in queue orders: it was released unprocessed, with a delay that has no end"
    ]
    assert facts(queue, msg_id, "reason") == ["Its delay has no end"]


def test_dead_letter_names_its_reason_and_the_redrive_that_returns_it(queue, send):
    msg_id = send()
    claim(queue)
    queue.execute("select sluice.reject('orders', %s, 1, 'bad shape', 'trace')", (msg_id,))

    assert state(queue, msg_id) == "dead"
    assert "It was dead-lettered: bad shape" in facts(queue, msg_id, "reason")

    dead_letter_id = value(queue, "select dead_letter_id from sluice.dead_letter")
    assert commands(explained(queue, msg_id)) == [
        f"pgsluice dead-letters redrive orders {dead_letter_id}"
    ]
    queue.execute("select sluice.redrive('orders')")
    new = value(queue, "select msg_id from pgmq.q_orders")

    assert state(queue, msg_id) == "gone"
    assert state(queue, int(new)) == "ready"
    assert facts(queue, int(new), "history") == [
        f"Sent by the redrive of message {msg_id} of queue orders"
    ]


def test_message_of_a_schedule_names_it(queue):
    queue.execute("select sluice.schedule('nightly', 'orders', '{}', every => '1 hour')")
    queue.execute("select sluice.run_schedule('nightly')")

    assert facts(queue, 1, "history") == ["Sent by schedule nightly"]


@pytest.mark.parametrize("is_archived", [True, False], ids=["archived", "deleted"])
def test_message_with_a_kept_result_names_its_end(queue, send, is_archived):
    msg_id = send()
    queue.execute("select pgmq.read('orders', 30, 1)")
    queue.execute(
        "select sluice.finish('orders', %s, '{1}', '[1]', '1 day', %s)", [[msg_id], is_archived]
    )
    kept = "The kept result of its handler expires"
    assert kept in facts(queue, msg_id, "next")

    queue.execute("update sluice.result set expires_at = now()")
    assert kept not in facts(queue, msg_id, "next")


def test_archived_message_names_retention_and_exports(queue, send):
    msg_id = send()
    claim(queue)
    queue.execute("select pgmq.archive('orders', %s::bigint)", (msg_id,))
    assert "It stays in the archive: the queue has no retention" in facts(queue, msg_id, "next")

    set_queue_options(queue, "orders", archive_retention="1 day")
    queue.execute("select sluice.create_export('orders', 'lake', '/lake/orders', 'id')")

    assert "Not yet verified by export lake in /lake/orders" in facts(queue, msg_id, "history")
    assert explained(queue, msg_id)[-1].at == value(
        queue, "select archived_at + '1 day' from pgmq.a_orders"
    )


@pytest.mark.parametrize(
    ("msg_id", "expected", "fact"),
    [
        (0, "unknown", "Queue orders never had a message 0: ids start at 1"),
        (3, "unknown", "Queue orders never had a message 3: the newest is 2"),
        (1, "gone", "its id was used, the newest is 2"),
    ],
)
def test_id_without_a_message_is_explained_by_the_newest(queue, send, msg_id, expected, fact):
    send(), send()
    queue.execute("select pgmq.delete('orders', 1)")

    assert state(queue, msg_id) == expected
    assert fact in facts(queue, msg_id, "state")[0]


def test_row_locked_by_an_open_transaction_names_its_session(queue, send, database):
    msg_id = send()
    with database.connect(autocommit=False) as other:
        other.execute("select pgmq.archive('orders', %s::bigint)", (msg_id,))

        assert list(causes(queue, msg_id)) == ["row locked"]
        assert f"pid {other.info.backend_pid}" in facts(queue, msg_id, "reason")[0]
        other.rollback()

    assert list(causes(queue, msg_id)) == ["no worker"]


def test_concurrency_limit_is_named_while_it_is_reached(queue, send):
    first, second = send(), send()
    set_queue_options(queue, "orders", fleet_concurrency=1)
    claim(queue)

    assert list(causes(queue, second)) == ["concurrency limit"]

    queue.execute("select pgmq.delete('orders', %s::bigint)", (first,))

    assert list(causes(queue, second)) == ["no worker"]


def test_rate_limit_is_named_with_the_time_of_the_next_claim(queue, send):
    _, second = send(), send()
    set_queue_options(queue, "orders", rate=1, rate_interval="10 minutes")
    claim(queue)

    assert list(causes(queue, second)) == ["rate limit"]
    assert causes(queue, second)["rate limit"] == value(
        queue, "select started_at + '10 minutes' from sluice.queue_start"
    )
    set_queue_options(queue, "orders", **NO_LIMITS)

    assert list(causes(queue, second)) == ["no worker"]


def test_claim_in_an_open_transaction_is_named_as_it_blocks_the_others(queue, send, database):
    _, second = send(), send()
    set_queue_options(queue, "orders", fleet_concurrency=5)
    claim(queue)
    with database.connect(autocommit=False) as other:
        other.execute("select sluice.claim_messages('orders', 30, 0)")

        assert "limits locked" in causes(queue, second)
        other.rollback()

    assert list(causes(queue, second)) == ["no worker"]


def test_table_lock_is_named(queue, send, database):
    msg_id = send()
    with database.connect(autocommit=False) as other:
        other.execute("lock table pgmq.q_orders in exclusive mode")

        assert list(causes(queue, msg_id)) == ["table locked"]
        other.rollback()

    assert list(causes(queue, msg_id)) == ["no worker"]


def test_key_at_its_limit_names_the_message_in_flight(queue, send):
    first, second = send("k"), send("k")
    set_queue_options(queue, "orders", key_concurrency=1)
    claim(queue)

    assert list(causes(queue, second)) == ["key in flight"]
    assert facts(queue, second, "reason") == [
        f"Message {first} of key 'k' is in flight; its lease ends"
    ]

    queue.execute("select pgmq.delete('orders', %s::bigint)", (first,))

    assert list(causes(queue, second)) == ["no worker"]


@pytest.mark.parametrize(
    ("when_waiting", "cause"),
    [("block", "key retrying"), ("park", "key parked"), ("skip", "no worker")],
)
def test_key_of_a_waiting_message_blocks_by_its_policy(queue, send, when_waiting, cause):
    first, second = send("k"), send("k")
    set_queue_options(queue, "orders", when_waiting=when_waiting)
    claim(queue)
    queue.execute("select sluice.release('orders', %s, 1, 600)", (first,))
    if when_waiting == "park":
        claim(queue)  # parks it

    assert list(causes(queue, second)) == [cause]

    set_queue_options(queue, "orders", **NO_LIMITS)
    assert list(causes(queue, second)) == ["no worker"]


def test_parked_key_is_unparked_by_the_named_command(queue, send):
    first, second = send("k"), send("k")
    set_queue_options(queue, "orders", when_waiting="park")
    claim(queue)
    queue.execute("select sluice.release('orders', %s, 1, 600)", (first,))
    claim(queue)

    assert commands(explained(queue, second)) == ["pgsluice queue retry --key=k orders"]
    queue.execute("select sluice.unpark_key('orders', 'k')")

    assert set(causes(queue, second)) == {"order"}


def test_earlier_message_of_a_key_precedes_it(queue, send):
    first, second = send("k"), send("k")
    set_queue_options(queue, "orders", when_waiting="block")

    assert set(causes(queue, second)) == {"key order", "order"}

    queue.execute("select pgmq.delete('orders', %s::bigint)", (first,))
    assert set(causes(queue, second)) == {"no worker"}


def test_fifo_group_names_the_message_before_it(queue, send):
    first, second = send("k"), send("k")
    queue.execute("select pgmq.create_fifo_index('orders')")
    queue.execute("select * from pgmq.read_grouped_head('orders', 600, 1)")

    assert list(causes(queue, second)) == ["key"]
    assert f"Message {first} precedes it in key 'k'" in facts(queue, second, "reason")[0]

    queue.execute("select pgmq.delete('orders', %s::bigint)", (first,))
    assert list(causes(queue, second)) == ["no worker"]


def test_micro_batch_of_a_stream_is_named(queue, send):
    msg_id = send()
    stream = value(queue, "select stream_id from sluice.queue_stream_start('spark', 'orders')")
    queue.execute("select sluice.queue_stream_claim(%s, 0, 10)", (stream,))

    assert list(causes(queue, msg_id)) == ["stream"]


def test_contents_keys_and_errors_are_hidden_from_monitors(queue, send, as_member):
    msg_id = send("customer 5")
    send("customer 5")
    set_queue_options(queue, "orders", when_waiting="block")
    claim(queue)
    queue.execute(
        'select sluice.fail(\'orders\', \'[{"msg_id": 1, "read_ct": 1, "delay": 60, "error_type": "KeyError", '
        '"error": "customer 5"}]\')'
    )
    query = "select cause, detail::text from sluice.explain_message('orders', {})"

    for known in (msg_id, 2):
        shown = str(as_member("sluice_reader", query.format(known)))
        assert "customer 5" in shown
        assert "secret" not in shown
        hidden = str(as_member("sluice_monitor", query.format(known)))
        assert "customer 5" not in hidden
    assert "KeyError" in str(as_member("sluice_monitor", query.format(msg_id)))
    assert "key retrying" in hidden
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", query.format(msg_id))


def test_queue_that_does_not_exist_is_an_error(connection):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist"):
        connection.execute("select * from sluice.explain_message('missing', 1)")
