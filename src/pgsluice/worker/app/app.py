"""The application: functions become handlers of queues and logs, and are sent to by name."""

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
from pgsluice.worker.upkeep.schedules import ScheduleSpec

if TYPE_CHECKING:
    from pgsluice.worker.app.lifespan import BackgroundWorker
    from pgsluice.worker.engine.worker import WorkerOptions

Payload = TypeVar("Payload")
Rest = ParamSpec("Rest")
Result = TypeVar("Result")
AnyMiddleware = TypeVar("AnyMiddleware", bound=Middleware)


class HandlerOptions(TypedDict, total=False):
    """What `App.handler` takes beside the queue and the batch, each explained there."""

    topic: str | None
    log: str | None
    group: str | None
    consumer: str | None
    event_types: Iterable[str]
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
    """Makes a handler of a function that takes one payload, and the context if it likes."""

    def __call__(
        self, function: Callable[Concatenate[Payload, Rest], Result], /
    ) -> Handler[Payload, Concatenate[Payload, Rest], Result]:
        """Decorate."""
        ...


class DecoratesBatch(Protocol):
    """Makes a handler of a function that takes a list of payloads, and one of contexts if it likes."""

    def __call__(
        self, function: Callable[Concatenate[list[Payload], Rest], Result], /
    ) -> Handler[Payload, Concatenate[list[Payload], Rest], Result]:
        """Decorate."""
        ...


class App:
    """The handlers of a program, and what sends to them. Nothing is connected before something is sent.

    One app lives in a module of the user's, and `pgsluice worker run module:app` runs its handlers.

    Attributes:
        name: For people, and for the server's list of connections.
        dsn: Where to send and to work; None: as the rule of all commands has it. It may be set later.
        handlers: Its handlers, by name.
        middlewares: What is called around each, the first outermost.
        schedules: What is sent again and again, by name.
    """

    def __init__(self, dsn: str | None = None, *, name: str = "app") -> None:
        """Prepare an app without handlers.

        Args:
            dsn: A libpq URL or keyword string; None: `PGSLUICE_DSN`, `DATABASE_URL`, libpq's own variables, or the
                embedded server, in this order, when it is first needed.
            name: Tells this program from others.
        """
        self.name = name
        self.dsn = dsn
        self.handlers: dict[str, HandlerSpec] = {}
        self.middlewares: list[Middleware] = []
        self.schedules: dict[str, ScheduleSpec] = {}
        self._pools = SendingPools(lambda: self.dsn, f"pgsluice {name}")

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

        The function takes the payload, of the type that it is annotated with, and, if it has a second parameter, the
        context. What it returns or raises is the answer: nothing or `Done`, `Retry`, `Release` or `Reject`; any
        other exception means that it is tried again.

        Args:
            queue: The work queue.
            topic: A pattern of routing keys that is bound to the queue when a worker starts. Other bindings of the
                queue stay, and are logged.
            log: The event log, instead of a queue.
            group: The share group of the log: one event at a time, in any number of processes. It is made when a worker
                starts, if there is none.
            consumer: The consumer of the log, instead: events in their order, a tick batch in one transaction.
            event_types: The types of events that it is for; none: those that no other handler of the group, or the
                consumer, is for.
            name: What it is called in logs and commands; the function's own name if it is not said.
            retry: When it is tried again, and how often; None: as the policy of the queue or the group says.
            retry_on: Exceptions that are tried again, where others go to the dead letters at once; none: all are.
            give_up_on: Exceptions that go to the dead letters at once; these come first.
            timeout_s: Seconds that one call may take; None: as many as it likes.
            lease_s: Seconds that a claim lasts when its process dies, more than 1; while the handler runs it is
                extended.
            mode: `lease`, or `transaction`: the message's row is locked, and the handler and the acknowledgement are
                one transaction. Queues only.
            execution: `loop` for `async def`; for `def` `thread`, or `process` for what computes or may crash. None:
                the first that fits.
            batch: Give it many at once, as a list. It returns nothing, or a list with an answer for each.
            keep: What becomes of a message of a queue that is done: it goes to the archive, or is deleted.
            concurrency: At once in one process, 1 or more.
            fleet_concurrency: At once in all processes, 1 or more, or None. Queues only, as are the next four.
                A worker stores these limits of the queue when it starts, unless an operator set others.
            key_concurrency: At once of one key in all processes, 1 or more, or None. With 1, messages of a key are in
                order.
            when_waiting: Handle messages of a key in order, one at a time; while one waits to be retried, `block`: none
                of the key is handled; `skip`: the later ones are; `park`: none is until `WorkQueue.unpark_messages`.
                None: `block` if `key_concurrency` is 1, else keys have no order.
            rate: As many begin within `rate_s` in all processes, 1 or more, or None.
            rate_s: Seconds, more than 0.
            weight: Its part of the turns when several handlers want one in this process, 1 or more.

        Returns:
            A decorator, which makes a `Handler` of the function.

        Raises:
            ArgumentError: The function cannot be a handler, options do not go together, or another handler has this
                name, or is for the same messages.
        """
        route = make_route(
            queue=queue,
            topic=topic,
            log=log,
            group=group,
            consumer=consumer,
            event_types=event_types,
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

        It returns what `await call(payload, context)` returns, or an answer of its own; what it raises is taken as if
        the handler had. The first that is declared is outermost. Of a batch, payload and context are lists.

        Raises:
            ArgumentError: It is no `async def`, or does not take the three.
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
        """Send to a handler again and again, once for each slot, however many processes there are.

        The schedule is kept in the database: written when a worker of this app starts, and fired by whoever does
        maintenance.

        Args:
            name: Unique in the database.
            handler: Whose queue or log it is sent to.
            payload: What is sent, each time the same.
            cron: When, as five fields or a word such as `@daily`; or else `every_s`.
            every_s: Seconds from one slot to the next, 0.1 or more.
            time_zone: The time zone of `cron`.
            catch_up: What becomes of slots that nobody was there to fire: `none`, `one` of them or `all`.
            catch_up_within_s: How old a missed slot may be with `all`, seconds.
            jitter_s: Each slot is late by less than so many seconds, 0 or more, always the same for one slot.
            starts_at: No slot is before this time; with `every_s` it is the first one. None: from now on.
            ends_at: No slot is at this time or after it; None: it goes on for ever.
            key: As for `Handler.send`, as are the next three.

        Raises:
            ArgumentError: The name is taken, or there is not one of `cron` and `every_s`, or a number is out of range.
                Whether `cron` and the time zone can be understood the database says, when a worker starts.
            PayloadError: The payload is not of its type.
        """
        if not isinstance(handler, Handler):
            raise ArgumentError(f"handler of schedule {name!r} is {handler!r}; decorate it first")
        if name in self.schedules:
            raise ArgumentError(f"there are two schedules {name!r}; give one of them another name")
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
        """Run a worker beside something else, in its event loop: `FastAPI(lifespan=app.lifespan)`, or `async with`.

        Args:
            handlers: Which of them; None: all.
            queues: Only those whose messages come from these work queues or logs; None: all.
            options: How it works.
            maintenance: Also keep the database in order, when this process is the one that leads.
            grace_s: How long handlers that have begun may take at the end, seconds.

        Returns:
            A context manager, which gives `{"worker": …}`; to Starlette and FastAPI that is `request.state.worker`.

        Raises:
            SluiceError: It cannot work, and waiting would not mend it.
        """
        # Who only sends needs nothing of this.
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
        """Close the connections that `send` and `send_many` opened; the next who sends opens others."""
        self._pools.close()

    async def aclose(self) -> None:
        """Close those that `send_async` and `send_many_async` opened in this event loop; before the loop ends."""
        await self._pools.aclose()
