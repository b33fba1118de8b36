"""A copy made from a snapshot and concurrent changes equals the table."""

from __future__ import annotations

import random
import threading

import psycopg
import pytest
from psycopg.types.json import Jsonb

from support import rows, value, wait_for_lock
from support.capture import apply, contents, copy_of, logged, snapshot
from support.log import tick

KEYS = 300
WRITERS = 4
WRITES = 250
WAYS_TO_FAIL = (
    psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected, psycopg.errors.DivisionByZero,
)  # fmt: skip


@pytest.fixture
def account(connection):
    """A table with rows written before its capture, and its empty copy."""
    connection.execute("create table account (id integer primary key, name text, n numeric)")
    connection.execute(
        "insert into account select n * 2, 'before', n from generate_series(1, %s) as n",
        [KEYS // 2],
    )
    copy_of(connection, "account")
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    connection.execute("select pgq.register_consumer('changes', 'copier')")
    return connection


def without_row_locks(connection):
    """Plant a bug: a snapshot without row locks."""
    source = value(
        connection,
        "select pg_get_functiondef('sluice.capture_snapshot(regclass, text, jsonb, integer)'::regprocedure)",
    )
    planted = source.replace("for share skip locked", "").replace("for share", "")
    assert planted != source
    connection.execute(planted)


def write(connection, chance):
    """Run a random transaction; it may fail or be rolled back."""
    key, other = chance.randint(1, KEYS), chance.randint(1, KEYS)
    statements = chance.choice(
        [
            ["insert into account values (%(key)s, 'new', %(other)s)"],
            ["insert into account select n, 'many', n from generate_series(%(key)s, %(key)s + 5) as n"
             " on conflict (id) do update set name = 'again'"],
            ["update account set name = name || '.' where id = %(key)s"],
            ["update account set n = n + 0.1 where id between %(key)s and %(key)s + 20"],
            ["update account set id = %(other)s where id = %(key)s"],
            ["update account set id = id + 1000 where id = %(key)s",
             "update account set id = id - 1000 where id >= 1000 and id <= 1000 + %(other)s"],
            ["delete from account where id = %(key)s"],
            ["delete from account where id = %(key)s", "insert into account values (%(key)s, 'back', 0)"],
            ["update account set name = 'kept' where id = %(key)s", "savepoint s",
             "update account set name = 'lost' where id = %(other)s", "rollback to s"],
            ["update account set name = 'lost' where id = %(key)s", "select 1 / 0"],
        ]
    )  # fmt: skip
    try:
        with connection.transaction():
            for statement in statements:
                connection.execute(statement, {"key": key, "other": other})
    except WAYS_TO_FAIL:
        pass


def copy_batches(connection):
    """Apply all events of the log, each batch in the transaction that finishes it."""
    tick(connection)
    while True:
        with connection.transaction():
            batch = value(connection, "select pgq.next_batch('changes', 'copier')")
            if batch is None:
                return
            apply(
                connection,
                rows(
                    connection,
                    "select ev_type, ev_data from pgq.get_batch_events(%s) order by ev_id",
                    batch,
                ),
            )
            connection.execute("select pgq.finish_batch(%s)", [batch])


def run_all(work):
    """Run each function in a thread; return the errors."""
    errors = []

    def guarded(one):
        try:
            one()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return errors


@pytest.mark.slow
def test_a_copy_is_the_table_after_writes_of_all_kinds_around_a_snapshot(database, account, seed):
    begun = threading.Event()

    def writer(number):
        chance = random.Random(seed * 100 + number)
        with database.connect() as connection:
            for count in range(WRITES):
                write(connection, chance)
                if count == WRITES // 10:
                    begun.set()

    def copier():
        # The capture and the snapshot start while writers are active.
        assert begun.wait(60)
        with database.connect() as connection:
            connection.execute("select sluice.capture('account', 'changes')")
            key, calls = None, 0
            while calls == 0 or key is not None:
                key = value(
                    connection,
                    "select sluice.capture_snapshot('account', 'changes', %s::jsonb, 7)",
                    None if key is None else Jsonb(key),
                )
                calls += 1
                copy_batches(connection)
            assert calls > 5

    errors = run_all([*(lambda n=n: writer(n) for n in range(WRITERS)), copier])
    assert errors == []
    copy_batches(account)

    assert contents(account, "copy") == contents(account, "account")
    assert value(account, "select count(*) from account") > 10


@pytest.mark.parametrize("locks", [True, False], ids=["with row locks", "without them"])
def test_a_row_that_is_being_changed_is_waited_for(database, account, locks):
    account.execute("select sluice.capture('account', 'changes')")
    if not locks:
        without_row_locks(account)
    with database.connect(autocommit=False) as writer, database.connect() as taker:
        writer.execute("update account set name = 'changed' where id = 2")
        taking = threading.Thread(target=lambda: snapshot(taker, "account"))
        taking.start()
        if locks:
            wait_for_lock(account, taker)
        else:
            taking.join(30)
        writer.commit()
        taking.join(30)
    copy_batches(account)

    assert (contents(account, "copy") == contents(account, "account")) is locks


def test_a_row_held_by_another_ends_the_chunk_without_waiting(database, account):
    account.execute("select sluice.capture('account', 'changes')")
    with database.connect(autocommit=False) as writer:
        writer.execute("update account set name = 'changed' where id = 12")
        account.execute("set lock_timeout = '5 s'")
        first = value(account, "select sluice.capture_snapshot('account', 'changes')")
        account.execute("set lock_timeout = '50 ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            account.execute(
                "select sluice.capture_snapshot('account', 'changes', %s)", [Jsonb(first)]
            )
        writer.rollback()

    assert first == {"id": "10"}
    account.execute("reset lock_timeout")
    second = value(
        account, "select sluice.capture_snapshot('account', 'changes', %s)", Jsonb(first)
    )
    assert second == {"id": str(KEYS)}


def test_the_first_row_goes_or_moves_while_it_is_waited_for(database, account):
    account.execute("select sluice.capture('account', 'changes')")
    for change in (
        "delete from account where id = 2",
        "update account set id = 100000 where id = 4",
    ):
        with database.connect(autocommit=False) as writer, database.connect() as taker:
            writer.execute(change)
            found = []
            taking = threading.Thread(
                target=lambda taker=taker, found=found: found.append(
                    value(taker, "select sluice.capture_snapshot('account', 'changes', null, 3)")
                )
            )
            taking.start()
            wait_for_lock(account, taker)
            writer.commit()
            taking.join(30)
        third = value(account, "select id from account order by id offset 2 limit 1")
        assert found == [{"id": str(third)}]


def test_a_transaction_that_has_written_before_is_waited_for(database, account):
    with database.connect(autocommit=False) as writer, database.connect() as capturer:
        writer.execute("update account set name = 'unseen' where id = 2")
        capturing = threading.Thread(
            target=lambda: capturer.execute("select sluice.capture('account', 'changes')")
        )
        capturing.start()
        wait_for_lock(account, capturer)
        writer.commit()
        capturing.join(30)
    with database.connect(autocommit=False) as early:
        # The transaction starts before the capture, and writes first after it.
        account.execute("select sluice.drop_capture('account', 'changes')")
        early.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        early.execute("select pg_current_xact_id(), count(*) from account")
        account.execute("select sluice.capture('account', 'changes')")
        early.execute("update account set name = 'seen' where id = 4")
        early.commit()

    assert [op for op, _ in logged(account)] == ["u"]


def test_truncate_waits_for_a_chunk_and_is_behind_it_in_the_log(database, account):
    account.execute("select sluice.capture('account', 'changes')")
    with database.connect(autocommit=False) as taker, database.connect() as truncater:
        key = value(taker, "select sluice.capture_snapshot('account', 'changes', null, 5)")
        truncating = threading.Thread(target=lambda: truncater.execute("truncate account"))
        truncating.start()
        wait_for_lock(account, truncater)
        taker.commit()
        truncating.join(30)
        assert (
            value(taker, "select sluice.capture_snapshot('account', 'changes', %s)", Jsonb(key))
            is None
        )
        taker.commit()
    copy_batches(account)

    assert [op for op, _ in logged(account)] == ["r"] * 5 + ["t"]
    assert contents(account, "copy") == []


def test_writes_to_a_table_without_a_key_wait_for_its_snapshot_to_commit(database, account):
    account.execute("alter table account drop constraint account_pkey")
    account.execute("select sluice.capture('account', 'changes')")
    with database.connect(autocommit=False) as taker, database.connect() as writer:
        assert value(taker, "select sluice.capture_snapshot('account', 'changes', null, 5)") is None
        writing = threading.Thread(
            target=lambda: writer.execute("delete from account where id = 2")
        )
        writing.start()
        wait_for_lock(account, writer)
        taker.commit()
        writing.join(30)

    assert [op for op, _ in logged(account)] == ["r"] * (KEYS // 2) + ["d"]


def test_a_change_from_a_snapshot_older_than_a_rotation_is_delivered(database, account):
    account.execute("select sluice.capture('account', 'changes')")
    account.execute("select pgq.register_consumer('changes', 'late')")
    account.execute("update pgq.queue set queue_rotation_period = '0'")
    with database.connect(autocommit=False) as early:
        early.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        early.execute("select count(*) from account")
        account.execute("select sluice.rotate('changes')")
        early.execute("insert into account values (100001, 'late', 0)")
        account.execute("select sluice.rotate('changes')")
        early.commit()
    account.execute("select sluice.log_tick('changes')")

    batch = value(account, "select pgq.next_batch('changes', 'late')")
    assert "100001" in str(value(account, "select ev_data from pgq.get_batch_events(%s)", batch))
