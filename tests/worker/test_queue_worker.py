"""The worker against a real queue: what is done, what is tried again, and what is given up."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading

import psycopg
import pytest

from pgsluice import QueueWorker, Retry, WorkQueue
from pgsluice.errors import ArgumentError, ConnectionFailedError, PrivilegeError, QueueNotFoundError
from pgsluice.worker.engine.lost_sessions import UNCOUNTED_MAX
from pgsluice.worker.engine.queue_worker import Round
from support import rows, value, wait_until


def send(observer, queue_name, *messages):
    return WorkQueue(observer).send_batch(queue_name, messages)


def left(observer, queue_name):
    """The ids in the queue, in its archive, and among its dead letters."""
    dead = "select msg_id from sluice.dead_letter where queue_name = %s order by 1"
    return tuple(
        [row[0] for row in found]
        for found in (
            rows(observer, f"select msg_id from pgmq.q_{queue_name} order by 1"),
            rows(observer, f"select msg_id from pgmq.a_{queue_name} order by 1"),
            rows(observer, dead, queue_name),
        )
    )


def effects(observer, queue_name):
    query = "select msg_id, note from effect where queue_name = %s order by 1, 2"
    return rows(observer, query, queue_name)


def make_visible(observer, queue_name):
    observer.execute(f"update pgmq.q_{queue_name} set vt = clock_timestamp()")


@pytest.fixture
def write(queue_name):
    """A handler that writes one row."""

    def handler(connection, message):
        connection.execute(
            "insert into effect values (%s, %s, %s)",
            [queue_name, message.msg_id, str(message.message)],
        )

    return handler


@pytest.fixture
def fail(write):
    """A handler that writes one row, and then fails."""

    def handler(connection, message):
        write(connection, message)
        raise ValueError(f"cannot work on {message.message}")

    return handler


def test_a_message_is_archived_in_the_transaction_of_its_effect(pool, observer, queue_name, write):
    send(observer, queue_name, "a", "b")

    done = QueueWorker(pool, queue_name, write).run_once()

    assert done == Round(archived=2)
    assert done.claimed == 2
    assert left(observer, queue_name) == ([], [1, 2], [])
    assert effects(observer, queue_name) == [(1, "a"), (2, "b")]
    transactions = rows(
        observer,
        f"select a.xmin::text = e.xmin::text from pgmq.a_{queue_name} as a "
        "join effect as e using (msg_id) where e.queue_name = %s",
        queue_name,
    )
    assert transactions == [(True,), (True,)]


def test_an_empty_queue_is_no_work(pool, queue_name, write):
    assert QueueWorker(pool, queue_name, write).run_once().claimed == 0


def test_a_failed_message_is_rolled_back_and_tried_again_after_each_delay_of_the_policy(
    pool, observer, queue_name, fail
):
    send(observer, queue_name, "a")
    retry = Retry(max_attempts=4, first_delay_s=100, factor=3, max_delay_s=600)
    worker = QueueWorker(pool, queue_name, fail, retry=retry)
    hidden_s = f"select extract(epoch from vt - clock_timestamp())::float from pgmq.q_{queue_name}"

    for expected in (100, 300, 600):
        assert worker.run_once() == Round(retried=1)
        assert expected - 20 < value(observer, hidden_s) <= expected
        assert worker.run_once() == Round()
        make_visible(observer, queue_name)
    assert worker.run_once() == Round(dead=1)

    assert left(observer, queue_name) == ([], [], [1])
    assert effects(observer, queue_name) == []


def test_a_dead_letter_says_why_with_the_trace(pool, observer, queue_name, fail):
    WorkQueue(observer).send(queue_name, {"n": 1}, headers={"h": 2})

    QueueWorker(pool, queue_name, fail, retry=Retry(max_attempts=1)).run_once()

    ((message, headers, read_ct, reason, error),) = rows(
        observer,
        "select message, headers, read_ct, reason, error from sluice.dead_letter where queue_name = %s",
        queue_name,
    )
    assert (message, headers, read_ct) == ({"n": 1}, {"h": 2}, 1)
    assert reason == "failed 1 times, last with ValueError"
    assert error.startswith("Traceback (most recent call last)")
    assert error.rstrip().endswith("ValueError: cannot work on {'n': 1}")
    assert "in handler" in error


@pytest.mark.parametrize("text", ["a\x00b", "a\ud83db"], ids=["nul", "surrogate"])
def test_an_error_whose_text_postgresql_cannot_store_ends_in_the_dead_letters_all_the_same(
    pool, observer, queue_name, text
):
    send(observer, queue_name, "a")

    def handler(connection, message):
        raise ValueError(text)

    done = QueueWorker(pool, queue_name, handler, retry=Retry(max_attempts=1)).run_once()

    assert done == Round(dead=1)
    error = value(
        observer, "select error from sluice.dead_letter where queue_name = %s", queue_name
    )
    assert r"a\x00b" in error or r"a\ud83db" in error


def test_one_bad_message_does_not_stop_the_ones_behind_it(pool, observer, queue_name, write):
    send(observer, queue_name, "a", "bad", "c")

    def handler(connection, message):
        write(connection, message)
        if message.message == "bad":
            raise ValueError

    done = QueueWorker(pool, queue_name, handler).run_once()

    assert done == Round(archived=2, retried=1)
    assert left(observer, queue_name) == ([2], [1, 3], [])
    assert effects(observer, queue_name) == [(1, "a"), (3, "c")]


def raise_privilege_error(connection, message):
    raise PrivilegeError("may not")


def break_a_rule(connection, message):
    connection.execute("select 1/0")


def use_a_table_that_is_not_there(connection, message):
    connection.execute("select * from not_there")


def swallow_an_error_of_the_server(connection, message):
    with contextlib.suppress(psycopg.Error):
        connection.execute("select 1/0")


def commit(connection, message):
    connection.commit()


def break_a_rule_that_is_checked_at_commit(connection, message):
    connection.execute(
        "create temp table late (id integer unique deferrable initially deferred) on commit drop"
    )
    connection.execute("insert into late values (1), (1)")


@pytest.mark.parametrize(
    "handler",
    [
        raise_privilege_error,
        break_a_rule,
        use_a_table_that_is_not_there,
        swallow_an_error_of_the_server,
        commit,
        break_a_rule_that_is_checked_at_commit,
    ],
)
def test_whatever_the_handler_does_wrong_is_a_failed_attempt(pool, observer, queue_name, handler):
    send(observer, queue_name, "a")
    worker = QueueWorker(pool, queue_name, handler, retry=Retry(max_attempts=2, first_delay_s=0))

    assert worker.run_once() == Round(retried=1)
    assert left(observer, queue_name) == ([1], [], [])
    assert worker.run_once() == Round(dead=1)
    assert left(observer, queue_name) == ([], [], [1])


def test_a_session_that_the_server_ends_is_not_the_messages_fault(
    pool, observer, queue_name, write
):
    send(observer, queue_name, "a")

    def handler(connection, message):
        write(connection, message)
        seen.append(message.read_ct)
        if message.read_ct != 2:
            pid = connection.info.backend_pid
            observer.execute("select pg_terminate_backend(%s, 10000)", [pid])

    seen: list[int] = []
    worker = QueueWorker(pool, queue_name, handler, retry=Retry(max_attempts=1))
    with pytest.raises(ConnectionFailedError):
        worker.run_once()

    assert left(observer, queue_name) == ([1], [], [])
    assert effects(observer, queue_name) == []
    assert worker.run_once() == Round(archived=1)
    assert seen == [1, 2]


def test_a_handler_that_ends_each_of_its_sessions_does_not_go_on_for_ever(
    pool, observer, queue_name
):
    send(observer, queue_name, "a")
    observer.execute(f"update pgmq.q_{queue_name} set read_ct = {UNCOUNTED_MAX}")

    def handler(connection, _message):
        connection.execute("select pg_terminate_backend(pg_backend_pid())")

    worker = QueueWorker(pool, queue_name, handler, retry=Retry(max_attempts=1))
    with pytest.raises(ConnectionFailedError):
        worker.run_once()
    observer.execute("select pgmq.set_vt(%s, 1, 0)", [queue_name])

    assert worker.run_once() == Round(dead=1)


KILLED = """
import os, sys
import psycopg
from psycopg_pool import ConnectionPool
from pgsluice import QueueWorker, Retry

url, queue_name, qty = sys.argv[1:]

def handler(connection, message):
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("insert into effect values (%s, %s, 'started')", [queue_name, message.msg_id])
    connection.execute("insert into effect values (%s, %s, 'done')", [queue_name, message.msg_id])
    if message.message == "poison":
        os._exit(86)

with ConnectionPool(url, min_size=1, max_size=1, open=True) as pool:
    worker = QueueWorker(pool, queue_name, handler, qty=int(qty), retry=Retry(max_attempts=2))
    while worker.run_once().claimed:
        pass
"""


@pytest.mark.parametrize("qty", [1, 10])
def test_a_message_that_kills_its_process_is_a_dead_letter_after_the_last_attempt_and_no_other_is(
    worker_url, observer, queue_name, qty
):
    send(observer, queue_name, "good", "poison", "good", "good")

    codes = []
    for _ in range(4):
        process = subprocess.run(
            [sys.executable, "-c", KILLED, worker_url, queue_name, str(qty)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        codes.append(process.returncode)
        make_visible(observer, queue_name)

    assert codes == [86, 86, 0, 0], process.stderr
    assert left(observer, queue_name) == ([], [1, 3, 4], [2])
    good = [(msg_id, note) for msg_id in (1, 3, 4) for note in ("done", "started")]
    assert effects(observer, queue_name) == sorted([*good, (2, "started"), (2, "started")])
    reason = value(
        observer, "select reason from sluice.dead_letter where queue_name = %s", queue_name
    )
    assert reason == "delivered too often without an answer"


def test_the_effect_of_a_lapsed_claim_is_rolled_back_when_another_worker_was_faster(
    pool, observer, queue_name, write
):
    send(observer, queue_name, "a")

    def slow(connection, message):
        connection.execute("insert into effect values (%s, 1, 'slow')", [queue_name])
        make_visible(observer, queue_name)  # the claim lapses
        assert QueueWorker(pool, queue_name, write).run_once() == Round(archived=1)

    assert QueueWorker(pool, queue_name, slow).run_once() == Round(lost=1)

    assert left(observer, queue_name) == ([], [1], [])
    assert effects(observer, queue_name) == [(1, "a")]


def test_the_effect_of_a_lapsed_claim_is_rolled_back_while_another_worker_has_the_message(
    pool, observer, queue_name, write
):
    send(observer, queue_name, "a")

    def slow(connection, message):
        write(connection, message)
        make_visible(observer, queue_name)
        assert len(WorkQueue(observer).read(queue_name, 3600)) == 1

    assert QueueWorker(pool, queue_name, slow).run_once() == Round(lost=1)

    assert left(observer, queue_name) == ([1], [], [])
    assert effects(observer, queue_name) == []


def test_a_failure_after_the_claim_lapsed_does_not_disturb_the_next_claim(
    pool, observer, queue_name
):
    send(observer, queue_name, "a")

    def slow(connection, message):
        make_visible(observer, queue_name)
        assert len(WorkQueue(observer).read(queue_name, 3600)) == 1
        raise ValueError

    assert QueueWorker(pool, queue_name, slow).run_once() == Round(lost=1)

    assert WorkQueue(observer).read(queue_name, 30) == []
    assert left(observer, queue_name) == ([1], [], [])


def test_a_message_whose_claim_has_lapsed_before_its_turn_is_left_to_others(
    pool, observer, queue_name, write
):
    send(observer, queue_name, "a", "b")

    def slow(connection, message):
        write(connection, message)
        wait_until(
            lambda: bool(
                value(observer, f"select vt < now() from pgmq.q_{queue_name} where msg_id = 2")
            ),
            "the claim of the second message to lapse",
        )

    assert QueueWorker(pool, queue_name, slow, visibility_timeout_s=1).run_once() == Round(
        archived=1, lost=1
    )

    assert effects(observer, queue_name) == [(1, "a")]
    assert [m.msg_id for m in WorkQueue(observer).read(queue_name, 30)] == [2]


def test_a_stopped_worker_finishes_the_message_in_hand_and_gives_the_others_back(
    pool, observer, queue_name, write
):
    send(observer, queue_name, "a", "b", "c")
    stop = threading.Event()

    def handler(connection, message):
        write(connection, message)
        stop.set()

    QueueWorker(pool, queue_name, handler).run(stop)

    assert left(observer, queue_name) == ([2, 3], [1], [])
    assert [m.msg_id for m in WorkQueue(observer).read(queue_name, 30, 9)] == [2, 3]


def test_messages_that_were_never_started_keep_all_their_attempts(
    pool, observer, queue_name, write, fail
):
    send(observer, queue_name, "a", "b")
    stopped = threading.Event()
    stopped.set()
    policy = Retry(max_attempts=2, first_delay_s=0)
    for _ in range(3):
        assert QueueWorker(pool, queue_name, write, retry=policy).run_once(stopped) == Round()

    worker = QueueWorker(pool, queue_name, fail, retry=policy)

    assert worker.run_once() == Round(retried=2)
    assert worker.run_once() == Round(dead=2)
    attempts = "select attempts, read_ct, error_type from sluice.dead_letter where queue_name = %s"
    assert rows(observer, attempts, queue_name) == [(2, 5, "ValueError")] * 2


def test_a_queue_that_does_not_exist_ends_the_worker(pool, write):
    with pytest.raises(QueueNotFoundError, match="create it with create"):
        QueueWorker(pool, "nope", write).run(threading.Event())


def test_workers_side_by_side_give_every_message_one_effect(pool, observer, queue_name, write):
    count = 200
    send(observer, queue_name, *range(count))
    stop = threading.Event()
    errors = []

    def handler(connection, message):
        write(connection, message)
        if message.msg_id % 5 == 0 and message.read_ct < 3:
            raise ValueError("not yet")

    def work():
        try:
            QueueWorker(
                pool, queue_name, handler, qty=7, poll_interval_s=0.01, retry=Retry(first_delay_s=0)
            ).run(stop)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_until(
            lambda: value(observer, f"select count(*) from pgmq.a_{queue_name}") == count or errors,
            "all messages to be archived",
            deadline_s=60,
        )
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert errors == []
    assert left(observer, queue_name)[0] == []
    assert [row[0] for row in effects(observer, queue_name)] == list(range(1, count + 1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"qty": 0}, "qty is 0; use 1 or more"),
        ({"visibility_timeout_s": 0}, "use 1 or more seconds"),
    ],
)
def test_arguments_that_could_not_work_are_refused(pool, write, arguments, words):
    with pytest.raises(ArgumentError, match=words):
        QueueWorker(pool, "q", write, **arguments)
