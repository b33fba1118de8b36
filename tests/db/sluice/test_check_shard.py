"""sluice.check_shard: the fence of sends by key."""

from __future__ import annotations

import threading

import psycopg
import pytest

from support import wait_for_lock
from support.shards import BEGIN, CHECK, FINISH, FIRST, SECOND, error_of


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
