"""sluice.check_shard: the fence of sends by key; with sluice.begin_directory and sluice.finish_directory."""

from __future__ import annotations

import json
import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock

FIRST = json.dumps({"names": ["a", "b"], "pins": {}})
SECOND = json.dumps({"names": ["a", "b"], "pins": {"acme": "b"}})
CHECK = "select sluice.check_shard(%s, %s)"
BEGIN = "select sluice.begin_directory(%s, %s, %s, %s)"
FINISH = "select sluice.finish_directory(%s)"


@pytest.fixture
def shard(connection):
    """The database is the shard `a` of generation 1."""
    connection.execute(BEGIN, ("a", 1, FIRST, None))
    connection.execute(FINISH, (1,))
    return connection


def error_of(connection, sql, parameters) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql, parameters)
    return caught.value


def test_database_that_is_no_shard_is_refused_with_the_way_out(connection):
    error = error_of(connection, CHECK, ("a", 1))
    assert error.sqlstate == "SH001"
    assert "is not the shard a" in str(error)
    assert "pgsluice shards apply" in error.diag.message_hint


def test_sender_of_the_same_or_a_newer_generation_passes(shard):
    shard.execute(CHECK, ("a", 1))
    shard.execute(CHECK, ("a", 2))


def test_sender_of_an_older_generation_is_refused(shard):
    shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
    error = error_of(shard, CHECK, ("a", 1))
    assert error.sqlstate == "SH002"
    assert "generation 2" in str(error)
    shard.execute(FINISH, (2,))
    assert error_of(shard, CHECK, ("a", 1)).sqlstate == "SH002"


def test_another_shard_is_refused_with_both_names(shard):
    error = error_of(shard, CHECK, ("b", 1))
    assert error.sqlstate == "SH001"
    assert "is the shard a, not b" in str(error)
    assert error_of(shard, BEGIN, ("b", 2, SECOND, FIRST)).sqlstate == "SH001"


def test_directory_begins_after_the_sends_that_were_checked_before(database, shard):
    with database.connect(autocommit=False) as sender, database.connect() as operator:
        sender.execute(CHECK, ("a", 1))
        thread = threading.Thread(target=operator.execute, args=(BEGIN, ("a", 2, SECOND, FIRST)))
        thread.start()
        wait_for_lock(shard, operator)
        sender.commit()
        thread.join(10)
        assert value(shard, "select generation from sluice.shard") == 2


def test_send_that_waited_for_a_new_directory_is_refused(database, shard):
    errors = []

    def send() -> None:
        errors.append(error_of(sender, CHECK, ("a", 1)).sqlstate)

    with database.connect() as sender, database.connect(autocommit=False) as operator:
        operator.execute(BEGIN, ("a", 2, SECOND, FIRST))
        thread = threading.Thread(target=send)
        thread.start()
        wait_for_lock(shard, sender)
        operator.commit()
        thread.join(10)
    assert errors == ["SH002"]


@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
def test_sender_with_an_older_snapshot_gets_a_serialization_failure(database, shard, level):
    with database.connect(autocommit=False) as sender:
        sender.isolation_level = psycopg.IsolationLevel[level]
        sender.execute("select 1 from pg_class limit 1")
        shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
        shard.execute(FINISH, (2,))
        with pytest.raises(psycopg.errors.SerializationFailure):
            sender.execute(CHECK, ("a", 1))


def test_sends_do_not_wait_for_each_other(database, shard):
    with database.connect(autocommit=False) as one, database.connect(autocommit=False) as other:
        one.execute(CHECK, ("a", 1))
        other.execute("set lock_timeout = '100ms'")
        other.execute(CHECK, ("a", 1))


def test_beginning_and_finishing_again_changes_nothing(shard):
    shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
    moving = rows(shard, "select s::text from sluice.shard as s")
    shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
    assert rows(shard, "select s::text from sluice.shard as s") == moving
    shard.execute(FINISH, (2,))
    active = rows(shard, "select s::text from sluice.shard as s")
    shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
    shard.execute(FINISH, (2,))
    assert rows(shard, "select s::text from sluice.shard as s") == active
    assert rows(shard, "select is_moving, directory_before from sluice.shard") == [(False, None)]


def test_another_directory_does_not_begin_before_the_last_is_finished(shard):
    shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
    assert error_of(shard, BEGIN, ("a", 2, FIRST, FIRST)).sqlstate == "SH003"
    assert error_of(shard, BEGIN, ("a", 3, FIRST, SECOND)).sqlstate == "SH003"
    shard.execute(FINISH, (2,))
    assert error_of(shard, BEGIN, ("a", 1, FIRST, SECOND)).sqlstate == "SH003"
    shard.execute(BEGIN, ("a", 3, FIRST, SECOND))


def test_directory_that_did_not_begin_cannot_be_finished(shard):
    assert error_of(shard, FINISH, (2,)).sqlstate == "SH003"


def test_begin_waits_for_a_bounded_time(database, shard):
    with database.connect(autocommit=False) as sender:
        sender.execute(CHECK, ("a", 1))
        with pytest.raises(psycopg.errors.LockNotAvailable):
            shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
