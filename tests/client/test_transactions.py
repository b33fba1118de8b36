"""Transactions of queue and log calls: the caller's, or one for each call."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from pgsluice.errors import LogStateError, QueueNotFoundError, RetryableError
from support import on_functions_and_tables, rows, value

SHOW = "show synchronous_commit"


@pytest.fixture
def business(observer):
    observer.execute("create table if not exists business (id text primary key)")
    observer.execute("truncate business")
    return "business"


def status(clients):
    return clients.source._inner.info.transaction_status


def lengths(observer, queue_name):
    return tuple(
        value(observer, f"select count(*) from pgmq.{prefix}_{queue_name}") for prefix in "qa"
    )


@on_functions_and_tables
@pytest.mark.parametrize(("end", "there"), [("commit", 1), ("rollback", 0)])
def test_a_message_and_a_business_row_are_written_together_or_not_at_all(
    caller, queue_name, business, observer, end, there
):
    caller.source.execute("insert into business values ('a')")
    caller.queue.send(queue_name, "a")
    assert lengths(observer, queue_name) == (0, 0)

    getattr(caller.source, end)()

    assert lengths(observer, queue_name) == (there, 0)
    assert value(observer, "select count(*) from business") == there


@on_functions_and_tables
@pytest.mark.parametrize(("end", "left"), [("commit", (0, 1)), ("rollback", (1, 0))])
def test_an_archived_message_and_a_business_row_are_written_together_or_not_at_all(
    caller, queue_name, business, observer, end, left
):
    caller.queue.send(queue_name, 1)
    caller.source.commit()

    (message,) = caller.queue.read(queue_name, 60)
    caller.source.execute("insert into business values ('a')")
    assert caller.queue.archive(queue_name, message.msg_id) is True
    getattr(caller.source, end)()

    assert lengths(observer, queue_name) == left
    assert value(observer, "select count(*) from business") == left[1]


@pytest.mark.parametrize(("end", "there"), [("commit", 1), ("rollback", 0)])
def test_a_finished_batch_and_a_business_row_are_written_together_or_not_at_all(
    caller, log_name, business, observer, end, there
):
    observer.execute("select pgq.register_consumer(%s, 'c')", [log_name])
    observer.execute("select pgq.insert_event(%s, 't', 'x')", [log_name])
    observer.execute("select pgq.ticker(%s)", [log_name])

    batch_id = caller.log.next_batch(log_name, "c")
    for event in caller.log.get_batch_events(batch_id):
        caller.source.execute("insert into business values (%s)", [event.ev_data])
    caller.log.finish_batch(batch_id)
    getattr(caller.source, end)()

    assert value(observer, "select count(*) from business") == there
    last_tick = "select last_tick from pgq.get_consumer_info(%s, 'c')"
    assert value(observer, last_tick, log_name) == 1 + there


@on_functions_and_tables
def test_no_method_of_a_queue_ends_the_callers_transaction(caller, queue_name, observer):
    other_queue = f"{queue_name}_mine"
    xid = caller.value("select pg_current_xact_id()::text")

    caller.queue.create(other_queue)
    caller.queue.send_batch(other_queue, [1, 2, 3, 4])
    caller.queue.send(other_queue, 5)
    caller.queue.read(other_queue, 60, 2)
    caller.queue.set_vt(other_queue, 1, 0)
    caller.queue.pop(other_queue)
    caller.queue.delete_batch(other_queue, [2])
    caller.queue.archive(other_queue, 3)
    caller.queue.metrics(other_queue)
    caller.queue.metrics_all()
    caller.queue.purge_queue(other_queue)

    assert caller.value("select pg_current_xact_id()::text") == xid
    assert status(caller) == TransactionStatus.INTRANS
    seen = "select count(*) from pgmq.meta where queue_name = %s"
    assert value(observer, seen, other_queue) == 0
    caller.source.rollback()
    assert value(observer, seen, other_queue) == 0


@on_functions_and_tables
def test_a_queue_that_is_dropped_is_there_again_after_a_rollback(caller, queue_name, observer):
    caller.queue.send(queue_name, 1)
    caller.source.commit()

    assert caller.queue.drop_queue(queue_name) is True
    caller.source.rollback()

    assert lengths(observer, queue_name) == (1, 0)
    assert [queue.queue_name for queue in caller.queue.list_queues()].count(queue_name) == 1


def test_no_method_of_a_log_ends_the_callers_transaction(caller, log_name, observer):
    other_log = f"{log_name}_mine"
    xid = caller.value("select pg_current_xact_id()::text")

    caller.log.create(other_log)
    caller.log.register_consumer(other_log, "c")
    caller.log.insert_event(other_log, "t", "x")
    caller.log.ticker_all()
    caller.log.get_queue_info()

    assert caller.value("select pg_current_xact_id()::text") == xid
    assert status(caller) == TransactionStatus.INTRANS
    caller.source.rollback()
    assert rows(observer, "select * from pgq.get_queue_info(%s)", other_log) == []


@on_functions_and_tables
def test_an_error_leaves_the_callers_transaction_to_the_caller(caller, queue_name, observer):
    caller.queue.send(queue_name, "a")

    with pytest.raises(QueueNotFoundError):
        caller.queue.send("nope", "b")

    assert status(caller) == TransactionStatus.INERROR
    caller.source.rollback()
    assert lengths(observer, queue_name) == (0, 0)


@on_functions_and_tables
def test_in_the_callers_transaction_a_claim_leaves_synchronous_commit_alone(caller, queue_name):
    caller.queue.send(queue_name, "a")
    assert caller.value(SHOW) == "local"

    assert len(caller.queue.read(queue_name, 60)) == 1

    assert caller.value(SHOW) == "local"


@pytest.fixture
def commits(observer, queue_name):
    """Record the synchronous_commit with which messages are sent, claimed and deleted."""
    observer.execute(
        "create or replace function public.note_commit() returns trigger language plpgsql as $$ begin "
        "insert into public.commit_note values (tg_table_name, tg_op, current_setting('synchronous_commit')); "
        "return null; end $$"
    )
    observer.execute(
        "create table if not exists public.commit_note (relation text, operation text, setting text)"
    )
    observer.execute(
        f"create trigger note after insert or update or delete on pgmq.q_{queue_name} "
        "for each row execute function public.note_commit()"
    )
    return lambda: rows(
        observer,
        "select operation, setting from public.commit_note where relation = %s",
        f"q_{queue_name}",
    )


@on_functions_and_tables
def test_on_a_pool_only_the_claim_commits_asynchronously(make, shared_url, queue_name, commits):
    clients = make.pool(shared_url, options="-c synchronous_commit=local")

    clients.queue.send(queue_name, "a")
    clients.queue.read(queue_name, 60)
    clients.queue.archive(queue_name, 1)

    assert commits() == [("INSERT", "local"), ("UPDATE", "off"), ("DELETE", "local")]


@on_functions_and_tables
def test_on_a_pool_the_connection_has_its_own_setting_again_after_a_claim(
    make, shared_url, queue_name
):
    clients = make.pool(shared_url, options="-c synchronous_commit=local")
    clients.queue.send(queue_name, "a")
    assert len(clients.queue.read(queue_name, 60)) == 1

    assert clients.value(SHOW) == "local"


@on_functions_and_tables
def test_on_a_pool_an_error_leaves_a_connection_that_works(make, shared_url, queue_name):
    clients = make.pool(shared_url)

    for _ in range(3):
        with pytest.raises(QueueNotFoundError):
            clients.queue.send("nope", 1)

    assert clients.queue.send(queue_name, 1) == 1


def test_a_log_is_not_ticked_with_a_snapshot_from_the_start_of_a_transaction(
    make, shared_url, log_name
):
    caller = make.connection(
        shared_url, options="-c default_transaction_isolation=repeatable\\ read"
    )

    with pytest.raises(LogStateError, match="READ COMMITTED"):
        caller.log.ticker(log_name)


@on_functions_and_tables
def test_a_lock_that_cannot_be_had_in_time_is_worth_another_try(
    make, shared_url, queue_name, observer
):
    clients = make.connection(shared_url, autocommit=True, options="-c lock_timeout=50ms")
    with psycopg.connect(shared_url) as holder:
        holder.execute(f"lock table pgmq.q_{queue_name} in access exclusive mode")

        with pytest.raises(RetryableError, match="run the transaction again") as caught:
            clients.queue.send(queue_name, 1)

    assert caught.value.sqlstate == "55P03"
    assert clients.queue.send(queue_name, 1) == 1
