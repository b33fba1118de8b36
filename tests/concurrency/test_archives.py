"""Concurrent replay, redrive and retention: each message is replayed or moved once."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from support import rows, value, wait_for_lock
from support.queue_options import set_queue_options

MESSAGES = 2_000


@pytest.fixture
def archive(database):
    """Queues `orders` and `again`; `orders` has 2,000 archived messages and 2,000 dead letters."""
    with database.connect() as connection:
        connection.execute("select pgmq.create('orders'), pgmq.create('again')")
        connection.execute(
            "insert into pgmq.a_orders (msg_id, vt, archived_at, message) "
            "select n, now(), now() - interval '1 h', to_jsonb(n) from generate_series(1, %s) as n",
            [MESSAGES],
        )
        connection.execute(
            "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason) "
            "select 'orders', n, 1, now(), to_jsonb(n), 'r' from generate_series(1, %s) as n",
            [MESSAGES],
        )
        yield connection


def sent(connection):
    return sorted(
        row[0] for row in rows(connection, "select (message #>> '{}')::int from pgmq.q_again")
    )


@contextmanager
def waiting(connection, observer, query):
    """Run a query in a thread; enter when it waits for a lock. Its rows are yielded."""
    found = []
    thread = threading.Thread(target=lambda: found.extend(rows(connection, query)))
    thread.start()
    try:
        wait_for_lock(observer, connection)
        yield found
    finally:
        thread.join(30)


def at_once(database, copies, work):
    """Run the same work in several sessions at once; return the errors."""
    errors = []

    def run():
        try:
            with database.connect() as connection:
                work(connection)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(copies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return errors


def continue_to_the_end(connection):
    while not value(connection, "select finished from sluice.continue_replay(1, 50)"):
        pass


def test_a_second_step_of_a_replay_waits_and_goes_on_behind_the_first(database, archive):
    archive.execute("select sluice.start_replay('orders', 'again')")
    query = "select replayed_in_all from sluice.continue_replay(1, 10)"
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert rows(first, query) == [(10,)]
        with waiting(second, archive, query) as found:
            first.commit()

        assert found == [(20,)]
    assert sent(archive) == list(range(1, 21))


def test_a_second_step_does_the_work_of_a_first_that_rolls_back(database, archive):
    archive.execute("select sluice.start_replay('orders', 'again')")
    query = "select replayed_in_all from sluice.continue_replay(1, 10)"
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert rows(first, query) == [(10,)]
        with waiting(second, archive, query) as found:
            first.rollback()

        assert found == [(10,)]
    assert sent(archive) == list(range(1, 11))


def test_eight_that_go_on_with_one_replay_send_each_message_once(database, archive):
    archive.execute("select sluice.start_replay('orders', 'again')")

    assert at_once(database, 8, continue_to_the_end) == []

    assert sent(archive) == list(range(1, MESSAGES + 1))
    assert value(archive, "select replayed from sluice.list_replays()") == MESSAGES


def test_without_the_lock_of_the_replay_they_send_messages_twice(database, archive):
    source = value(
        archive, "select pg_get_functiondef(oid) from pg_proc where proname = 'continue_replay'"
    )
    lock = "where r.replay_id = continue_replay.replay_id for update;"
    assert source.count(lock) == 1
    archive.execute(source.replace(lock, lock.replace(" for update", "")))
    archive.execute("select sluice.start_replay('orders', 'again')")
    query = "select replayed_in_all from sluice.continue_replay(1, 10)"
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert rows(first, query) == [(10,)]
        with waiting(second, archive, query):
            first.commit()

    assert sent(archive) != list(range(1, 21))


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_of_two_that_redrive_the_same_letters_one_moves_them(database, archive, end):
    query = "select dead_letter_id from sluice.redrive('orders', null, '{\"dead_letter_ids\": [2, 1]}', 'again')"
    with database.connect(autocommit=False) as first, database.connect() as second:
        assert rows(first, query) == [(1,), (2,)]
        with waiting(second, archive, query) as found:
            getattr(first, end)()

        assert found == ([] if end == "commit" else [(1,), (2,)])
    assert sent(archive) == [1, 2]


def test_filtered_redrive_skips_messages_another_session_moves(database, archive):
    query = "select dead_letter_id from sluice.redrive('orders', target_queue_name => 'again', qty => 2)"
    with database.connect(autocommit=False) as first:
        assert rows(first, query) == [(1,), (2,)]
        archive.execute("set lock_timeout = '100ms'")
        assert rows(archive, query) == [(3,), (4,)]
        first.commit()

    assert sent(archive) == [1, 2, 3, 4]


def test_eight_that_redrive_everything_move_each_letter_once(database, archive):
    def redrive(connection):
        query = "select * from sluice.redrive('orders', target_queue_name => 'again', qty => 50)"
        while rows(connection, query):
            pass

    assert at_once(database, 8, redrive) == []

    assert sent(archive) == list(range(1, MESSAGES + 1))
    assert value(archive, "select count(*) from sluice.dead_letter") == 0


def test_eight_maintainers_beside_archiving_workers_keep_recent_messages(database, archive):
    set_queue_options(archive, "orders", archive_retention="30 minutes")
    archive.execute(
        "select setval('pgmq.q_orders_msg_id_seq', %s), "
        "pgmq.send_batch('orders', array_agg('{}'::jsonb)) from generate_series(1, 400)",
        [MESSAGES],
    )
    turns = iter([True] * 8 + [False] * 4)

    def work(connection):
        if next(turns):
            while steps := rows(connection, "select done from sluice._maintain_retention(50)"):
                assert steps == [(True,)]
            return
        taken = "select array_agg(msg_id) from pgmq.read('orders', 600, 10)"
        while ids := value(connection, taken):
            connection.execute("select pgmq.archive('orders', %s::bigint[])", [ids])

    assert at_once(database, 12, work) == []

    assert value(archive, "select count(*) from pgmq.a_orders") == 400
    assert value(archive, "select min(msg_id) from pgmq.a_orders") == MESSAGES + 1
