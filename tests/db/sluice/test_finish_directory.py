"""sluice.finish_directory: the messages of all keys are in their shards."""

from __future__ import annotations

from support import rows
from support.shards import BEGIN, FINISH, FIRST, SECOND, error_of


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


def test_directory_that_did_not_begin_cannot_be_finished(shard):
    assert error_of(shard, FINISH, (2,)).sqlstate == "SH003"
