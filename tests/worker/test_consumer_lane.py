"""Handlers of a log's consumer on a real server: order, and one transaction per batch."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from pgsluice import (
    App,
    Context,
    DeadLetters,
    EventLog,
    Maintenance,
    RetryPolicy,
    SyncContext,
    Ticker,
    Worker,
)
from pgsluice.errors import HandlerError
from pgsluice.outcome import Reject, Release
from pgsluice.worker.handlers.handler import ConsumerRoute, Execution, HandlerSpec
from support import rows, value
from support.listen import running
from support.sources import spec, until


class Handlers:
    """An app with the handlers of a test."""

    name, dsn, tracing = "test", None, False

    def __init__(self, *specs: HandlerSpec) -> None:
        self.handlers = {each.name: each for each in specs}
        self.middlewares = []


@pytest.fixture
def log_name(observer, queue_name):
    name = f"log_{queue_name}"
    observer.execute("select pgq.create_queue(%s)", [name])
    observer.execute("select pgq.register_consumer(%s, 'ledger')", [name])
    return name


@pytest.fixture
def ticker(pool):
    with running(Ticker(pool, period_max_s=0.1, heartbeat_s=0.4)) as ticker:
        yield ticker


def send(observer, log_name, *datas, ev_type="t"):
    for data in datas:
        EventLog(observer).insert_event(log_name, ev_type, data)


def work(url, *specs, until_true, what):
    """Run a worker until a condition holds; return its status then."""

    async def main():
        worker = Worker(Handlers(*specs), conninfo=url)
        async with asyncio.timeout(60):
            working = asyncio.create_task(worker.run())
            await until(lambda: working.done() or until_true(worker), what)
            assert not working.done(), working.exception()
            status = worker.status()
            worker.stop()
            await working
        return status

    return asyncio.run(main())


def counts_of(status, name="handler"):
    (counts,) = [handler.counts for handler in status.handlers if handler.name == name]
    return counts


def finished(observer, log_name):
    """True if the consumer has finished every event."""
    return not value(
        observer,
        "select pending_events from pgq.get_consumer_info(%s, 'ledger')",
        log_name,
    )


def test_events_are_handled_in_order_and_what_is_written_is_committed_with_the_batch(
    worker_url, observer, queue_name, log_name, ticker
):
    seen = []

    async def handle(payload: str, context: Context) -> None:
        seen.append((payload, context.attempt, context.headers["ev_type"]))
        async with context.transaction() as connection:
            await connection.execute(
                "insert into effect values (%s, %s, %s)",
                (queue_name, context.message_id, payload),
            )

    send(observer, log_name, *(str(number) for number in range(20)))
    ledger = spec(ConsumerRoute(log_name, "ledger"), takes_context=True, function=handle)
    status = work(
        worker_url,
        ledger,
        until_true=lambda worker: worker.counts()["handler"].done == 20,
        what="the events to be handled",
    )

    assert seen == [(str(number), 1, "t") for number in range(20)]
    assert [note for (note,) in rows(
        observer, "select note from effect where queue_name = %s order by msg_id", queue_name
    )] == [str(number) for number in range(20)]  # fmt: skip
    assert finished(observer, log_name)
    assert [source.name for source in status.sources] == [f"consumer ledger of log {log_name}"]


def test_failed_event_is_retried_and_then_dead_lettered(
    worker_url, pool, observer, log_name, ticker
):
    async def handle(payload: str, context: Context) -> object:
        if payload == "fails":
            raise ValueError("no such account")
        if payload == "rejected":
            return Reject("not ours")
        return Release(0.05) if payload == "early" and context.attempt == 1 else None

    send(observer, log_name, "a", "fails", "rejected", "early", "b")
    ledger = spec(
        ConsumerRoute(log_name, "ledger", dead_letters=True),
        function=handle,
        takes_context=True,
        retry=RetryPolicy(max_attempts=2, backoff_base_s=0.05, backoff_jitter=False),
    )
    with running(Maintenance(pool, retry_period_s=0.1)):
        status = work(
            worker_url,
            ledger,
            until_true=lambda worker: (
                worker.counts()["handler"].dead == 2 and worker.counts()["handler"].done == 3
            ),
            what="all to be settled",
        )

    rejected, failed = DeadLetters(observer, log_name, "ledger").browse()
    assert (rejected.ev_data, rejected.reason, rejected.attempts) == ("rejected", "not ours", 1)
    assert (failed.ev_data, failed.reason, failed.attempts) == ("fails", "too many attempts", 2)
    assert (failed.error_type, failed.error) == ("ValueError", "no such account")
    assert "in handle" in failed.trace
    counts = counts_of(status)
    assert (counts.done, counts.retry, counts.dead, counts.released) == (3, 1, 2, 1)
    assert status.handlers[0].last_error in ("ValueError", "Reject")


def test_handlers_of_a_consumer_share_its_events_by_type(worker_url, observer, log_name, ticker):
    seen = []
    specs = [
        spec(
            ConsumerRoute(log_name, "ledger", types),
            name,
            function=lambda payload, name=name: _note(seen, name, payload),
        )
        for name, types in (("paid", ("order.paid",)), ("sent", ("order.sent",)))
    ]
    for ev_type in ("order.sent", "order.lost", "order.paid", "order.sent"):
        send(observer, log_name, ev_type, ev_type=ev_type)

    work(worker_url, *specs, until_true=lambda _: len(seen) == 3, what="three events")

    assert seen == [("sent", "order.sent"), ("paid", "order.paid"), ("sent", "order.sent")]


async def _note(seen, name, payload):
    seen.append((name, payload))


def test_without_dead_letters_it_stays_before_what_fails_for_good(
    worker_url, observer, log_name, ticker
):
    tries = []

    async def handle(payload: str) -> None:
        tries.append(payload)
        raise ValueError(payload)

    send(observer, log_name, "bad", "behind")
    status = work(
        worker_url,
        spec(ConsumerRoute(log_name, "ledger"), function=handle, retry=RetryPolicy(max_attempts=1)),
        until_true=lambda _: len(tries) > 4,
        what="the batch to be tried again",
    )

    assert set(tries) == {"bad"}
    assert not finished(observer, log_name)
    assert counts_of(status).dead == 0
    assert status.handlers[0].last_error == "ValueError"
    assert status.sources[0].last_error == "EventFailedError"


def test_consumer_registers_at_start_and_ticks_without_a_ticker(worker_url, observer, log_name):
    observer.execute("select pgq.unregister_consumer(%s, 'ledger')", [log_name])
    observer.execute(
        "select pgq.set_queue_config(%s, 'ticker_max_lag', '0'), pgq.set_queue_config(%s, 'ticker_idle_period', '0')",
        [log_name, log_name],
    )
    seen = []
    app = App()

    @app.handler(log=log_name, consumer="ledger")
    async def handle(payload: dict) -> None:
        seen.append(payload)

    async def main():
        worker = Worker(app, conninfo=worker_url)
        working = asyncio.create_task(worker.run())
        with contextlib.closing(observer):
            await until(lambda: worker.status().state == "running", "the worker to run")
            send(observer, log_name, '{"n": 1}')
            await until(lambda: seen == [{"n": 1}], "the event")
        worker.stop()
        async with asyncio.timeout(5):
            await working

    asyncio.run(main())


@pytest.mark.slow
def test_a_batch_job_ends_when_its_log_is_empty(worker_url, observer, log_name, ticker):
    async def handle(payload: str) -> None:
        pass

    send(observer, log_name, *"abc")
    worker = Worker(
        Handlers(spec(ConsumerRoute(log_name, "ledger"), function=handle)), conninfo=worker_url
    )

    counts = asyncio.run(asyncio.wait_for(worker.run_until_empty(idle_s=1), 30))

    assert counts["handler"].done == 3


def test_a_thread_that_hangs_keeps_the_transaction_of_its_batch_open(
    worker_url, observer, log_name, ticker
):
    going = threading.Event()

    def hangs(_payload):
        going.wait(60)

    consumer = ConsumerRoute(log_name, "ledger")
    send(observer, log_name, "1")
    idle = """
        select count(*) from pg_stat_activity
        where datname = current_database() and state = 'idle in transaction' and pid <> pg_backend_pid()"""

    def hangs_in_its_transaction(worker):
        if not worker.status().hung_threads:
            return False
        assert value(observer, idle) == 1
        going.set()
        return True

    work(
        worker_url,
        spec(consumer, function=hangs, execution=Execution.THREAD, timeout_s=0.2),
        until_true=hangs_in_its_transaction,
        what="the thread to hang",
    )


def test_a_def_handler_that_opens_the_batch_transaction_gets_a_hint(
    worker_url, observer, log_name, ticker
):
    errors = []

    def handle(payload: str, context: SyncContext) -> None:
        with pytest.raises(HandlerError) as caught:
            context.transaction().__enter__()
        errors.append(str(caught.value))

    send(observer, log_name, "a")
    work(
        worker_url,
        spec(
            ConsumerRoute(log_name, "ledger"),
            function=handle,
            takes_context=True,
            execution=Execution.THREAD,
        ),
        until_true=lambda _worker: errors,
        what="the error",
    )

    assert errors == [
        "the transaction of a tick batch belongs to the event loop, so a `def` handler of a consumer cannot use it; "
        "make 'handler' an `async def`"
    ]
