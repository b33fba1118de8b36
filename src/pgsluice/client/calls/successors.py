"""Messages that run after others: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString

from pgsluice.client.calls import pgmq
from pgsluice.client.calls.arguments import checked_ids, zoned_time
from pgsluice.client.calls.call import Call, nothing, scalar
from pgsluice.client.calls.clients import Operations, method
from pgsluice.tracing.carrier import Sends

AfterFailure = Literal["fail", "continue"]


def send_after(
    queue_name: str,
    message: Any,
    after: Mapping[str, Sequence[int]],
    *,
    headers: Any,
    delay: int | datetime | None,
    after_failure: AfterFailure,
) -> Call[int]:
    """Send one message that becomes visible when others are done: `after` of `WorkQueue.send`.

    Raises:
        PrivilegeError: The role may neither send to nor read one of the queues.
    """
    ids = [(queue, each) for queue, some in after.items() for each in checked_ids(some, "after")]
    is_moment = isinstance(delay, datetime)
    visible_from: LiteralString = (
        "%s::timestamptz"
        if is_moment
        else "pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => %s::integer)"
    )
    sql: LiteralString = (
        "select sluice.send_after(%s::text, %s::jsonb, %s::text[], %s::bigint[], %s::jsonb, "
        + visible_from
        + ", %s::text)"
    )
    name, value, all_headers, *_ = pgmq.send(queue_name, message, headers, delay).parameters
    parameters = (
        *(name, value, [queue for queue, _ in ids], [msg_id for _, msg_id in ids], all_headers),
        zoned_time(delay, "delay") if isinstance(delay, datetime) else delay or 0,
        after_failure,
    )
    return Call(sql, parameters, scalar, queue_name, sends=Sends("pgmq", queue_name, 4))


@method(Operations)
def enable_successors(queue_name: str) -> Call[None]:
    """Allow messages that run after messages of this queue, see `after` of `WorkQueue.send`.

    Creates triggers on the queue, once: readers and senders of the queue wait for the commit of this call. Requires
    the role sluice_admin.

    Args:
        queue_name: An existing queue.

    Source: `sluice.enable_successors`.
    """
    return Call("select sluice.enable_successors(%s::text)", (queue_name,), nothing, queue_name)
