"""sluice.begin_directory: another directory of shards, after the sends by key that follow the last one."""

from __future__ import annotations

import threading

import psycopg
import pytest

from support import value, wait_for_lock
from support.shards import BEGIN, CHECK, FINISH, FIRST, SECOND, error_of


def test_directory_begins_after_the_sends_that_were_checked_before(database, shard):
    with database.connect(autocommit=False) as sender, database.connect() as operator:
        sender.execute(CHECK, ("a", 1))
        thread = threading.Thread(target=operator.execute, args=(BEGIN, ("a", 2, SECOND, FIRST)))
        thread.start()
        wait_for_lock(shard, operator)
        sender.commit()
        thread.join(10)
        assert value(shard, "select generation from sluice.shard") == 2


def test_another_directory_does_not_begin_before_the_last_is_finished(shard):
    shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
    assert error_of(shard, BEGIN, ("a", 2, FIRST, FIRST)).sqlstate == "SH003"
    assert error_of(shard, BEGIN, ("a", 3, FIRST, SECOND)).sqlstate == "SH003"
    shard.execute(FINISH, (2,))
    assert error_of(shard, BEGIN, ("a", 1, FIRST, SECOND)).sqlstate == "SH003"
    shard.execute(BEGIN, ("a", 3, FIRST, SECOND))


def test_begin_waits_for_a_bounded_time(database, shard):
    with database.connect(autocommit=False) as sender:
        sender.execute(CHECK, ("a", 1))
        with pytest.raises(psycopg.errors.LockNotAvailable):
            shard.execute(BEGIN, ("a", 2, SECOND, FIRST))
