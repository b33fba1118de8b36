"""Explanations: functions `sluice.explain_…` as calls.

Each answers the same questions: where is it, what happened to it, why is it not running now, and what happens next?
None returns contents. Keys, origins and error texts are returned only to roles that may read the messages.
"""

from __future__ import annotations

from pgsluice.client.calls.arguments import checked_id, one_id
from pgsluice.client.calls.call import Call
from pgsluice.client.calls.clients import EventLog, Operations, Schedules, ShareGroup, method
from pgsluice.client.explain_records import ExplainedFact
from pgsluice.client.explanations import explained


@method(Operations)
def explain_message(queue_name: str, msg_id: int) -> Call[list[ExplainedFact]]:
    """Explain a message: its state, history, the reasons why it is not running now, and what happens next.

    Returns:
        The facts, in order. `state` in the detail of the first is `ready`, `delayed`, `in flight`, `retrying`,
        `released`, `archived`, `dead`, `gone` (the id was used, and no message has it now) or `unknown` (the id was
        never used).

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.explain_message`.
    """
    return Call(
        "select * from sluice.explain_message(%s::text, %s::bigint)",
        (queue_name, one_id(msg_id)),
        explained,
        queue_name,
    )


@method(Operations)
def explain_queue(queue_name: str) -> Call[list[ExplainedFact]]:
    """Explain a queue: its messages by state, its history, the reasons why none is claimed, and what happens next.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.explain_queue`.
    """
    return Call(
        "select * from sluice.explain_queue(%s::text)",
        (queue_name,),
        explained,
        queue_name,
    )


@method(Operations)
def explain_key(queue_name: str, key: str) -> Call[list[ExplainedFact]]:
    """Explain a key of a queue (header `x-pgmq-group`): its messages, and what blocks the first visible one.

    Requires the role sluice_reader, as keys are parts of messages.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.explain_key`.
    """
    return Call(
        "select * from sluice.explain_key(%s::text, %s::text)",
        (queue_name, key),
        explained,
        queue_name,
    )


@method(EventLog)
def explain_log(log_name: str) -> Call[list[ExplainedFact]]:
    """Explain a log: its newest event and tick, and which consumers are behind, and why.

    Raises:
        LogNotFoundError: The log does not exist.

    Source: `sluice.explain_log`.
    """
    return Call("select * from sluice.explain_log(%s::text)", (log_name,), explained)


@method(EventLog)
def explain_event(log_name: str, ev_id: int) -> Call[list[ExplainedFact]]:
    """Explain an event: for each consumer and share group, whether it has finished the event, and if not, why.

    Returns:
        The facts, in order. `state` in the detail of the first is `readable`, `before a tick`, `gone` (the id was
        used, and the log has no such event) or `unknown` (the id was never used).

    Raises:
        LogNotFoundError: The log does not exist.

    Source: `sluice.explain_event`.
    """
    return Call(
        "select * from sluice.explain_event(%s::text, %s::bigint)",
        (log_name, checked_id(ev_id, "ev_id")),
        explained,
    )


@method(EventLog)
def explain_consumer(log_name: str, consumer_name: str) -> Call[list[ExplainedFact]]:
    """Explain a consumer: its position, and why it has not read the newest events.

    Returns:
        The facts, in order. For a pipeline into the lake, the detail of the second has `is_running`, `kind` and
        `lake`; a share group has the facts of `ShareGroup.explain`.

    Raises:
        LogNotFoundError: The log does not exist.
        ConsumerNotFoundError: The consumer is not registered.

    Source: `sluice.explain_consumer`.
    """
    return Call(
        "select * from sluice.explain_consumer(%s::text, %s::text)",
        (log_name, consumer_name),
        explained,
    )


@method(ShareGroup, name="explain")
def explain_group(log_name: str, group_name: str) -> Call[list[ExplainedFact]]:
    """Explain the group: its events by state, its open claims and their leases, and why events are not claimed.

    Source: `sluice.explain_group`.
    """
    return Call(
        "select * from sluice.explain_group(%s::text, %s::text)",
        (log_name, group_name),
        explained,
    )


@method(ShareGroup, name="explain_key")
def explain_group_key(log_name: str, group_name: str, key: str) -> Call[list[ExplainedFact]]:
    """Explain a key of the group: whether it is claimed, waits for a redelivery or is parked.

    Requires the role sluice_reader, as keys are parts of events.

    Source: `sluice.explain_key`.
    """
    return Call(
        "select * from sluice.explain_key(%s::text, %s::text, %s::text)",
        (log_name, group_name, key),
        explained,
    )


@method(Schedules)
def explain_schedule(name: str) -> Call[list[ExplainedFact]]:
    """Explain a schedule: its next and last slot, and why it did not fire.

    Returns:
        The facts, in order. `state` in the detail of the first is `waiting`, `late`, `failing`, `paused` or
        `ended`.

    Raises:
        ScheduleNotFoundError: The schedule does not exist.

    Source: `sluice.explain_schedule`.
    """
    return Call("select * from sluice.explain_schedule(%s::text)", (name,), explained)
