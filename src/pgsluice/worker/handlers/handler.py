"""What a handler is: a function, where its messages come from, and how they are to be handled. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pgsluice.client.limit_records import WhenWaiting
from pgsluice.worker.handlers.retry import RetryPolicy


class Mode(StrEnum):
    """How a message is held while its handler runs.

    Attributes:
        LEASE: It is claimed for a time, which is extended while the handler runs; then it is acknowledged, if the claim
            is still current.
        TRANSACTION: Its row is locked, and the handler and the acknowledgement are one transaction. Work queues only.
    """

    LEASE = "lease"
    TRANSACTION = "transaction"


class Execution(StrEnum):
    """Where the function runs.

    Attributes:
        LOOP: In the event loop; for `async def`.
        THREAD: In a thread; for `def`.
        PROCESS: In a process of its own, one of a few that are kept; for `def` that computes, or may crash.
    """

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class QueueRoute:
    """The messages of a work queue.

    Attributes:
        queue_name: The queue.
        topic: A topic pattern that is bound to the queue when the worker starts, or None.
    """

    queue_name: str
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class GroupRoute:
    """Events of a log, each claimed by one of a share group.

    Attributes:
        log_name: The log.
        group_name: The group; made when the worker starts, if there is none.
        event_types: Those that this handler is for; empty: those that no other handler of the group is for.
    """

    log_name: str
    group_name: str
    event_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerRoute:
    """Events of a log in its order, a tick batch in one transaction.

    Attributes:
        log_name: The log.
        consumer_name: The consumer; registered when the worker starts, if it is not.
        event_types: As for `GroupRoute`.
        dead_letter_queue: A work queue for the events that are rejected or have failed for the last time; None: the
            consumer stays before such an event, and tries again.
    """

    log_name: str
    consumer_name: str
    event_types: tuple[str, ...] = ()
    dead_letter_queue: str | None = None


Route = QueueRoute | GroupRoute | ConsumerRoute


@dataclass(frozen=True, slots=True)
class Batch:
    """How messages are gathered for a handler that takes many at once.

    Attributes:
        size: The most, 2 or more.
        wait_s: How long the first one waits for the others at most, seconds, 0 or more.
    """

    size: int
    wait_s: float = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be handled at once, or in a time.

    Attributes:
        concurrency: At once in this process, 1 or more.
        fleet_concurrency: At once in all processes, or None.
        key_concurrency: At once of one key in all processes, or None.
        rate: As many begin in `rate_s` seconds, in all processes, or None.
        rate_s: Seconds, more than 0.
        weight: How often this handler gets its turn when several want one in this process: as often as its part of all
            weights, 1 or more.
        when_waiting: What becomes of a key while one of its messages waits to be retried, or None: keys have no order.
    """

    concurrency: int = 10
    fleet_concurrency: int | None = None
    key_concurrency: int | None = None
    rate: int | None = None
    rate_s: float = 1.0
    weight: int = 1
    when_waiting: WhenWaiting | None = None


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """A handler, as the runtime sees it. `App.handler` makes them.

    Attributes:
        name: The function's, or as given; unique in its app.
        function: What is called: `function(payload)`, `function(payload, context)`; for a batch with lists of them.
        route: Where its messages come from.
        decode: Makes what the function takes of a payload; raises PayloadError, with what does not fit, for one that
            does not.
        takes_context: Whether the function has a second parameter.
        execution: Where it runs.
        mode: How a message is held.
        retry: When to try again; None: as the policy of the queue or the group says.
        timeout_s: How long one call may take; None: as long as it likes.
        lease_s: How long a claim lasts without a heartbeat, more than 1 second.
        batch: How many at once, or None: one by one.
        limits: How much at once.
        retry_on: Exceptions that are tried again; empty: all.
        give_up_on: Exceptions that go to the dead letters at once; these come first.
        keep: What becomes of a message of a queue that is done: it goes to the archive, or is deleted.
    """

    name: str
    function: Callable[..., Any]
    route: Route
    decode: Callable[[Any], Any]
    takes_context: bool
    execution: Execution
    mode: Mode = Mode.LEASE
    retry: RetryPolicy | None = None
    timeout_s: float | None = None
    lease_s: float = 30.0
    batch: Batch | None = None
    limits: Limits = Limits()
    retry_on: tuple[type[BaseException], ...] = ()
    give_up_on: tuple[type[BaseException], ...] = ()
    keep: Literal["archive", "delete"] = "archive"
