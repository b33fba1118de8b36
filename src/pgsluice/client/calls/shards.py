"""Calls that read and change the directory of shards, and the fence of a send by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, LiteralString, TypeVar

from pgsluice.client.calls.call import Call
from pgsluice.shards import Directory, ShardState

Result = TypeVar("Result")


def shard() -> Call[ShardState | None]:
    """Return the directory of the database; None if it is not a shard."""
    sql: LiteralString = (
        "select shard_name, generation, directory, is_moving, directory_before, changed_at "
        "from sluice.shard"
    )
    return Call(sql, (), _state)


def begin_directory(
    shard_name: str, generation: int, directory: Directory, before: Directory | None
) -> Call[None]:
    """Make a directory that of the database; sends that follow an older one are refused from then on.

    Idempotent. It waits two seconds at most for open transactions that have sent by key.

    Raises:
        ShardError: The database is another shard, or has another directory whose messages still move.
        RetryableError: A transaction that has sent by key is still open.
    """
    sql: LiteralString = "select sluice.begin_directory(%s::text, %s::bigint, %s::jsonb, %s::jsonb)"
    older = None if before is None else before.to_json()
    return Call(sql, (shard_name, generation, directory.to_json(), older), _nothing)


def finish_directory(generation: int) -> Call[None]:
    """Mark the directory as active, after the messages of all keys are in their shards. Idempotent.

    Raises:
        ShardError: The database does not have this generation.
    """
    sql: LiteralString = "select sluice.finish_directory(%s::bigint)"
    return Call(sql, (generation,), _nothing)


def checked(call: Call[Result], shard_name: str, generation: int) -> Call[Result]:
    """Return a call that first checks, in its own statement, that the database is the shard.

    Args:
        call: A call that sends: a select of one function, without conditions.
        shard_name: The shard.
        generation: Number of the sender's directory.
    """
    # A subquery without columns of the outer query is evaluated once, and before the function.
    sql: LiteralString = call.sql + " where (select sluice.check_shard(%s::text, %s::bigint))"
    parameters = (*call.parameters, shard_name, generation)
    return replace(call, sql=sql, parameters=parameters, own_transaction_sql=None)


def _state(rows: Sequence[tuple[Any, ...]]) -> ShardState | None:
    if not rows:
        return None
    name, generation, directory, is_moving, before, changed_at = rows[0]
    older = None if before is None else Directory.from_json(before)
    return ShardState(
        name, generation, Directory.from_json(directory), is_moving, older, changed_at
    )


def _nothing(rows: Sequence[tuple[Any, ...]]) -> None:  # noqa: ARG001 (of every call)
    return None
