"""A work queue as a stream: micro-batches of claimed messages, re-readable until they are settled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pgsluice.client.calls.call import Call, column, one_or_none, record, row, scalar
from pgsluice.client.calls.clients import Operations, method
from pgsluice.client.records import QueueStream


class Claimed(NamedTuple):
    """A micro-batch: number, message count, and time of the first message (None if claimed before)."""

    seq: int
    messages: int
    first_enqueued_at: datetime | None


def queue_stream_start(stream_name: str, queue_name: str) -> Call[tuple[int, int]]:
    """Register a stream, or find it; return its id and its last settled micro-batch."""
    return Call(
        "select s.stream_id, s.seq from sluice.queue_stream_start(%s::text, %s::text) as s",
        (stream_name, queue_name),
        row,
        queue_name,
    )


def queue_stream_claim(stream_id: int, from_seq: int, qty: int) -> Call[Claimed | None]:
    """Find or claim the next micro-batch; None if no message is visible."""
    return Call(
        "select c.seq, c.messages, c.first_enqueued_at from "
        "sluice.queue_stream_claim(%s::bigint, %s::bigint, %s::integer) as c",
        (stream_id, from_seq, qty),
        one_or_none(Claimed),
    )


def queue_stream_slices(
    stream_id: int,
    from_seq: int,
    to_seq: int,
    *,
    slice_count: int,
    slice_messages_min: int,
    columns: Sequence[str],
) -> Call[list[str]]:
    """Return the queries for the messages of micro-batches."""
    return Call(
        "select s.query from sluice.queue_stream_slices("
        "%s::bigint, %s::bigint, %s::bigint, %s::integer, %s::integer, %s::text[]) as s order by s.slice",
        (stream_id, from_seq, to_seq, slice_count, slice_messages_min, list(columns)),
        column,
    )


def queue_stream_settle(stream_id: int, to_seq: int, *, archive: bool) -> Call[int]:
    """Archive or delete the messages of stored micro-batches; return their number."""
    return Call(
        "select sluice.queue_stream_settle(%s::bigint, %s::bigint, %s::boolean)",
        (stream_id, to_seq, archive),
        scalar,
    )


@method(Operations)
def queue_stream_drop(stream_name: str) -> Call[int | None]:
    """Drop a stream of a queue; its unsettled messages become visible immediately.

    Args:
        stream_name: The option `consumer` of the Spark query. Stop the query first: messages that it stored but did
            not settle are delivered twice, and a restart from its checkpoint fails with the reason.

    Returns:
        The number of messages released; None if the stream does not exist.

    Source: `sluice.queue_stream_drop`.
    """
    return Call("select sluice.queue_stream_drop(%s::text)", (stream_name,), scalar)


@method(Operations)
def list_queue_streams() -> Call[list[QueueStream]]:
    """Return the streams of queues, by name, with their unsettled messages.

    Source: `sluice.list_queue_streams`.
    """
    return Call(
        "select s.stream_name, s.queue_name, s.settled_seq, s.claimed_messages, s.oldest_claim_at "
        "from sluice.list_queue_streams() as s",
        (),
        record(QueueStream),
    )


def clock() -> Call[datetime]:
    """Return the server's time."""
    return Call("select clock_timestamp()", (), scalar)
