"""Kept results of handlers: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from pgsluice.client.calls.arguments import one_id
from pgsluice.client.calls.call import Call, nothing, one
from pgsluice.client.calls.claims import others_of_done
from pgsluice.client.calls.clients import Operations, method
from pgsluice.client.records import ClaimOutcome, Message
from pgsluice.client.result_records import MessageResult


@method(Operations)
def get_result(queue_name: str, msg_id: int) -> Call[MessageResult]:
    """Return the state of a message, and the result of its handler if one is kept.

    Args:
        queue_name: An existing queue, whose handler has the option `keep_result`.
        msg_id: The message, as returned by the send.

    Returns:
        The state and the result; the state `gone` also for an id that was never used.

    Source: `sluice.get_result`.
    """
    sql: LiteralString = "select * from sluice.get_result(%s::text, %s::bigint)"
    return Call(sql, (queue_name, one_id(msg_id)), one(MessageResult), queue_name)


def finish(
    queue_name: str,
    messages: Sequence[Message],
    results: Sequence[str],
    *,
    keep_s: float,
    is_archived: bool,
) -> Call[dict[int, ClaimOutcome]]:
    """Archive or delete claimed messages and keep their results; return the outcomes as `settle_done` does.

    Args:
        queue_name: An existing queue.
        messages: As returned by the read.
        results: The result of each as JSON text.
        keep_s: Seconds to keep the results, more than 0.
        is_archived: Archive the messages; False: delete them.
    """
    call: LiteralString = (
        "sluice.finish(%s::text, %s::bigint[], %s::integer[], %s::jsonb, make_interval(secs => %s::float8), "
        "%s::boolean, null::timestamptz[])"
    )
    more = (_array_of(results), keep_s, is_archived)
    return others_of_done(call, queue_name, messages, *more)


def store_result(queue_name: str, msg_id: int, result: str, *, keep_s: float) -> Call[None]:
    """Keep the result of a message, as JSON text, that the transaction acknowledges."""
    sql: LiteralString = (
        "select sluice.store_results("
        "%s::text, array[%s::bigint], %s::jsonb, make_interval(secs => %s::float8))"
    )
    return Call(sql, (queue_name, msg_id, _array_of([result]), keep_s), nothing, queue_name)


def notify_results(queue_name: str, msg_ids: Sequence[int]) -> Call[None]:
    """Wake those who wait for results of these messages when the transaction commits."""
    sql: LiteralString = "select sluice.notify_results(%s::text, %s::bigint[])"
    return Call(sql, (queue_name, list(msg_ids)), nothing, queue_name)


def _array_of(results: Sequence[str]) -> str:
    return "[" + ",".join(results) + "]"
