"""Keys until their message is claimed or done, with concurrent senders and readers."""

from __future__ import annotations

import random
import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock
from support.queue_options import set_queue_options

SEND = "select sluice.send('orders', %s::text::jsonb, %s)"


@pytest.fixture
def orders(connection):
    connection.execute("select pgmq.create('orders')")
    return connection


@pytest.fixture
def sessions(database, orders):
    made = []

    def make(level="read committed"):
        session = database.connect(autocommit=False)
        session.execute(f"set transaction isolation level {level}")
        made.append(session)
        return session

    yield make
    for session in made:
        session.close()


def send_and_wait(observer, session, message, key):
    """Send in a thread that waits for a lock; return a function that returns the id or the error."""
    results = []

    def run():
        try:
            results.append(value(session, SEND, message, key))
        except psycopg.Error as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for_lock(observer, session)

    def result():
        thread.join(30)
        return results.pop()

    return result


@pytest.mark.parametrize("is_committed", [True, False], ids=["commits", "rolls-back"])
def test_of_two_first_senders_the_second_gets_the_id_or_stores_its_own(
    orders, sessions, is_committed
):
    set_queue_options(orders, "orders", deduplication_until="done")
    first, second = sessions(), sessions()
    assert value(first, SEND, "1", "k") == 1
    result = send_and_wait(orders, second, "2", "k")

    first.commit() if is_committed else first.rollback()

    assert result() == (1 if is_committed else 2)
    second.commit()
    assert rows(orders, "select message from pgmq.q_orders") == [(1 if is_committed else 2,)]


@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
def test_the_key_of_a_done_message_is_taken_by_one_of_two(orders, sessions, level):
    set_queue_options(orders, "orders", deduplication_until="done")
    value(orders, SEND, "1", "k")
    orders.execute("select pgmq.delete('orders', 1)")
    first, second = sessions(level), sessions(level)
    second.execute("select count(*) from pgmq.meta")  # the snapshot of its isolation level
    assert value(first, SEND, "2", "k") == 2
    result = send_and_wait(orders, second, "3", "k")

    first.commit()

    if level == "repeatable read":
        assert isinstance(result(), psycopg.errors.SerializationFailure)
    else:
        assert result() == 2
        second.commit()
    assert rows(orders, "select msg_id, message from pgmq.q_orders") == [(2, 2)]


@pytest.mark.parametrize("on_duplicate", [None, "debounce", "replace"])
def test_a_message_that_a_duplicate_found_is_claimed_after_the_commit_of_the_sender(
    orders, sessions, on_duplicate
):
    set_queue_options(orders, "orders", deduplication_until="claimed", on_duplicate=on_duplicate)
    value(orders, SEND, "1", "k")
    sender = sessions()
    assert value(sender, SEND, "2", "k") == 1

    assert rows(orders, "select * from pgmq.read('orders', 60, 1)") == []

    sender.commit()
    (read,) = rows(orders, "select message from pgmq.read('orders', 60, 1)")
    assert read == (2 if on_duplicate == "replace" else 1,)


@pytest.mark.parametrize("on_duplicate", [None, "debounce", "replace"])
def test_a_duplicate_waits_for_a_claim_and_is_stored_after_it(orders, sessions, on_duplicate):
    set_queue_options(orders, "orders", deduplication_until="claimed", on_duplicate=on_duplicate)
    value(orders, SEND, "1", "k")
    reader, sender = sessions(), sessions()
    assert len(rows(reader, "select * from pgmq.read('orders', 60, 1)")) == 1
    result = send_and_wait(orders, sender, "2", "k")

    reader.commit()

    assert result() == 2
    sender.commit()
    assert rows(orders, "select msg_id, message from pgmq.q_orders order by 1") == [(1, 1), (2, 2)]


def test_a_running_message_is_a_duplicate_until_it_is_done_without_a_wait(orders, sessions):
    set_queue_options(orders, "orders", deduplication_until="done", on_duplicate="replace")
    value(orders, SEND, "1", "k")
    orders.execute("select from pgmq.read('orders', 60, 1)")
    worker, sender = sessions(), sessions()
    worker.execute("select from pgmq.q_orders for update")
    sender.execute("set lock_timeout = '100ms'")

    assert value(sender, SEND, "2", "k") == 1


def test_batches_with_the_same_keys_in_opposite_orders_do_not_deadlock(orders, sessions):
    set_queue_options(orders, "orders", deduplication_until="done", on_duplicate="replace")
    keys = [f"{n:02}" for n in range(20)]
    call = "select * from sluice.send_batch('orders', array_fill('1'::jsonb, array[20]), %s)"
    rows(orders, call, keys)
    gate = sessions()
    value(gate, SEND, "0", "10")
    gate.execute("select from sluice.deduplication_key where key = '10' for update")
    done, errors = [], []

    def send(session, some):
        try:
            done.append([msg_id for (msg_id,) in rows(session, call, some)])
            session.commit()
        except psycopg.Error as error:
            errors.append(error)

    pairs = [(sessions(), keys), (sessions(), keys[::-1])]
    threads = [threading.Thread(target=send, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for session, _ in pairs:
        wait_for_lock(orders, session)
    gate.commit()
    for thread in threads:
        thread.join(60)

    assert errors == []
    assert sorted(map(sorted, done)) == [list(range(1, 21))] * 2


@pytest.mark.parametrize("until", ["claimed", "done"])
@pytest.mark.parametrize("on_duplicate", [None, "debounce", "replace"])
def test_senders_and_readers_keep_one_message_per_key_and_lose_none(
    database, orders, seed, until, on_duplicate
):
    """Each send is stored, or its key has a message that was not done when it was sent.

    Until claimed with replace, the last payload of each key is read after it was sent.
    """
    set_queue_options(orders, "orders", deduplication_until=until, on_duplicate=on_duplicate)
    duplicated = []
    errors, last_read, lock = [], {}, threading.Lock()
    sending = threading.Event()

    def send(number):
        chance = random.Random(seed * 100 + number)
        try:
            with database.connect(autocommit=False) as session:
                for n in range(60):
                    key = f"{number if on_duplicate else 0}-{chance.randrange(3)}"
                    value(session, SEND, f'["{key}", {n}]', key)
                    if chance.random() < 0.2:
                        session.rollback()
                    else:
                        session.commit()
                        with lock:
                            last_read.setdefault(key, {})["sent"] = n
        except psycopg.Error as error:
            errors.append(error)

    def read():
        try:
            with database.connect() as session:
                while True:
                    is_last = sending.is_set()
                    found = rows(session, "select msg_id, message from pgmq.read('orders', 60, 2)")
                    for msg_id, (key, n) in found:
                        with lock:
                            last_read.setdefault(key, {}).setdefault("read", []).append(n)
                        count = "select count(*) from pgmq.q_orders where message ->> 0 = %s"
                        if value(session, count, key) > (1 if until == "done" else 10_000):
                            duplicated.append(key)
                        session.execute("select pgmq.delete('orders', %s::bigint)", [msg_id])
                    if is_last and not found:
                        return
        except psycopg.Error as error:
            errors.append(error)

    senders = [threading.Thread(target=send, args=(number,)) for number in range(3)]
    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in [*senders, *readers]:
        thread.start()
    for thread in senders:
        thread.join(60)
    sending.set()
    for thread in readers:
        thread.join(60)

    assert (errors, duplicated) == ([], [])
    assert value(orders, "select count(*) from pgmq.q_orders") == 0
    for key, seen in last_read.items():
        assert seen["read"], key
        if until == "claimed" and on_duplicate == "replace" and "sent" in seen:
            assert max(seen["read"]) == seen["sent"], key
