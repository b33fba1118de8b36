"""Options of `App.handler` and of sending to a handler, each documented once. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from pgsluice.client.calls.successors import AfterFailure
from pgsluice.client.limit_records import WhenWaiting
from pgsluice.client.unique import Unique
from pgsluice.worker.handlers.handler import Execution, Mode
from pgsluice.worker.handlers.retry import RetryPolicy


class HandlerOptions(TypedDict, total=False):
    """Options of a handler, for `App.handler`.

    Attributes:
        topic: A routing key pattern bound to the queue when a worker starts. Other bindings of the queue stay, and are
            logged.
        log: The event log, instead of a queue.
        group: The share group of the log: one event at a time, in any number of processes. It is created when a worker
            starts, if it does not exist.
        consumer: The consumer of the log, instead: events in order, one transaction per tick batch.
        event_types: Event types to handle. Default: all that no other handler of the group or consumer handles.
        dead_letters: For a consumer: dead-letter events that are rejected or failed their last attempt. Default: False,
            the consumer stops at such an event, and retries it.
        name: Name in logs and commands. Default: the function's name.
        retry: Retry policy. Default: that of the queue or the group.
        retry_on: Exceptions to retry; others are dead-lettered immediately. Default: all are retried.
        give_up_on: Exceptions to dead-letter immediately; takes precedence over `retry_on`. Default: none.
        timeout_s: Timeout of one call in seconds. Default: no timeout.
        lease_s: Lease duration in seconds, more than 1; renewed while the handler runs. Default: 30.
        mode: `lease`, or `transaction`: the message's row is locked, and the handler and the acknowledgement share one
            transaction. Queues only. Default: lease.
        execution: `loop` for `async def`; for `def` `thread`, or `process` for handlers that compute or may crash.
            Default: `loop` or `thread`.
        keep: Archive or delete done messages of a queue. Default: archive.
        keep_result: Keep what the handler returns for this time, in seconds or as text such as `"1h"`, for
            `Handler.result`. Queues only, without `batch`. Default: results are not kept.
        concurrency: Maximum concurrency in one process, 1 or more. Default: 10.
        fleet_concurrency: Maximum concurrency across all processes, 1 or more. Queues only, as are the next five.
            They are limits of the queue, stored when a worker starts or by `App.create_queues`, unless an operator set
            others. Default: no limit.
        key_concurrency: Maximum concurrency per key across all processes, 1 or more. With 1, messages of a key are in
            order. Default: no limit.
        when_waiting: Handle messages of a key in order, one at a time; while one waits for its retry, `block`: none of
            the key is handled; `skip`: later ones are; `park`: none is until `Operations.unpark_messages`. Default:
            `block` if `key_concurrency` is 1, else keys have no order.
        rate: Rate limit: messages claimed per `rate_s` across all processes, 1 or more. A message counts when a worker
            claims it; it may start later, and if it is released before it starts, it counts again. Default: no limit.
        rate_s: Period of the rate limit in seconds, more than 0. Default: 1.
        priority_weights: Weights of 2 to 9 priority levels, the most urgent first: the relative share of claims while
            several levels have messages, 0 or more. Not with `key_concurrency` or `when_waiting`. Default: no
            priorities.
        unique: Do not store a message whose key is known; see `Unique`. Its messages are sent with these options, and a
            worker or `App.create_queues` stores them for other senders to the queue, unless an operator set others.
            Default: only messages with a `deduplication_key`, by the options of the queue.
        weight: Share of slots relative to the other handlers of the process, 1 or more. Default: 1.
    """

    topic: str | None
    log: str | None
    group: str | None
    consumer: str | None
    event_types: Iterable[str]
    dead_letters: bool
    name: str | None
    retry: RetryPolicy | None
    retry_on: Iterable[type[BaseException]]
    give_up_on: Iterable[type[BaseException]]
    timeout_s: float | None
    lease_s: float
    mode: Mode | Literal["lease", "transaction"]
    execution: Execution | Literal["loop", "thread", "process"] | None
    keep: Literal["archive", "delete"]
    keep_result: float | str | None
    concurrency: int
    fleet_concurrency: int | None
    key_concurrency: int | None
    when_waiting: WhenWaiting | None
    rate: int | None
    rate_s: float
    priority_weights: Sequence[int] | None
    unique: Unique | None
    weight: int


class _AnySendOptions(TypedDict, total=False):
    delay_s: int | None
    at: datetime | None
    priority: int | None
    event_type: str | None
    unique: Unique | None


class SendOptions(_AnySendOptions, total=False):
    """Options of `Handler.send`; None stands for the default.

    Attributes:
        delay_s: Delivery delay in whole seconds, 0 or more. Default: no delay.
        at: Delivery time with a time zone, alternatively.
        priority: Priority in a queue with priorities (see `QueueOptions`): 1 is the most urgent. Default: the middle
            one.
        event_type: For logs: the type of the event. Default: the handler's type, if it has exactly one.
        key: Ordering key: PGMQ's group of a message (header `x-pgmq-group`); `ev_extra1` of an event, the default key
            of share groups with keys.
        unique: For queues: lifetime of the deduplication key, and effect of a duplicate. Default: that of the handler,
            else of the queue.
        headers: A JSON object stored with the payload; for an event texts named `ev_extra1` to `ev_extra4`.
        after: For queues: msg_ids of messages of this queue, or msg_ids by queue name or handler. The message becomes
            visible when all of them are done. See `WorkQueue.send_after`, also for what an administrator must enable.
        after_failure: If one of them is dead-lettered: `fail`, dead-letter this message too; `continue`, run it when
            the others are done. Default: fail.
        deduplication_key: For queues: a message whose key is known is not stored again. See `WorkQueue.send`. Default:
            no deduplication; with `unique`, the key of the payload.
    """

    key: str | None
    headers: dict[str, Any] | None
    deduplication_key: str | None
    after: Sequence[int] | Mapping[Any, Sequence[int]] | None
    after_failure: AfterFailure | None


class SendManyOptions(_AnySendOptions, total=False):
    """Options of `Handler.send_many`: those of `SendOptions`, with one key, headers and deduplication key per payload.

    Attributes:
        delay_s: For queues only, and for all messages; as are `at`, `priority` and `unique`.
        keys: One per payload, None for no key; or None.
        headers: As `keys`.
        deduplication_keys: As `keys`.
    """

    keys: Sequence[str | None] | None
    headers: Sequence[dict[str, Any] | None] | None
    deduplication_keys: Sequence[str | None] | None
