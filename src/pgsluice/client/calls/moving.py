"""Calls that move messages of keys from one shard to another, in the order of `take`, `next_of` and `receive`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from pgsluice.client.calls.call import Call, column, one, row, scalar


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive messages of a queue.

    Attributes:
        first_msg_id: The lowest msg_id; None: there are no messages.
        keys: Their keys.
    """

    first_msg_id: int | None
    keys: list[str]


@dataclass(frozen=True, slots=True)
class Taken:
    """Messages that were taken out of a queue.

    Attributes:
        qty: Their number.
        left_keys: Keys of messages that stay for now, such as those in flight.
        first_msg_id: Continue below this msg_id; None: there are no more.
    """

    qty: int
    left_keys: list[str]
    first_msg_id: int | None


def window(queue_name: str, before: int | None, qty: int) -> Call[Window]:
    """Return the last messages of a queue, or those below a msg_id."""
    return Call(
        "select first_msg_id, keys from sluice.moving_window(%s::text, %s::bigint, %s::integer)",
        (queue_name, before, qty),
        one(Window),
        queue_name,
    )


def take(
    queue_name: str, since: int | None, before: int | None, homes: Mapping[str, str], qty: int
) -> Call[Taken]:
    """Take messages of keys out of a queue, except those in flight.

    Args:
        queue_name: The queue.
        since: Lowest msg_id; None: the first.
        before: Only below this msg_id; None: all.
        homes: The shard that each key moves to.
        qty: Maximum number.
    """
    return Call(
        "select taken, left_keys, first_msg_id from sluice.take_moving(%s::text, %s::bigint, %s::bigint, %s::text[], "
        "%s::text[], %s::integer)",
        (queue_name, since, before, list(homes), list(homes.values()), qty),
        one(Taken),
        queue_name,
    )


def next_of(
    to_shard: str, received: Collection[UUID], held_keys: Collection[str], qty: int
) -> Call[tuple[list[str], str | None]]:
    """Forget the messages that a shard has received, and return the next ones for it, except those of held keys.

    Returns:
        The names of their queues; and the messages as JSON, None if there are none.
    """
    return Call(
        "select queue_names, messages::text from sluice.next_moving(%s::text, %s::uuid[], %s::text[], %s::integer)",
        (to_shard, list(received), list(held_keys), qty),
        row,
    )


def received(from_shard: str) -> Call[list[UUID]]:
    """Return the messages that this shard last received from another; locks them until the transaction ends."""
    return Call("select sluice.received_moving(%s::text)", (from_shard,), scalar)


def receive(from_shard: str, messages: str) -> Call[int]:
    """Append messages of another shard to their queues, in the transaction of `received`; return their number."""
    sql: LiteralString = "select sluice.receive_moving(%s::text, %s::jsonb)"
    return Call(sql, (from_shard, messages), scalar)


def moving_shards() -> Call[list[str]]:
    """Return the shards that messages of this one are on the way to."""
    return Call("select distinct to_shard from sluice.moving_message order by 1", (), column)


def count_moving() -> Call[int]:
    """Return the number of messages on their way from this shard."""
    return Call("select count(*) from sluice.moving_message", (), scalar)
