"""The application: declares handlers of queues and logs, and sends to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    overload,
)

from pgsluice.client.calls.arguments import zoned_time
from pgsluice.client.limit_records import WhenWaiting
from pgsluice.client.schedule_records import CatchUp
from pgsluice.errors import ArgumentError
from pgsluice.worker.handlers.declare import (
    check_neighbours,
    check_spec,
    choose_execution,
    make_route,
    one_of,
    read_signature,
)
from pgsluice.worker.handlers.handler import (
    Batch,
    Execution,
    HandlerSpec,
    Limits,
    Mode,
    QueueRoute,
)
from pgsluice.worker.handlers.middleware import Middleware, check_middleware
from pgsluice.worker.handlers.retry import RetryPolicy
from pgsluice.worker.handlers.sendable import Handler
from pgsluice.worker.handlers.sending import Sending, prioritised
from pgsluice.worker.handlers.sending_pools import SendingPools
from pgsluice.worker.upkeep.schedules import DEFAULT_NAME, ScheduleSpec

if TYPE_CHECKING:
    from pgsluice.worker.app.lifespan import BackgroundWorker
    from pgsluice.worker.engine.flow.worker import WorkerOptions

Payload = TypeVar("Payload")
Rest = ParamSpec("Rest")
Result = TypeVar("Result")
AnyMiddleware = TypeVar("AnyMiddleware", bound=Middleware)


class HandlerOptions(TypedDict, total=False):
    """Options of `App.handler` besides queue and batch, documented there."""

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
    concurrency: int
    fleet_concurrency: int | None
    key_concurrency: int | None
    when_waiting: WhenWaiting | None
    rate: int | None
    rate_s: float
    weight: int


class DecoratesOne(Protocol):
    """Decorator for a function that takes one payload, and optionally the context."""

    def __call__(
        self, function: Callable[Concatenate[Payload, Rest], Result], /
    ) -> Handler[Payload, Concatenate[Payload, Rest], Result]:
        """Decorate."""
        ...


class DecoratesBatch(Protocol):
    """Decorator for a function that takes a list of payloads, and optionally a list of contexts."""

    def __call__(
        self, function: Callable[Concatenate[list[Payload], Rest], Result], /
    ) -> Handler[Payload, Concatenate[list[Payload], Rest], Result]:
        """Decorate."""
        ...


class App:
    """Handlers and schedules of a program. Connects only when something is sent.

    Define one app in a module; `pgsluice worker run module:app` runs its handlers.

    Attributes:
        name: Display name, and `application_name` of its connections.
        dsn: Server of senders and workers; None: resolved as for all commands. May be set later.
        tracing: False if its handlers and senders are never traced. May be set later.
        handlers: Its handlers, by name.
        middlewares: Called around each handler, the first outermost.
        schedules: Its schedules, by name.
    """

    def __init__(
        self, dsn: str | None = None, *, name: str = DEFAULT_NAME, tracing: bool = True
    ) -> None:
        """Prepare an app without handlers.

        Args:
            dsn: A libpq URL or keyword string; None: `PGSLUICE_DSN`, `DATABASE_URL`, libpq's own variables, or the
                embedded server, in this order, resolved on first use.
            name: Identifies this program in the database. The app owns the schedules that it declared under this name:
                those that it no longer declares are paused when a worker starts. With the default they are only logged.
            tracing: Trace messages if the program has configured an OpenTelemetry provider; False: never.
        """
        self.name = name
        self.dsn = dsn
        self.tracing = tracing
        self.handlers: dict[str, HandlerSpec] = {}
        self.middlewares: list[Middleware] = []
        self.schedules: dict[str, ScheduleSpec] = {}
        self._pools = SendingPools(
            lambda: self.dsn, f"pgsluice {name}", is_traced=lambda: self.tracing
        )

    def __repr__(self) -> str:
        return f"<App {self.name!r} with {len(self.handlers)} handlers>"

    @overload
    def handler(
        self, queue: str | None = None, *, batch: Batch, **options: Unpack[HandlerOptions]
    ) -> DecoratesBatch: ...

    @overload
    def handler(
        self, queue: str | None = None, *, batch: None = None, **options: Unpack[HandlerOptions]
    ) -> DecoratesOne: ...

    def handler(
        self,
        queue: str | None = None,
        *,
        topic: str | None = None,
        log: str | None = None,
        group: str | None = None,
        consumer: str | None = None,
        event_types: Iterable[str] = (),
        dead_letters: bool = False,
        name: str | None = None,
        retry: RetryPolicy | None = None,
        retry_on: Iterable[type[BaseException]] = (),
        give_up_on: Iterable[type[BaseException]] = (),
        timeout_s: float | None = None,
        lease_s: float = 30.0,
        mode: Mode | str = Mode.LEASE,
        execution: Execution | str | None = None,
        batch: Batch | None = None,
        keep: Literal["archive", "delete"] = "archive",
        concurrency: int = 10,
        fleet_concurrency: int | None = None,
        key_concurrency: int | None = None,
        when_waiting: WhenWaiting | None = None,
        rate: int | None = None,
        rate_s: float = 1.0,
        weight: int = 1,
    ) -> Any:
        """Make a function the handler of a queue, or of events of a log.

        The function takes the payload, of its annotated type, and, if it has a second parameter, the context. Its
        outcome is what it returns or raises: None or `Done`, `Retry`, `Release` or `Reject`; any other exception is
        retried.

        Args:
            queue: The work queue.
            topic: A routing key pattern bound to the queue when a worker starts. Other bindings of the queue stay, and
                are logged.
            log: The event log, instead of a queue.
            group: The share group of the log: one event at a time, in any number of processes. It is created when a
                worker starts, if it does not exist.
            consumer: The consumer of the log, instead: events in order, one transaction per tick batch.
            event_types: Event types to handle; none: all that no other handler of the group or consumer handles.
            dead_letters: For a consumer: dead-letter events that are rejected or failed their last attempt. False: the
                consumer stops at such an event, and retries it.
            name: Name in logs and commands; default: the function's name.
            retry: Retry policy; None: that of the queue or the group.
            retry_on: Exceptions to retry; others are dead-lettered immediately. None given: all are retried.
            give_up_on: Exceptions to dead-letter immediately; takes precedence over `retry_on`.
            timeout_s: Timeout of one call in seconds; None: no timeout.
            lease_s: Lease duration in seconds, more than 1; renewed while the handler runs.
            mode: `lease`, or `transaction`: the message's row is locked, and the handler and the acknowledgement share
                one transaction. Queues only.
            execution: `loop` for `async def`; for `def` `thread`, or `process` for handlers that compute or may crash.
                None: `loop` or `thread`.
            batch: Pass several payloads as a list. The handler returns None, or a list with one outcome per payload.
            keep: Archive or delete done messages of a queue.
            concurrency: Maximum concurrency in one process, 1 or more.
            fleet_concurrency: Maximum concurrency across all processes, 1 or more, or None. Queues only, as are the
                next four. A worker stores these limits of the queue when it starts, unless an operator set others.
            key_concurrency: Maximum concurrency per key across all processes, 1 or more, or None. With 1, messages of a
                key are in order.
            when_waiting: Handle messages of a key in order, one at a time; while one waits for its retry, `block`: none
                of the key is handled; `skip`: later ones are; `park`: none is until `Operations.unpark_messages`.
                None: `block` if `key_concurrency` is 1, else keys have no order.
            rate: Rate limit: messages claimed per `rate_s` across all processes, 1 or more, or None. A message counts
                when a worker claims it; it may start later, and if it is released before it starts, it counts again.
            rate_s: Period of the rate limit in seconds, more than 0.
            weight: Share of slots relative to the other handlers of the process, 1 or more.

        Returns:
            A decorator that makes the function a `Handler`.

        Raises:
            ArgumentError: The function cannot be a handler, options conflict, or another handler has the same name or
                source.
        """
        route = make_route(
            queue=queue,
            topic=topic,
            log=log,
            group=group,
            consumer=consumer,
            event_types=event_types,
            dead_letters=dead_letters,
        )
        is_queue = isinstance(route, QueueRoute)

        def decorate(function: Callable[..., Any]) -> Handler[Any, ..., Any]:
            signature = read_signature(function, is_batch=batch is not None)
            spec = HandlerSpec(
                name=name or function.__name__,
                function=function,
                route=route,
                decode=signature.payload.decode if is_queue else signature.payload.decode_text,
                takes_context=signature.takes_context,
                execution=choose_execution(signature, function, execution),
                mode=one_of(Mode, mode, "mode"),
                retry=retry,
                timeout_s=timeout_s,
                lease_s=lease_s,
                batch=batch,
                limits=Limits(
                    concurrency,
                    fleet_concurrency,
                    key_concurrency,
                    rate,
                    rate_s,
                    weight,
                    "block" if when_waiting is None and key_concurrency == 1 else when_waiting,
                ),
                retry_on=tuple(retry_on),
                give_up_on=tuple(give_up_on),
                keep=keep,
            )
            check_spec(spec)
            check_neighbours(spec, self.handlers.values())
            self.handlers[spec.name] = spec
            sending = Sending(spec.name, route, signature.payload)
            return Handler(self._pools, spec, function, sending, self.middlewares)

        return decorate

    def middleware(self, function: AnyMiddleware) -> AnyMiddleware:
        """Call an `async def` around every handler: `async def timing(call, payload, context)`.

        It returns the result of `await call(payload, context)`, or an outcome of its own; an exception it raises counts
        as the handler's. The first declared is outermost. For a batch handler, payload and context are lists.

        Raises:
            ArgumentError: It is not an `async def`, or does not take the three arguments.
        """
        check_middleware(function)
        self.middlewares.append(function)
        return function

    def schedule(
        self,
        name: str,
        *,
        handler: Handler[Payload, ..., Any],
        payload: Payload,
        cron: str | None = None,
        every_s: float | None = None,
        time_zone: str = "UTC",
        catch_up: CatchUp = "one",
        catch_up_within_s: float = 604_800.0,
        jitter_s: float = 0.0,
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
        key: str | None = None,
        priority: int | None = None,
        headers: dict[str, Any] | None = None,
        event_type: str | None = None,
    ) -> None:
        """Send to a handler repeatedly, once per slot across all processes.

        The schedule is stored in the database when a worker of this app starts, and fired by the process that runs
        maintenance. When a version of the app starts that does not declare it any more, the schedule is paused and
        logged; `pgsluice schedule drop` removes it. A version that declares it again resumes it: the version that
        starts last decides. This needs an app with a name of its own, see `App`.

        Args:
            name: Unique in the database.
            handler: Its queue or log receives the payload.
            payload: The same for every slot.
            cron: Cron expression with five fields, or a word such as `@daily`; alternatively `every_s`.
            every_s: Interval in seconds, 0.1 or more.
            time_zone: Time zone of `cron`.
            catch_up: Missed slots to fire after downtime: `none`, `one` or `all`.
            catch_up_within_s: Maximum age of a missed slot with `all`, in seconds.
            jitter_s: Maximum delay of a slot in seconds, 0 or more; constant for each slot.
            starts_at: Earliest slot; the first one with `every_s`. None: from now on.
            ends_at: No slot is at or after this time; None: no end.
            key: As for `Handler.send`, as are the next three.

        Raises:
            ArgumentError: The name is taken, not exactly one of `cron` and `every_s` is given, or a number is out of
                range. `cron` and the time zone are validated by the database when a worker starts.
            PayloadError: The payload does not match its type.
        """
        if not isinstance(handler, Handler):
            raise ArgumentError(
                f"handler of schedule {name!r} is {handler!r}; pass a function decorated with "
                "handler()"
            )
        if name in self.schedules:
            raise ArgumentError(f"schedule {name!r} is declared twice; rename one")
        if (cron is None) == (every_s is None):
            raise ArgumentError(f"schedule {name!r} needs either cron= or every_s=")
        if catch_up not in get_args(CatchUp):
            raise ArgumentError(
                f"catch_up of schedule {name!r} is {catch_up!r}; use {', '.join(get_args(CatchUp))}"
            )
        for option, number, least in (
            ("every_s", every_s, 0.1),
            ("catch_up_within_s", catch_up_within_s, 0),
            ("jitter_s", jitter_s, 0),
        ):
            if number is not None and not least <= number < math.inf:
                raise ArgumentError(
                    f"{option} of schedule {name!r} is {number}; use {least} or more seconds"
                )
        self.schedules[name] = ScheduleSpec(
            name=name,
            **handler.sending.scheduled(
                payload, key=key, headers=prioritised(headers, priority), event_type=event_type
            ),
            cron=cron,
            every_s=every_s,
            time_zone=time_zone,
            catch_up=catch_up,
            catch_up_within_s=catch_up_within_s,
            jitter_s=jitter_s,
            starts_at=zoned_time(starts_at, "starts_at"),
            ends_at=zoned_time(ends_at, "ends_at"),
        )

    def lifespan(
        self,
        _web_app: object = None,
        /,
        *,
        handlers: Sequence[str] | None = None,
        queues: Sequence[str] | None = None,
        options: WorkerOptions | None = None,
        maintenance: bool = True,
        grace_s: float = 10.0,
    ) -> AbstractAsyncContextManager[dict[str, BackgroundWorker]]:
        """Run a worker inside another program, in its event loop: `FastAPI(lifespan=app.lifespan)`, or `async with`.

        Args:
            handlers: Handlers to run; None: all.
            queues: Work queues or logs whose handlers to run; None: all.
            options: Process-wide options.
            maintenance: Also run maintenance while this process is the leader.
            grace_s: Grace period of running handlers at shutdown, in seconds.

        Returns:
            A context manager that yields `{"worker": …}`; in Starlette and FastAPI, `request.state.worker`.

        Raises:
            SluiceError: A permanent error prevents the worker from starting.
        """
        # Programs that only send do not import the worker.
        from pgsluice.worker.app.lifespan import lifespan

        return lifespan(
            self,
            handlers=handlers,
            queues=queues,
            options=options,
            maintenance=maintenance,
            grace_s=grace_s,
        )

    def close(self) -> None:
        """Close the connections opened by `send` and `send_many`; the next send reconnects."""
        self._pools.close()

    async def aclose(self) -> None:
        """Close the connections opened by `send_async` and `send_many_async` in this event loop, before it closes."""
        await self._pools.aclose()
