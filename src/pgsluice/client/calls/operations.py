"""Pauses of work queues, worker processes, and actions of operators: functions of schema `sluice` as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple

from psycopg.types.json import Jsonb

from pgsluice.client.calls.arguments import after_id, checked_id, whole
from pgsluice.client.calls.call import Call, nothing, one, record
from pgsluice.client.calls.clients import Operations, method
from pgsluice.client.operation_records import (
    HandlerPolicy,
    HandlerTimes,
    OperatorAction,
    PurgedMessages,
    QueueExtent,
    WorkerProcess,
)


class WorkerIdentity(NamedTuple):
    """A worker process, as it registers itself; see `WorkerProcess`."""

    worker_id: str
    app: str
    host: str
    pid: int
    version: str
    sources: list[str]
    concurrency: int | None
    policies: Sequence[dict[str, Any]] = ()


def report_worker(
    worker: WorkerIdentity,
    uptime_s: float,
    running: Sequence[dict[str, Any]],
    counts: dict[str, dict[str, int]],
    backend_pid: int | None,
    times: Sequence[dict[str, Any]] = (),
    slowest: Sequence[dict[str, Any]] = (),
) -> Call[None]:
    """Register a worker process, or report that it lives.

    Args:
        worker: The process.
        uptime_s: Seconds since its start.
        running: Its calls of handlers, as in `WorkerProcess`, with `running_s` instead of `since`.
        counts: Settled messages since its start: handler, then result.
        backend_pid: Server process of a session that the process keeps open; None behind a pooler.
        times: Durations of the calls of the last minutes, by handler, as in `WorkerProcess`.
        slowest: The slowest of them, as in `WorkerProcess`, with `ended_s` instead of `ended_at`.
    """
    sql: LiteralString = (
        "select sluice.report_worker(%s::text, %s::text, %s::text, %s::integer, %s::text, %s::text[], "
        "%s::integer, %s::interval, %s::jsonb, %s::jsonb, %s::integer, %s::jsonb, %s::jsonb, %s::jsonb)"
    )
    reported = (timedelta(seconds=uptime_s), Jsonb(list(running)), Jsonb(counts), backend_pid)
    lists = (Jsonb(list(each)) for each in (worker.policies, times, slowest))
    return Call(sql, (*worker[:-1], *reported, *lists), nothing, is_report=True)


def end_worker(worker_id: str) -> Call[None]:
    """Unregister a worker process."""
    return Call("select sluice.end_worker(%s::text)", (worker_id,), nothing)


@method(Operations)
def list_workers() -> Call[list[WorkerProcess]]:
    """Return the worker processes with what they run, by app and host; also those lost in the last 24 hours.

    Source: `sluice.list_workers`.
    """
    return Call("select * from sluice.list_workers()", (), record(WorkerProcess))


@method(Operations)
def handler_policies(source: str) -> Call[list[HandlerPolicy]]:
    """Return the retry policies that handlers of live workers declare for a source, by app and handler.

    Args:
        source: As in `WorkerProcess.sources`: `queue Q`, `log L group G` or `log L consumer C`.

    Source: `sluice.handler_policies`.
    """
    return Call("select * from sluice.handler_policies(%s::text)", (source,), record(HandlerPolicy))


@method(Operations)
def list_handler_times(
    *, of_source: str | None = None, of_worker: str | None = None
) -> Call[list[HandlerTimes]]:
    """Return how long the calls of handlers took in the last five to ten minutes, over all live workers.

    Handlers without a finished call in this time are not returned.

    Args:
        of_source: As in `WorkerProcess.sources`: `queue Q`, `log L group G` or `log L consumer C`; None: all.
        of_worker: The `worker_id` of one worker; None: all.

    Source: `sluice.list_handler_times`.
    """
    sql: LiteralString = "select * from sluice.list_handler_times(%s::text, %s::text)"
    return Call(sql, (of_source, of_worker), record(HandlerTimes))


@method(Operations)
def list_actions(
    of_queue: str | None = None, *, before_action_id: int | None = None, qty: int = 100
) -> Call[list[OperatorAction]]:
    """Return the actions of operators, newest first, such as pauses, redrives, purges and dropped queues.

    Args:
        of_queue: A queue or log; None: all actions.
        before_action_id: Only actions with a lower id, for the next page.
        qty: The most to return, 1 or more.

    Raises:
        ArgumentError: `qty` is out of range.

    Source: `sluice.list_actions`.
    """
    sql: LiteralString = "select * from sluice.list_actions(%s::text, %s::bigint, %s::integer)"
    return Call(sql, (of_queue, before_action_id, whole(qty, "qty", 1)), record(OperatorAction))


@method(Operations)
def note_action(
    action: str,
    *,
    queue_name: str | None = None,
    of_filter: dict[str, Any] | None = None,
    message_count: int | None = None,
    note: str | None = None,
) -> Call[None]:
    """Record an action of an operator in its transaction, for `list_actions`.

    The functions that `list_actions` names record themselves. PGMQ's functions for messages do not, as workers call
    them: a tool with which an operator sends or deletes a message records it with this method.

    Args:
        action: The name of the function.
        queue_name: The queue or log; None: the action concerns none.
        of_filter: The arguments that chose the messages or the object.
        message_count: Messages or events that were sent, moved or deleted.
        note: A note of the operator.

    Source: `sluice.note_action`.
    """
    sql: LiteralString = (
        "select sluice.note_action(%s::text, %s::text, %s::jsonb, %s::bigint, %s::text)"
    )
    arguments = None if of_filter is None else Jsonb(of_filter)
    return Call(sql, (action, queue_name, arguments, message_count, note), nothing)


@method(Operations)
def queue_extent(queue_name: str, *, upto_msg_id: int | None = None) -> Call[QueueExtent]:
    """Return the number of messages in a queue, an estimate above 5,000, and the highest msg_id.

    Args:
        queue_name: An existing queue.
        upto_msg_id: Only messages up to this msg_id; None: all.

    Raises:
        QueueNotFoundError: The queue does not exist.

    Source: `sluice.queue_extent`.
    """
    sql: LiteralString = "select * from sluice.queue_extent(%s::text, %s::bigint)"
    return Call(
        sql, (queue_name, after_id(upto_msg_id, "upto_msg_id")), one(QueueExtent), queue_name
    )


@method(Operations)
def purge_messages(
    queue_name: str, upto_msg_id: int, *, after_msg_id: int | None = None, qty: int = 10000
) -> Call[PurgedMessages]:
    """Delete messages up to a msg_id, visible or not; call it, and commit, until it deletes 0.

    Unlike `purge_queue`, it does not lock the queue, and leaves messages that are sent meanwhile. It skips messages
    that another transaction has locked.

    Args:
        queue_name: An existing queue.
        upto_msg_id: The highest msg_id to delete, as from `queue_extent`.
        after_msg_id: Only messages with a higher msg_id: the `last_msg_id` of the previous call; None: start at the
            first.
        qty: The most to delete, 1 or more.

    Raises:
        QueueNotFoundError: The queue does not exist.
        ArgumentError: An id or `qty` is out of range. Nothing was deleted.

    Source: `sluice.purge_messages`.
    """
    parameters = (
        queue_name,
        checked_id(upto_msg_id, "upto_msg_id"),
        after_id(after_msg_id, "after_msg_id"),
        whole(qty, "qty", 1),
    )
    sql: LiteralString = (
        "select * from sluice.purge_messages(%s::text, %s::bigint, %s::bigint, %s::integer)"
    )
    return Call(sql, parameters, one(PurgedMessages), queue_name)
