"""The maintenance loop on a real server: retries, rotation and other tasks, with their reports."""

from __future__ import annotations

from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool

from pgsluice import EventLog, Maintenance, WorkQueue
from pgsluice.errors import ArgumentError
from pgsluice.worker import Maintainer
from support import value, wait_until
from support.listen import running


@pytest.fixture
def own_pool(database_18):
    with ConnectionPool(database_18.url, min_size=1, max_size=2, open=True) as pool:
        yield pool


@pytest.fixture
def log(own_pool):
    """A log with an event to retry and a segment to rotate."""
    log = EventLog(own_pool)
    log.create("changes")
    log.register_consumer("changes", "c")
    ev_id = log.insert_event("changes", "t", "x")
    log.log_tick("changes")
    batch_id = log.next_batch("changes", "c")
    log.retry(batch_id, [ev_id], delay=timedelta(0))
    log.finish_batch(batch_id)
    log.set_queue_config("changes", "rotation_period", "0")
    return log


def test_all_that_is_to_do_is_done_once_and_reported(own_pool, log, database_18):
    WorkQueue(own_pool).create_partitioned("orders", "10", None, 1)
    with database_18.connect() as connection:
        connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[15]))")
    done = []

    left = Maintenance(own_pool, report=done.append).run_once()

    assert left == []
    tasks = {(step.task, step.queue_name) for step in done}
    assert {("retry", None), ("rotate", "changes")} <= tasks
    assert any(name == "orders" for _, name in tasks)
    assert all(step.done for step in done)
    log.log_tick("changes")
    (event,) = log.get_batch_events(log.next_batch("changes", "c"))
    assert (event.ev_data, event.ev_retry) == ("x", 1)


def test_objects_in_use_are_skipped_and_logged(own_pool, database_18):
    WorkQueue(own_pool).create_partitioned("orders", "10", "100000", 1)
    with database_18.connect(autocommit=False) as sender:
        sender.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[15]))")

        left = Maintenance(own_pool).run_once()

    assert {(step.queue_name, step.done) for step in left} == {("orders", False)}


def test_share_groups_are_maintained_as_often_as_retries(own_pool, log, database_18):
    done = []
    with database_18.connect() as observer:
        observer.execute("select sluice.create_group('changes', 'mail')")
        log.insert_event("changes", "t", "x")
        with running(
            Maintenance(own_pool, period_s=600.0, retry_period_s=0.02, report=done.append)
        ):
            wait_until(lambda: any(step.task == "rotate" for step in done), "the first round")
            observer.execute("select sluice.claim('changes', 'mail', 1, '10 ms')")
            wait_until(
                lambda: any(
                    (step.task, step.queue_name, step.detail)
                    == ("groups", "changes", "group mail: leases checked")
                    for step in done
                ),
                "the lease to be checked",
            )


def test_it_goes_on_until_it_is_stopped(own_pool, log, database_18):
    done = []
    maintenance = Maintenance(own_pool, period_s=0.05, retry_period_s=0.02, report=done.append)
    with running(maintenance), database_18.connect() as observer:
        wait_until(lambda: any(step.task == "retry" for step in done), "the event to be retried")
        log.log_tick("changes")
        batch_id = log.next_batch("changes", "c")
        log.batch_retry(batch_id, 0)
        log.finish_batch(batch_id)
        wait_until(
            lambda: value(observer, "select count(*) = 0 from pgq.retry_queue"),
            "the event to be retried again",
        )
        segment = log.get_queue_info("changes")[0].queue_cur_table
        wait_until(
            lambda: log.get_queue_info("changes")[0].queue_cur_table != segment, "another rotation"
        )


def test_duty_that_fails_stops_no_other_duty(own_pool, log, database_18, caplog):
    with database_18.connect() as observer:
        observer.execute(
            "create or replace function sluice.notifier_queues() returns table (queue_name text, id_sequence oid)"
            " language plpgsql as $$ begin raise exception 'no queues today'; end $$"
        )
        ticks = "select max(tick_id) from pgq.tick"
        with running(Maintainer(database_18.url)):
            wait_until(lambda: "no queues today" in caplog.text, "the notifier to fail")
            before = value(observer, ticks)
            log.insert_event("changes", "t", "x")
            wait_until(lambda: value(observer, ticks) > before, "a tick")

    assert "duty failed duty=notifier error='no queues today'" in caplog.text


def test_periods_that_could_not_work_are_refused(own_pool):
    with pytest.raises(ArgumentError, match="more than 0 seconds"):
        Maintenance(own_pool, period_s=0)
