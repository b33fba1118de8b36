"""Checks of queues: each cause is made to happen, reported, and gone after the printed command."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from pgsluice import Operations, WorkQueue
from support import value, wait_until
from support.doctor import QUIET, Doctor, seen
from support.processes import running

READ_AND_SLEEP = """
import psycopg, sys, time
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute("select count(*) from pgmq.read('orders', 7200, 2)")
    print("read", flush=True)
    time.sleep(600)
"""
WORKER = """
from pgsluice.worker import App
app = App(name="shop")
@app.handler("orders")
def handle(message: dict) -> None:
    pass
"""


@pytest.fixture
def orders(connection):
    connection.execute("select pgmq.create('orders')")
    return connection


def send(connection, count=1, queue="orders", headers=None):
    connection.execute(
        "select count(*) from pgmq.send_batch(%s, array_fill('{}'::jsonb, array[%s]), array_fill(%s::jsonb, array[%s]))",
        (queue, count, headers, count),
    )


def fail_one(connection, delay):
    connection.execute(
        "select count(f) from pgmq.read('orders', 30, 1) as m, lateral sluice.fail('orders', jsonb_build_array("
        "jsonb_build_object('msg_id', m.msg_id, 'read_ct', m.read_ct, 'error', 'boom', 'delay', %s))) as f",
        (delay,),
    )


@pytest.mark.slow
def test_queue_that_nothing_reads_is_reported_until_a_worker_runs(
    doctor, orders, tmp_path, database_18
):
    send(orders, 3)
    assert seen(doctor.finding("undrained_queues")) == QUIET
    found = doctor.finding("undrained_queues", undrained_s=0)
    assert found.status == "warn"
    assert "queue 'orders': 3 messages ready since" in found.what
    assert found.what.endswith("last read: never")
    assert found.commands == ("pgsluice worker run MODULE:APP --queues orders",)

    (tmp_path / "shop.py").write_text(WORKER)
    arguments = found.commands[0].replace("MODULE:APP", "shop:app").split()[1:]
    command = [sys.executable, "-m", "pgsluice", *arguments]
    with running(command, tmp_path, PGSLUICE_DSN=database_18.url):
        wait_until(
            lambda: seen(doctor.finding("undrained_queues", undrained_s=0)) == QUIET,
            "the worker to read the queue",
        )


def test_queue_with_a_backlog_that_is_read_or_retried_or_delayed_is_not_reported(doctor, orders):
    send(orders, 3)
    orders.execute("select pgmq.archive('orders', msg_id) from pgmq.read('orders', 30, 1)")
    assert seen(doctor.finding("undrained_queues", undrained_s=0.0)) != QUIET
    assert seen(doctor.finding("undrained_queues", undrained_s=5)) == QUIET
    orders.execute("select pgmq.purge_queue('orders')")
    orders.execute("select pgmq.send('orders', '{}', 3600)")
    assert seen(doctor.finding("undrained_queues", undrained_s=0)) == QUIET
    send(orders, 2)
    fail_one(orders, 600)
    assert seen(doctor.finding("undrained_queues", undrained_s=0)) == QUIET


def test_messages_of_a_killed_reader_are_reported_until_they_are_visible(
    doctor, orders, database_18
):
    send(orders, 3)
    with subprocess.Popen(
        [sys.executable, "-c", READ_AND_SLEEP, database_18.url], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout.readline() == "read\n"
        reader.send_signal(signal.SIGKILL)
    assert seen(doctor.finding("held_messages")) == QUIET

    found = doctor.finding("held_messages", held_s=0)

    assert found.status == "warn"
    assert "queue 'orders': 2 messages were read long ago and invisible until" in found.what
    doctor.run(found)
    assert seen(doctor.finding("held_messages", held_s=0)) == QUIET
    assert value(orders, "select count(*) from pgmq.read('orders', 1, 10)") == 3


def test_delayed_and_retried_messages_are_not_reported_as_held(doctor, orders):
    send(orders, 1)
    orders.execute("select pgmq.send('orders', '{}', 7200)")
    fail_one(orders, 7200)

    assert seen(doctor.finding("held_messages", held_s=0)) == QUIET


def test_poison_message_is_reported_until_it_is_archived(doctor, orders):
    send(orders, 2)
    orders.execute("update pgmq.q_orders set read_ct = 98 where msg_id = 1")
    orders.execute("select count(*) from pgmq.read('orders', 0, 1)")
    assert seen(doctor.finding("poison_messages")) == QUIET
    orders.execute("select count(*) from pgmq.read('orders', 0, 1)")

    found = doctor.finding("poison_messages")

    assert found.what == "queue 'orders': message 1 was read 100 times and is never acknowledged"
    (fact,) = (
        fact
        for fact in Operations(orders).explain_queue("orders")
        if fact.cause == "poison message"
    )
    assert fact.detail == {"msg_id": 1, "read_ct": 100}
    doctor.run(found)
    assert seen(doctor.finding("poison_messages")) == QUIET


def test_message_that_a_handler_releases_again_and_again_is_not_reported(doctor, orders):
    send(orders)
    orders.execute("update pgmq.q_orders set read_ct = 100")
    orders.execute("select count(*) from sluice.claim_messages('orders', 30, 1)")
    orders.execute("select count(*) from sluice.begin_attempts('orders', '{1}', array[101], 'me')")
    orders.execute(
        "select count(*) from sluice.release('orders', '{1}', array[101], is_attempt => false)"
    )
    assert value(orders, "select read_ct from pgmq.q_orders") >= 100

    assert seen(doctor.finding("poison_messages")) == QUIET


def test_new_dead_letters_are_reported_until_they_are_redriven(doctor, orders):
    send(orders, 3)
    orders.execute(
        "select sluice.reject('orders', msg_id, read_ct, 'no such customer') from pgmq.read('orders', 30, 3)"
    )
    assert seen(doctor.finding("dead_letters")) == QUIET

    found = doctor.finding("dead_letters", dead_letters=3)

    assert found.status == "warn"
    assert "queue 'orders': new dead letters: 3, since" in found.what
    assert "no such customer" in found.what
    doctor.run(found)
    assert seen(doctor.finding("dead_letters", dead_letters=1)) == QUIET


def test_new_dead_letters_of_a_share_group_are_reported_until_they_are_redriven(doctor, orders):
    orders.execute("select pgq.create_queue('events')")
    orders.execute("select sluice.create_group('events', 'g')")
    orders.execute("select pgq.insert_event('events', 't', 'd')")
    orders.execute(
        "select sluice.acknowledge('events', 'g', claim_id, 'reject', reason => 'no such customer') "
        "from sluice.claim('events', 'g')"
    )

    found = doctor.finding("dead_letters", dead_letters=1)

    assert found.status == "warn"
    assert "consumer 'g' of log 'events': new dead letters: 1, since" in found.what
    assert "no such customer" in found.what
    doctor.run(found)
    assert seen(doctor.finding("dead_letters", dead_letters=1)) == QUIET


def test_parked_key_is_reported_until_it_is_unparked(doctor, orders):
    WorkQueue(orders).set_queue_options("orders", when_waiting="park")
    send(orders, 2, headers='{"x-pgmq-group": "customer 7"}')
    orders.execute("select sluice.claim_messages('orders', 30, 1)")
    assert seen(doctor.finding("parked_keys")) == QUIET
    orders.execute("select sluice.release('orders', 1, 1, 600)")
    orders.execute("select sluice.claim_messages('orders', 30, 1)")

    found = doctor.finding("parked_keys")

    assert found.status == "warn"
    assert found.commands == ("pgsluice queue retry '--key=customer 7' orders",)
    doctor.run(found)
    assert seen(doctor.finding("parked_keys")) == QUIET


def test_groups_without_fifo_indexes_are_reported_until_these_are_created(doctor, orders):
    send(orders, 5000, headers='{"x-pgmq-group": "a"}')
    orders.execute("select pgmq.create('plain')")
    send(orders, 5000, queue="plain")
    assert seen(doctor.finding("fifo_indexes", grouped_bytes=10 << 20)) == QUIET

    found = doctor.finding("fifo_indexes", grouped_bytes=100_000)

    assert found.what == "the messages of queue 'orders' have groups, and the queue no FIFO indexes"
    assert doctor.repair(found) == ["select pgmq.create_fifo_index('orders')"]
    assert seen(doctor.finding("fifo_indexes", grouped_bytes=100_000)) == QUIET


def test_keys_of_limits_need_no_fifo_indexes(doctor, orders):
    WorkQueue(orders).set_queue_options("orders", key_concurrency=1)
    send(orders, 1000, headers='{"x-pgmq-group": "a"}')

    assert seen(doctor.finding("fifo_indexes", grouped_bytes=0)) == QUIET


@pytest.mark.parametrize(
    "how",
    [
        "drop trigger trigger_notify_queue_insert_listeners on pgmq.q_orders",
        "alter table pgmq.q_orders disable trigger user",
    ],
)
def test_lost_notification_trigger_is_reported_until_it_is_created_again(doctor, orders, how):
    orders.execute("select pgmq.enable_notify_insert('orders', 100)")
    assert seen(doctor.finding("notify_triggers")) == QUIET
    orders.execute(how)

    found = doctor.finding("notify_triggers")

    assert found.status == "warn"
    assert doctor.repair(found) == ["select pgmq.enable_notify_insert('orders', 100)"]
    assert seen(doctor.finding("notify_triggers")) == QUIET
    orders.execute('listen "pgmq.q_orders.INSERT"')
    send(orders)
    assert [each.channel for each in orders.notifies(timeout=5, stop_after=1)] == [
        "pgmq.q_orders.INSERT"
    ]


def test_disabled_autovacuum_of_a_queue_is_reported_until_it_is_reset(doctor, orders):
    orders.execute("select pgmq.create_partitioned('by_id', '100', '1000')")
    assert seen(doctor.finding("storage_settings")) == QUIET
    orders.execute("alter table pgmq.q_orders set (autovacuum_enabled = off)")
    orders.execute("alter table pgmq.a_orders set (autovacuum_enabled = false)")

    found = doctor.finding("storage_settings")

    assert (
        found.what
        == "table pgmq.a_orders has autovacuum disabled; table pgmq.q_orders has autovacuum disabled"
    )
    doctor.repair(found)
    assert seen(doctor.finding("storage_settings")) == QUIET


def test_queue_table_without_storage_settings_is_reported_until_they_are_set(doctor, orders):
    orders.execute(
        "alter table pgmq.q_orders reset (autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor, "
        "autovacuum_vacuum_cost_delay)"
    )

    found = doctor.finding("storage_settings")

    assert found.what == "table pgmq.q_orders has no settings of autovacuum for a queue"
    doctor.repair(found)
    assert seen(doctor.finding("storage_settings")) == QUIET
    [options] = orders.execute(
        "select reloptions from pg_class where relname = 'q_orders'"
    ).fetchone()
    assert "autovacuum_vacuum_scale_factor=0.01" in options


def test_large_archive_without_retention_is_reported_until_it_has_one(doctor, orders):
    send(orders, 500)
    orders.execute("select count(pgmq.archive('orders', msg_id)) from pgmq.read('orders', 30, 500)")
    assert seen(doctor.finding("archives")) == QUIET

    found = doctor.finding("archives", archive_bytes=10_000)

    assert found.status == "warn"
    assert not found.is_fixable
    assert found.commands == ("pgsluice queue set orders archive_retention=30d",)
    doctor.run(found)
    assert seen(doctor.finding("archives", archive_bytes=10_000)) == QUIET


def test_rows_in_a_default_partition_are_reported_until_maintenance_moves_them(doctor, connection):
    connection.execute("select pgmq.create_partitioned('by_id', '10', '1000')")
    send(connection, 5, queue="by_id")
    assert seen(doctor.finding("partitions")) == QUIET
    send(connection, 200, queue="by_id")

    found = doctor.finding("partitions")

    assert found.status == "warn"
    assert "rows of pgmq.q_by_id are in its default partition" in found.what
    assert doctor.repair(found) == ["select sluice.maintain()"]

    def is_quiet():
        again = doctor.finding("partitions")
        return seen(again) == QUIET or not doctor.repair(again)

    wait_until(is_quiet, "all partitions to be created")  # each call does a part


def test_abandoned_stage_is_reported_until_it_is_dropped(doctor, connection):
    connection.execute("select sluice.create_stage('importer', 1, array['message'])")
    assert seen(doctor.finding("stages")) == QUIET
    connection.execute("create table sluice.stage_999 ()")
    assert doctor.finding("stages").what == "table sluice.stage_999 belongs to no stage"

    found = doctor.finding("stages", stage_s=0)

    assert "of sink 'importer' is from" in found.what
    doctor.repair(found)
    assert seen(doctor.finding("stages", stage_s=0)) == QUIET
    assert value(connection, "select count(*) from sluice.stage") == 0


@pytest.mark.slow
def test_message_from_the_future_is_reported_until_it_is_gone(clock_database, clock):
    shifted = Doctor(clock_database.url)
    with clock_database.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        send(connection)
        assert seen(shifted.finding("message_times")) == QUIET
        clock.set(3600)
        send(connection)
        clock.set(0)
        assert "queue 'orders': its newest message is from" in shifted.finding("message_times").what
        connection.execute("select pgmq.purge_queue('orders')")
    assert seen(shifted.finding("message_times")) == QUIET
