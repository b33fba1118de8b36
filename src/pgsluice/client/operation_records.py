"""Records of operations: worker processes and actions of operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker process that reports to the database.

    Attributes:
        worker_id: Unique name of the process; also the worker of attempts and dead letters.
        app: Name of its app.
        host: Its host.
        pid: Its process id.
        version: Its version of pgsluice.
        sources: Where it claims: `queue Q`, `log L group G`, `log L consumer C`.
        concurrency: Maximum concurrent calls of handlers in the process; None: only limited per handler.
        started_at: Time of its start.
        reported_at: Time of its last report; it reports every 30 seconds.
        is_live: False if it has not reported for 90 seconds, or if its session has ended: it crashed, or lost its
            connection.
        running: Calls of handlers at the last report, longest first: dicts with `handler`, `since`, and `queue` and
            `msg_id`, or `log`, `group` or `consumer`, and `ev_id`.
        counts: Settled messages since its start: handler, then result.
        role_name: The role it connects with.
        has_session: False if its session has ended; None if unknown, as behind a pooler.
        policies: The retry policies that its handlers declare: dicts with `source`, `handler`, and the options.
        times: Durations of the calls that ended in the last five to ten minutes: dicts with `source`, `handler`,
            `max_s`, and `buckets`, each with its lower bound, its upper bound or None, and its calls.
            `list_handler_times` sums them up.
        slowest: The slowest of these calls, at most five of each handler: dicts as in `running`, with `seconds` and
            `ended_at` instead of `since`. A batch is one call, listed with its first message.
    """

    worker_id: str
    app: str
    host: str
    pid: int
    version: str
    sources: list[str]
    concurrency: int | None
    started_at: datetime
    reported_at: datetime
    is_live: bool
    running: list[dict[str, Any]]
    counts: dict[str, dict[str, int]]
    role_name: str
    has_session: bool | None
    policies: list[dict[str, Any]]
    times: list[dict[str, Any]]
    slowest: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class HandlerPolicy:
    """The retry policy that a handler of live workers declares; it overrides the options of its source.

    Attributes:
        app: Name of its app.
        handler: Name of the handler.
        workers: Number of processes.
        max_attempts: As in `QueueSettings`, as are the other attributes.
    """

    app: str
    handler: str
    workers: int
    max_attempts: int
    backoff: str
    backoff_base: timedelta
    backoff_max: timedelta
    backoff_factor: float
    backoff_jitter: bool


@dataclass(frozen=True, slots=True)
class HandlerTimes:
    """Durations of the calls of a handler that ended in the last five to ten minutes.

    Attributes:
        app: Name of its app.
        source: Where it claims, as in `WorkerProcess.sources`.
        handler: Name of the handler.
        workers: Number of live processes that made the calls.
        calls: Their number; a batch is one call.
        p50_s: Their median in seconds, interpolated within the bucket of the histogram that has it.
        p95_s: Likewise the duration that 95 % do not exceed.
        max_s: The longest.
    """

    app: str
    source: str
    handler: str
    workers: int
    calls: int
    p50_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """An action of an operator, as it was recorded in its transaction.

    Attributes:
        action_id: Its id; later ones are higher.
        acted_at: Its time.
        actor: The role of the session.
        application: The application of the session, or an empty text.
        action: The SQL function: `redrive_matching`, `set_queue_options`.
        queue_name: The queue or log; None: it concerns none.
        filter: The arguments that chose the messages or the object, without those that were null; None: none.
        message_count: Messages or events that were sent, moved or deleted; None: not counted.
        note: For a pause its reason, or None.
    """

    action_id: int
    acted_at: datetime
    actor: str
    application: str
    action: str
    queue_name: str | None
    filter: dict[str, Any] | None
    message_count: int | None
    note: str | None


@dataclass(frozen=True, slots=True)
class QueueExtent:
    """Messages in a queue.

    Attributes:
        message_count: Their number; an estimate above 5,000.
        last_msg_id: The highest msg_id; None: the queue is empty.
    """

    message_count: int
    last_msg_id: int | None


@dataclass(frozen=True, slots=True)
class PurgedMessages:
    """Messages deleted by one call of `purge_messages`.

    Attributes:
        purged: Their number.
        last_msg_id: The highest msg_id deleted; None: none was deleted.
    """

    purged: int
    last_msg_id: int | None
