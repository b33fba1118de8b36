"""Log lines of failed attempts match the server's state, for queues, share groups and consumers."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest

from pgsluice import EventConsumer, EventLog, RetryPolicy, ShareGroup, WorkQueue
from pgsluice.worker.engine.settle import failure_log
from pgsluice.worker.handlers.handler import ConsumerRoute, Execution, GroupRoute, QueueRoute
from support import value
from support.sources import spec
from worker.test_consumer_lane import work

TABLE_ERROR = 'error="UndefinedTable: relation \\"packed\\" does not exist'


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [r.getMessage() for r in caplog.records if r.name == failure_log.logger.name]


@pytest.fixture
def log_name(observer, queue_name):
    name = f"log_{queue_name}"
    observer.execute("select pgq.create_queue(%s)", [name])
    return name


def tick(observer, log_name):
    observer.execute("select pgq.force_tick(%s)", [log_name])
    observer.execute("select pgq.ticker(%s)", [log_name])


def pack(_payload, context):
    with context.transaction() as connection:
        connection.execute("insert into packed values (1)")


def fail(_payload):
    raise KeyError("colour")


@pytest.mark.slow
def test_queue_logs_the_servers_error_next_retry_and_dead_letter(
    worker_url, observer, queue_name, lines
):
    observer.execute("select pgmq.send(%s, '{}')", [queue_name])
    packing = spec(
        QueueRoute(queue_name), function=pack, takes_context=True, execution=Execution.THREAD,
        retry=RetryPolicy(max_attempts=2, backoff_base_s=0.25, backoff_jitter=False),
    )  # fmt: skip

    work(worker_url, packing, until_true=lambda _: len(lines()) == 2, what="two lines")

    first, second = lines()
    assert first.startswith(
        f"handler failed queue={queue_name} msg_id=1 handler=handler attempt=1 "
    )
    assert "next_retry_s=0.25 " + TABLE_ERROR in first
    assert second.startswith(f"message dead-lettered queue={queue_name} msg_id=1 ")
    assert "attempts=2 " + TABLE_ERROR in second
    assert (
        value(observer, "select attempts from sluice.dead_letter where queue_name = %s", queue_name)
        == 2
    )


def test_next_retry_follows_the_queues_own_policy(worker_url, observer, queue_name, lines):
    WorkQueue(observer).set_queue_options(
        queue_name,
        max_attempts=3,
        backoff="linear",
        backoff_base=timedelta(seconds=40),
        backoff_max=timedelta(hours=1),
        backoff_jitter=False,
    )
    observer.execute("select pgmq.send(%s, '{}')", [queue_name])

    work(
        worker_url,
        spec(QueueRoute(queue_name), function=fail, execution=Execution.THREAD),
        until_true=lambda _: len(lines()) == 1, what="a line",
    )  # fmt: skip

    assert "next_retry_s=40 " in lines()[0]


def test_share_group_logs_the_error_next_retry_and_dead_letter(
    worker_url, observer, log_name, lines
):
    group = ShareGroup(observer, log_name, "mailers")
    group.create(max_attempts=2, backoff="constant", backoff_base_s=0.25)
    EventLog(observer).insert_event(log_name, "t", "x")

    work(
        worker_url,
        spec(GroupRoute(log_name, "mailers"), function=fail, execution=Execution.THREAD),
        until_true=lambda _: len(lines()) == 2, what="two lines",
    )  # fmt: skip

    first, second = lines()
    assert f"handler failed log={log_name} group=mailers ev_id=" in first
    assert "attempt=1 next_retry_s=0.25 error=\"KeyError: 'colour'\"" in first
    assert f"message dead-lettered log={log_name} group=mailers ev_id=" in second
    assert "attempts=2 " in second


@pytest.mark.parametrize("has_dead_letters", [True, False])
def test_consumer_logs_a_failure_once_although_its_batch_is_handled_twice(
    worker_url, observer, log_name, lines, has_dead_letters
):
    observer.execute("select pgq.register_consumer(%s, 'ledger')", [log_name])
    EventLog(observer).insert_event(log_name, "t", "x")
    tick(observer, log_name)
    route = ConsumerRoute(log_name, "ledger", dead_letters=has_dead_letters)

    work(
        worker_url,
        spec(route, function=fail, execution=Execution.THREAD, retry=RetryPolicy(max_attempts=1)),
        until_true=lambda _: lines(), what="a line",
    )  # fmt: skip

    if has_dead_letters:
        (line,) = lines()
        assert f"message dead-lettered log={log_name} consumer=ledger ev_id=" in line
    else:
        assert f"handler failed log={log_name} consumer=ledger ev_id=" in lines()[0]
        assert "outcome=blocked next_retry_s=" in lines()[0]
    assert "error=\"KeyError: 'colour'\"" in lines()[0]


def test_event_consumer_logs_the_error(pool, observer, log_name, lines):
    observer.execute("select pgq.register_consumer(%s, 'ledger')", [log_name])
    EventLog(observer).insert_event(log_name, "t", "x")
    tick(observer, log_name)

    def handle(connection, _event):
        connection.execute("insert into packed values (1)")

    consumer = EventConsumer(
        pool, log_name, "ledger", on_event=handle, retry=RetryPolicy(max_attempts=1), dead_letters=True
    )  # fmt: skip
    stop = threading.Event()
    consumed = consumer.run_once()
    stop.set()
    consumer.run(stop)

    assert consumed is not None
    assert consumed.dead == 1
    assert f"message dead-lettered log={log_name} consumer=ledger ev_id=1 attempts=1 " in lines()[0]
    assert TABLE_ERROR in lines()[0]
