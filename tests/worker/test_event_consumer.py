"""Event consumers on a real log: exactly-once effects, retries and rollbacks."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice import (
    AsyncEventConsumer,
    ConsumedBatch,
    DeadLetters,
    Done,
    EventConsumer,
    EventLog,
    Reject,
    Release,
    Retry,
    RetryPolicy,
)
from pgsluice.errors import (
    ArgumentError,
    BatchNotFoundError,
    ConnectionFailedError,
    ConsumerNotFoundError,
    HandlerError,
    LogNotFoundError,
    PositionLostError,
    RetryableError,
)
from support import rows, value, wait_until
from support.consume import Consuming

_names = itertools.count(1)
# Longer than any test, so that no poll occurs.
NEVER_S = 600.0


@pytest.fixture
def log_name(observer):
    name = f"events_{next(_names)}"
    EventLog(observer).create(name)
    EventLog(observer).register_consumer(name, "c")
    return name


@pytest.fixture(params=["sync", "async"])
def consuming(request, worker_url):
    return Consuming(request.param, worker_url)


def insert(observer, log_name, *data):
    """Insert events and tick; return their ids."""
    ids = [EventLog(observer).insert_event(log_name, "t", item) for item in data]
    EventLog(observer).log_tick(log_name)
    return ids


def effects(observer, log_name):
    return rows(observer, "select note from effect where queue_name = %s order by ctid", log_name)


def state(observer, log_name, consumer_name="c"):
    """Return the last finished tick, and True if a batch is open."""
    (info,) = EventLog(observer).get_consumer_info(log_name, consumer_name)
    return info.last_tick, info.current_batch is not None


@pytest.fixture
def write(log_name):
    """A handler that writes a row for each event."""

    def handler(connection, event):
        yield connection.execute(
            "insert into effect values (%s, %s, %s)", [log_name, event.ev_id, event.ev_data]
        )

    return handler


@pytest.fixture
def fail_on(write):
    """Return a function that creates a handler that writes a row, then fails on some events."""

    def make(*bad, error=None):
        def handler(connection, event):
            yield from write(connection, event)
            if event.ev_data in bad:
                raise error or ValueError(event.ev_data)

        return handler

    return make


# --- one batch ------------------------------------------------------------------------------------


def test_events_are_handled_in_order_in_the_transaction_that_finishes_their_batch(
    consuming, observer, log_name, write
):
    insert(observer, log_name, "a", "b", "c")

    first, second = consuming.once(log_name, "c", on_event=write, rounds=2)

    assert type(first) is ConsumedBatch
    assert (first.events, first.retried, first.dead) == (3, 0, 0)
    assert second is None
    assert effects(observer, log_name) == [("a",), ("b",), ("c",)]
    transactions = "select count(distinct xmin::text) from effect where queue_name = %s"
    assert value(observer, transactions, log_name) == 1
    assert state(observer, log_name) == (2, False)


def test_a_batch_handler_gets_the_batch_and_its_events(consuming, observer, log_name):
    ids = insert(observer, log_name, "a", "b")
    seen = []

    def handler(connection, batch):
        events = yield batch.events(fetch_qty=1)
        seen.append((batch.log_name, batch.consumer_name, [event.ev_id for event in events]))
        batch.retry(events[1], delay_s=60)

    (done,) = consuming.once(log_name, "c", on_batch=handler)

    assert seen == [(log_name, "c", ids)]
    assert (done.events, done.retried) == (2, 1)
    assert EventLog(observer).get_batch_info(done.batch_id) is None


def test_consumer_is_registered_only_at_its_start(consuming, observer, log_name):
    def handler(connection, event):
        yield from ()

    assert consuming.once(log_name, "new", on_event=handler) == [None]
    assert len(EventLog(observer).get_consumer_info(log_name, "new")) == 1
    with pytest.raises(ConsumerNotFoundError):
        consuming.once(log_name, "other", on_event=handler, register=False)


def test_without_a_policy_an_error_rolls_the_batch_back_and_reaches_the_caller(
    consuming, observer, log_name, fail_on
):
    insert(observer, log_name, "a", "bad", "c")

    with pytest.raises(ValueError, match="bad"):
        consuming.once(log_name, "c", on_event=fail_on("bad"))

    assert effects(observer, log_name) == []
    assert state(observer, log_name) == (1, True)


def test_an_error_of_the_server_in_a_handler_reaches_the_caller_as_it_is(
    consuming, observer, log_name
):
    insert(observer, log_name, "a")

    def handler(connection, event):
        yield connection.execute("select 1/0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        consuming.once(log_name, "c", on_event=handler)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("do $$ begin raise exception using errcode = '40001'; end $$", RetryableError),
        ("select pg_terminate_backend(pg_backend_pid())", ConnectionFailedError),
    ],
)
def test_transient_error_raised_by_a_handler_keeps_its_class(
    consuming, observer, log_name, sql, kind
):
    insert(observer, log_name, "a")

    def handler(connection, event):
        yield connection.execute(sql)

    with pytest.raises(kind):
        consuming.once(log_name, "c", on_event=handler, retry=RetryPolicy())
    assert state(observer, log_name) == (1, True)


def test_a_conflict_is_no_failed_attempt_also_where_another_event_failed(
    consuming, observer, log_name
):
    insert(observer, log_name, "again", "conflict")

    def handler(connection, event):
        if event.ev_data == "again":
            raise Retry(0)
        yield connection.execute("do $$ begin raise exception using errcode = '40P01'; end $$")

    with pytest.raises(RetryableError):
        consuming.once(log_name, "c", on_event=handler, retry=RetryPolicy())

    assert state(observer, log_name) == (1, True)


def swallow(connection, event):
    with contextlib.suppress(psycopg.Error):
        yield connection.execute("select 1/0")


def end_the_transaction(connection, event):
    yield connection.execute("rollback")


@pytest.mark.parametrize("handler", [swallow, end_the_transaction])
def test_handler_that_breaks_its_transaction_gets_an_error(consuming, observer, log_name, handler):
    insert(observer, log_name, "a")

    with pytest.raises(HandlerError, match="let database errors propagate"):
        consuming.once(log_name, "c", on_event=handler)

    assert state(observer, log_name) == (1, True)


# --- retries and redelivery -----------------------------------------------------------------------


def redeliver_due(observer, log_name):
    """Redeliver due events; return the events of the next batch."""
    log = EventLog(observer)
    while log.maint_retry_events():
        pass
    log.log_tick(log_name)
    batch_id = log.next_batch(log_name, "c")
    return [] if batch_id is None else log.get_batch_events(batch_id)


def test_event_returned_as_retry_is_redelivered_and_its_effects_are_kept(
    consuming, observer, log_name, write
):
    _, ev_id = insert(observer, log_name, "a", "b")

    def handler(connection, event):
        yield from write(connection, event)
        return Retry(0) if event.ev_data == "b" else None

    (done,) = consuming.once(log_name, "c", on_event=handler)

    assert (done.events, done.retried) == (2, 1)
    assert effects(observer, log_name) == [("a",), ("b",)]
    assert [(e.ev_id, e.ev_retry) for e in redeliver_due(observer, log_name)] == [(ev_id, 1)]


def test_event_raised_as_retry_is_redelivered_and_its_effects_are_rolled_back(
    consuming, observer, log_name, fail_on
):
    _, ev_id, _ = insert(observer, log_name, "a", "b", "c")

    (done,) = consuming.once(log_name, "c", on_event=fail_on("b", error=Retry(0)))

    assert (done.events, done.retried) == (3, 1)
    assert effects(observer, log_name) == [("a",), ("c",)]
    assert [e.ev_id for e in redeliver_due(observer, log_name)] == [ev_id]


def test_failed_event_is_redelivered_after_the_delay_of_its_policy(
    consuming, observer, log_name, fail_on
):
    _, second, third = insert(observer, log_name, "a", "b", "c")
    policy = RetryPolicy(max_attempts=3, backoff_base_s=100, backoff_factor=3, backoff_jitter=False)

    (done,) = consuming.once(log_name, "c", on_event=fail_on("b", "c"), retry=policy)

    assert (done.events, done.retried, done.dead) == (3, 2, 0)
    assert effects(observer, log_name) == [("a",)]
    pending = rows(
        observer,
        "select ev_id, round(extract(epoch from ev_retry_after - now()) / 10) from pgq.retry_queue "
        "where ev_id = any (%s) and ev_queue = (select queue_id from pgq.queue where queue_name = %s)",
        [second, third],
        log_name,
    )
    assert sorted(pending) == [(second, 10), (third, 10)]


def test_after_the_last_attempt_an_event_is_a_dead_letter_and_the_others_go_on(
    consuming, observer, log_name, fail_on
):
    _, ev_id = insert(observer, log_name, "a", "bad\ud83d".encode("utf-8", "replace").decode())
    options = {
        "on_event": fail_on("bad?"),
        "retry": RetryPolicy(max_attempts=2, backoff_base_s=0),
        "dead_letters": True,
    }

    (first,) = consuming.once(log_name, "c", **options)
    assert [e.ev_id for e in redeliver_due(observer, log_name)] == [ev_id]
    (second,) = consuming.once(log_name, "c", **options)

    assert (first.retried, first.dead) == (1, 0)
    assert (second.events, second.retried, second.dead) == (1, 0, 1)
    assert effects(observer, log_name) == [("a",)]
    (letter,) = DeadLetters(observer, log_name, "c").browse()
    assert (letter.msg_id, letter.ev_data, letter.attempts) == (ev_id, "bad?", 2)
    assert (letter.reason, letter.error_type, letter.error) == (
        "too many attempts",
        "ValueError",
        "bad?",
    )
    assert "in handler" in letter.trace
    assert letter.trace.endswith("ValueError: bad?\n")
    assert state(observer, log_name)[1] is False


@pytest.mark.parametrize("own_transactions", [False, True])
def test_redriven_event_is_handled_again_by_its_consumer_with_attempts_from_1(
    consuming, observer, log_name, fail_on, own_transactions
):
    EventLog(observer).register_consumer(log_name, "other")
    insert(observer, log_name, "bad", "a")
    letters = DeadLetters(observer, log_name, "c")
    options = {"dead_letters": True, "own_transactions": own_transactions}
    retry = RetryPolicy(max_attempts=2, backoff_base_s=0)

    consuming.once(log_name, "c", on_event=fail_on("bad"), retry=retry, **options)
    redeliver_due(observer, log_name)
    consuming.once(log_name, "c", on_event=fail_on("bad"), retry=retry, **options)
    (redriven,) = letters.redrive([letters.browse()[0].dead_letter_id])
    EventLog(observer).log_tick(log_name)
    (again,) = consuming.once(log_name, "c", on_event=fail_on("bad"), retry=retry, **options)

    assert (again.events, again.retried, again.dead) == (1, 1, 0), "it is its first attempt again"
    assert [e.ev_id for e in redeliver_due(observer, log_name)] == [redriven.msg_id]
    consuming.once(log_name, "c", on_event=fail_on("bad"), retry=retry, **options)
    assert [(e.msg_id, e.attempts) for e in letters.browse()] == [(redriven.msg_id, 2)]
    letters.redrive_matching()
    EventLog(observer).log_tick(log_name)
    (fixed,) = consuming.once(log_name, "c", on_event=fail_on(), retry=retry, **options)
    assert (fixed.events, fixed.dead, letters.count()) == (1, 0, 0)
    seen = consuming.once(log_name, "other", on_event=fail_on(), rounds=9)
    assert sum(batch.events for batch in seen if batch) == 2, "the other consumer sees no redrive"


def test_dead_letter_of_a_batch_that_is_rolled_back_is_rolled_back_with_it(
    consuming, observer, log_name, write
):
    insert(observer, log_name, "rejected", "fatal")

    def handler(connection, event):
        yield from write(connection, event)
        if event.ev_data == "rejected":
            raise Reject("not ours")
        raise psycopg.errors.SerializationFailure

    with pytest.raises(RetryableError):
        consuming.once(log_name, "c", on_event=handler, retry=RetryPolicy(), dead_letters=True)

    assert DeadLetters(observer, log_name, "c").count() == 0
    assert state(observer, log_name) == (1, True)


@pytest.mark.parametrize("is_raised", [False, True], ids=["returned", "raised"])
@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Done(), (0, 0)),
        (Retry(0), (0, 1)),
        (Release(0), (1, 0)),
        (Reject("not an order"), (0, 1)),
        (Reject("not an \x00rder"), (0, 1)),
    ],
)
def test_an_outcome_is_applied_and_at_the_last_attempt_a_retry_is_a_dead_letter(
    consuming, observer, log_name, write, outcome, result, is_raised
):
    insert(observer, log_name, "a")

    def handler(connection, event):
        yield from write(connection, event)
        if is_raised:
            raise outcome
        return outcome

    (done,) = consuming.once(
        log_name,
        "c",
        on_event=handler,
        retry=RetryPolicy(max_attempts=1),
        dead_letters=True,
    )

    assert (done.retried, done.dead) == result
    is_kept = not is_raised or outcome == Done()
    assert effects(observer, log_name) == ([("a",)] if is_kept else [])
    letters = DeadLetters(observer, log_name, "c").browse()
    reason = (
        outcome.reason.replace("\x00", "\\x00")
        if isinstance(outcome, Reject)
        else "too many attempts"
    )
    assert [(each.reason, each.error_type) for each in letters] == (
        [(reason, type(outcome).__name__)] if done.dead else []
    )


def test_a_rejected_event_ends_the_consumer_where_there_are_no_dead_letters(
    consuming, observer, log_name
):
    insert(observer, log_name, "a")

    def handler(_connection, _event):
        yield from ()
        raise Reject("not an order")

    with pytest.raises(Reject, match="not an order"):
        consuming.once(log_name, "c", on_event=handler)

    assert state(observer, log_name) == (1, True)


def test_after_the_last_attempt_the_error_reaches_the_caller_where_there_are_no_dead_letters(
    consuming, observer, log_name, fail_on
):
    insert(observer, log_name, "a", "bad")

    with pytest.raises(ValueError, match="bad"):
        consuming.once(log_name, "c", on_event=fail_on("bad"), retry=RetryPolicy(max_attempts=1))

    assert effects(observer, log_name) == []


def test_a_handler_that_breaks_its_transaction_is_a_failed_attempt_of_that_event_alone(
    consuming, observer, log_name, write
):
    insert(observer, log_name, "a", "b", "c")

    def handler(connection, event):
        yield from write(connection, event)
        if event.ev_data == "b":
            yield from swallow(connection, event)

    (done,) = consuming.once(log_name, "c", on_event=handler, retry=RetryPolicy())

    assert (done.events, done.retried) == (3, 1)
    assert effects(observer, log_name) == [("a",), ("c",)]


# --- the handler's own transactions ---------------------------------------------------------------


def test_with_own_transactions_each_effect_is_committed_before_the_batch_is_finished(
    consuming, observer, log_name, write
):
    insert(observer, log_name, "a", "b")
    seen = []

    def handler(connection, event):
        yield from write(connection, event)
        seen.append((len(effects(observer, log_name)), state(observer, log_name)))

    (done,) = consuming.once(log_name, "c", on_event=handler, own_transactions=True)

    assert done.events == 2
    assert seen == [(1, (1, True)), (2, (1, True))]
    assert state(observer, log_name) == (2, False)


def test_failure_with_own_transactions_keeps_effects_and_redelivers_the_batch(
    consuming, observer, log_name, fail_on
):
    insert(observer, log_name, "a", "bad")

    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            consuming.once(log_name, "c", on_event=fail_on("bad"), own_transactions=True)

    assert effects(observer, log_name) == [("a",), ("bad",)] * 2


def test_with_own_transactions_a_transaction_left_open_is_rolled_back_with_its_attempt(
    consuming, observer, log_name, write
):
    insert(observer, log_name, "a", "b")

    def handler(connection, event):
        yield connection.execute("begin")
        yield from write(connection, event)
        if event.ev_data == "b":
            yield connection.execute("commit")

    (done,) = consuming.once(
        log_name, "c", on_event=handler, own_transactions=True, retry=RetryPolicy()
    )

    assert (done.events, done.retried) == (2, 1)
    assert effects(observer, log_name) == [("b",)]


# --- several sessions -----------------------------------------------------------------------------


@pytest.mark.slow
def test_no_two_sessions_of_a_consumer_process_one_batch(consuming, observer, log_name, write):
    insert(observer, log_name, "a")
    others = []

    def handler(connection, event):
        yield from write(connection, event)
        result = []
        other = threading.Thread(
            target=lambda: result.extend(consuming.once(log_name, "c", on_event=write))
        )
        other.start()
        other.join()
        others.append(result)

    (done,) = consuming.once(log_name, "c", on_event=handler)

    assert done.events == 1
    assert others == [[None]]
    assert effects(observer, log_name) == [("a",)]


def test_a_batch_that_another_session_finishes_meanwhile_is_rolled_back_with_a_clear_error(
    consuming, observer, log_name, write
):
    insert(observer, log_name, "a")

    def handler(connection, event):
        yield from write(connection, event)
        (info,) = EventLog(observer).get_consumer_info(log_name, "c")
        assert EventLog(observer).finish_batch(info.current_batch)

    with pytest.raises(BatchNotFoundError, match="another session finished it"):
        consuming.once(log_name, "c", on_event=handler, own_transactions=True)


def test_subconsumers_share_the_batches_of_their_consumer(consuming, observer, log_name):
    for data in ("a", "b", "c", "d"):
        insert(observer, log_name, data)
    seen = {"one": [], "two": []}

    def into(name):
        def handler(connection, event):
            seen[name].append(event.ev_data)
            yield from ()

        return handler

    for name in ("one", "two", "one", "two"):
        (done,) = consuming.once(log_name, "c", on_event=into(name), subconsumer_name=name)
        assert done.events == 1

    assert seen == {"one": ["a", "c"], "two": ["b", "d"]}
    names = [info.consumer_name for info in EventLog(observer).get_consumer_info(log_name)]
    assert names == ["c", "c.one", "c.two"]


def test_the_batch_of_a_dead_subconsumer_is_taken_over(
    consuming, observer, log_name, fail_on, write
):
    insert(observer, log_name, "bad")
    with pytest.raises(ValueError, match="bad"):
        consuming.once(log_name, "c", on_event=fail_on("bad"), subconsumer_name="one")

    options = {"on_event": write, "subconsumer_name": "two"}
    assert consuming.once(log_name, "c", **options, dead_interval_s=3600) == [None]
    (done,) = consuming.once(log_name, "c", **options, dead_interval_s=0)

    assert done.events == 1
    assert effects(observer, log_name) == [("bad",)]


# --- running --------------------------------------------------------------------------------------


def test_running_consumer_is_woken_by_ticks_and_stops_on_request(
    consuming, observer, log_name, write
):
    with consuming.running(
        log_name, "c", on_event=write, poll_interval_s=NEVER_S, ticks=False
    ) as background:
        for count in range(1, 4):
            insert(observer, log_name, str(count))
            wait_until(
                lambda count=count: len(effects(observer, log_name)) == count,
                "the event to be handled",
            )
        background.stop()
        assert not background.alive


def test_a_running_consumer_polls_where_it_hears_nothing(consuming, observer, log_name, write):
    def handler(connection, event):
        yield from write(connection, event)
        yield connection.execute("unlisten *")  # as a pooler in transaction mode does

    with consuming.running(log_name, "c", on_event=handler, poll_interval_s=0.05, ticks=False):
        for count in (1, 2):
            insert(observer, log_name, "x")
            wait_until(
                lambda count=count: len(effects(observer, log_name)) == count,
                "the event to be handled",
            )


def test_a_consumer_ticks_itself_when_a_tick_is_overdue(consuming, observer, log_name, write):
    EventLog(observer).set_queue_config(log_name, "ticker_max_lag", "0")
    with consuming.running(log_name, "c", on_event=write, poll_interval_s=0.05):
        EventLog(observer).insert_event(log_name, "t", "x")
        wait_until(lambda: len(effects(observer, log_name)) == 1, "the event to be handled")


def test_a_consumer_that_may_not_tick_leaves_it_to_others(
    consuming, observer, log_name, worker_url, caplog
):
    observer.execute("create role listener login in role sluice_reader")
    try:
        reader = Consuming(
            consuming.style, psycopg.conninfo.make_conninfo(worker_url, user="listener")
        )
        seen = []

        def handler(connection, event):
            seen.append(event.ev_data)
            yield from ()

        caplog.set_level("INFO")
        with reader.running(log_name, "c", on_event=handler, poll_interval_s=0.05):
            wait_until(
                lambda: "missing privilege to tick" in caplog.text, "the consumer to try to connect"
            )
            insert(observer, log_name, "x")
            wait_until(lambda: seen == ["x"], "the event to be handled")
    finally:
        observer.execute("drop role listener")


def test_a_running_consumer_ends_with_the_handlers_error(consuming, observer, log_name, fail_on):
    insert(observer, log_name, "bad")

    with consuming.running(log_name, "c", on_event=fail_on("bad")) as background:
        wait_until(lambda: not background.alive, "the consumer to end")
        assert isinstance(background.expected(), ValueError)


def test_a_running_consumer_ends_when_its_position_was_given_up(
    consuming, observer, log_name, write
):
    log = EventLog(observer)
    insert(observer, log_name, "a")
    log.set_log_options(log_name, max_lag_events=1)
    insert(observer, log_name, *"bcdefg")
    observer.execute(
        "update pgq.queue set queue_rotation_period = '0' where queue_name = %s", [log_name]
    )

    def is_lost():
        log.rotate(log_name)
        return log.list_consumers(log_name)[0].lost is not None

    wait_until(is_lost, "the consumer to be given up")
    with consuming.running(log_name, "c", on_event=write) as background:
        wait_until(lambda: not background.alive, "the consumer to end")
        assert isinstance(background.expected(), PositionLostError)


def test_a_running_consumer_waits_for_another_session_of_its_name(
    consuming, observer, log_name, write, worker_url
):
    insert(observer, log_name, "a")
    with psycopg.connect(worker_url) as other:
        log = EventLog(other)
        batch_id = log.next_batch(log_name, "c")
        other.commit()
        log.hold_batch(batch_id)
        with consuming.running(log_name, "c", on_event=write, poll_interval_s=0.05) as background:
            insert(observer, log_name, "b")
            log.finish_batch(batch_id)
            other.commit()
            wait_until(lambda: effects(observer, log_name) == [("b",)], "the next batch")
            assert background.alive


async def test_a_cancelled_consumer_rolls_its_batch_back_and_gives_its_connection_back(
    observer, log_name, worker_url
):
    insert(observer, log_name, "a")
    in_hand = asyncio.Event()

    async def handler(connection, event):
        await connection.execute("insert into effect values (%s, 1, 'x')", [log_name])
        in_hand.set()
        await connection.execute("select pg_sleep(600)")

    async with AsyncConnectionPool(worker_url, min_size=1, max_size=1, open=False) as pool:
        consumer = AsyncEventConsumer(pool, log_name, "c", on_event=handler)
        running = asyncio.create_task(consumer.run(asyncio.Event()))
        await in_hand.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with pool.connection(timeout=10) as connection:
            await connection.execute("select 1")

    assert effects(observer, log_name) == []
    assert state(observer, log_name) == (1, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either on_event or on_batch"),
        ({"on_event": print, "on_batch": print}, "either on_event or on_batch"),
        ({"on_batch": print, "retry": RetryPolicy()}, "require on_event"),
        ({"on_batch": print, "dead_letters": True}, "require on_event"),
        ({"on_event": print, "dead_letters": True}, "requires retry"),
        ({"on_event": print, "poll_interval_s": 0}, "more than 0 seconds"),
        ({"on_event": print, "dead_interval_s": 1}, "requires subconsumer_name"),
    ],
)
def test_arguments_that_could_not_work_are_refused(pool, options, words):
    with pytest.raises(ArgumentError, match=words):
        EventConsumer(pool, "l", "c", **options)


@pytest.mark.parametrize("delay_s", [-1, float("nan"), float("inf")])
def test_a_delay_that_cannot_be_waited_for_is_refused(delay_s):
    for outcome in (Retry, Release):
        with pytest.raises(ArgumentError, match="use 0 to 2147483647 seconds"):
            outcome(delay_s)


def test_a_log_that_does_not_exist_ends_the_consumer(consuming, write):
    with pytest.raises(LogNotFoundError):
        consuming.once("nope", "c", on_event=write)


def test_the_pools_connection_is_given_back_as_it_was(observer, log_name, worker_url):
    insert(observer, log_name, "a")
    stop = threading.Event()
    with ConnectionPool(worker_url, min_size=1, max_size=1, open=True) as pool:
        EventConsumer(pool, log_name, "c", on_event=lambda _connection, _event: stop.set()).run(
            stop
        )
        with pool.connection() as connection:
            assert not connection.autocommit
            assert rows(connection, "select * from pg_listening_channels()") == []


def test_a_consumer_is_not_woken_for_what_only_share_groups_can_take(pool, observer, log_name):
    consumer = EventConsumer(pool, log_name, "c", on_event=lambda *_: None)
    channel = value(observer, "select sluice.notify_channel(%s, 'log')", log_name)
    with pool.connection() as session:
        session.autocommit = True
        session.execute("select sluice.listen(%s, 'log')", [log_name])
        drained = []
        for payload in ("", "7"):
            observer.execute("select pg_notify(%s, %s)", [channel, payload])
            drained.append(consumer._drain_notifications(session, 10.0))
        session.execute("unlisten *")
        session.autocommit = False
    assert drained == [False, True]


def test_a_dsn_in_place_of_the_pool_is_refused_and_not_shown():
    with pytest.raises(TypeError, match=r"needs a psycopg_pool.ConnectionPool, not str") as caught:
        EventConsumer("postgresql://me:secret@host/shop", "l", "c", on_event=print)

    assert "secret" not in str(caught.value)
