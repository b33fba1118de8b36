"""Specification of a handler: function, source and options. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pgsluice.client.limit_records import WhenWaiting
from pgsluice.client.payload_type import PayloadType
from pgsluice.client.unique import Unique
from pgsluice.worker.handlers.retry import RetryPolicy


class Mode(StrEnum):
    """Protection of a message while its handler runs: by lease or row lock.

    Attributes:
        LEASE: Claimed for a lease, which is renewed while the handler runs; then acknowledged if the lease has not
            expired.
        TRANSACTION: Its row is locked, and the handler and the acknowledgement share one transaction. Queues only.
    """

    LEASE = "lease"
    TRANSACTION = "transaction"


class Execution(StrEnum):
    """Execution environment of a handler function.

    Attributes:
        LOOP: In the event loop; for `async def`.
        THREAD: In a thread; for `def`.
        PROCESS: In a process of a pool; for a `def` that computes or may crash.
    """

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class QueueRoute:
    """The messages of a work queue.

    Attributes:
        queue_name: The queue.
        topic: A topic pattern bound to the queue when the worker starts, or None.
    """

    queue_name: str
    topic: str | None = None
    id_name: ClassVar[str] = "msg_id"

    @property
    def fields(self) -> dict[str, str]:
        """Its names in log lines and reports."""
        return {"queue": self.queue_name}


@dataclass(frozen=True, slots=True)
class GroupRoute:
    """Events of a log, each claimed by one member of a share group.

    Attributes:
        log_name: The log.
        group_name: The group; created when the worker starts, if it does not exist.
        event_types: Types to handle; empty: all that no other handler of the group handles.
    """

    log_name: str
    group_name: str
    event_types: tuple[str, ...] = ()
    id_name: ClassVar[str] = "ev_id"

    @property
    def fields(self) -> dict[str, str]:
        """Its names in log lines and reports."""
        return {"log": self.log_name, "group": self.group_name}


@dataclass(frozen=True, slots=True)
class ConsumerRoute:
    """Events of a log in order, one transaction per tick batch.

    Attributes:
        log_name: The log.
        consumer_name: The consumer; registered when the worker starts, if it is not.
        event_types: As for `GroupRoute`.
        dead_letters: True to dead-letter events that are rejected or failed their last attempt; False: the consumer is
            blocked on such an event, and retries it.
    """

    log_name: str
    consumer_name: str
    event_types: tuple[str, ...] = ()
    dead_letters: bool = False
    id_name: ClassVar[str] = "ev_id"

    @property
    def fields(self) -> dict[str, str]:
        """Its names in log lines and reports."""
        return {"log": self.log_name, "consumer": self.consumer_name}


Route = QueueRoute | GroupRoute | ConsumerRoute


def source_name(route: Route) -> str:
    """Return the display name of a source: `queue mail`, `group mailers of log orders`."""
    return " of ".join(f"{kind} {name}" for kind, name in reversed(route.fields.items()))


@dataclass(frozen=True, slots=True)
class Batch:
    """Batching of messages for a handler that takes several per call.

    Attributes:
        size: Maximum batch size, 2 or more.
        wait_s: Maximum time that the first message waits for others, in seconds, 0 or more.
    """

    size: int
    wait_s: float = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """Concurrency, rate limits and priorities of a handler, as in `HandlerOptions`; None: none."""

    concurrency: int = 10
    fleet_concurrency: int | None = None
    key_concurrency: int | None = None
    rate: int | None = None
    rate_s: float = 1.0
    weight: int = 1
    when_waiting: WhenWaiting | None = None
    priority_weights: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """A handler as the engine sees it. Made by `App.handler`.

    The other attributes are options of `App.handler`, documented in `HandlerOptions`.

    Attributes:
        function: Called as `function(payload)` or `function(payload, context)`; for a batch with lists of both.
        route: Its source.
        decode: Converts a payload to the function's type; raises PayloadError with the mismatch.
        takes_context: True if the function has a second parameter.
        batch: Batching, or None: one message per call.
        limits: Concurrency and rate limits.
        result_type: Type of its kept results; None: it keeps none.
        keep_result_s: Seconds for which a result is kept.
        transactions: Opens its transactions, as `on` of `Context.transaction`; None: connections of the worker.
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
    result_type: PayloadType | None = None
    keep_result_s: float = 0.0
    transactions: Any = None
    unique: Unique | None = None

    @property
    def declared_by(self) -> str:
        """Its name with its module, stored with the options that it declares for its queue."""
        return f"{self.function.__module__}.{self.name}"
