"""The application: declares handlers of queues and logs, and sends to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    get_args,
    overload,
)

from pgsluice.client.calls.arguments import require_options, text, zoned_time
from pgsluice.client.schedule_records import CatchUp, ScheduleOptions
from pgsluice.client.sources import AsyncConnectable, Connectable
from pgsluice.errors import ArgumentError
from pgsluice.ranges import is_number
from pgsluice.shards import Shards
from pgsluice.worker.handlers.declare import check_neighbours, make_route, make_spec
from pgsluice.worker.handlers.handler import Batch, HandlerSpec
from pgsluice.worker.handlers.middleware import Middleware, check_middleware
from pgsluice.worker.handlers.options import HandlerOptions, SendOptions
from pgsluice.worker.handlers.sendable import Handler
from pgsluice.worker.handlers.sending import Sending
from pgsluice.worker.handlers.sending_pools import SendingPools
from pgsluice.worker.upkeep.schedules import DEFAULT_NAME, ScheduleSpec

if TYPE_CHECKING:
    from pgsluice.worker.app.lifespan import BackgroundWorker
    from pgsluice.worker.engine.flow.options import WorkerOptions

Payload = TypeVar("Payload")
Rest = ParamSpec("Rest")
Result = TypeVar("Result")
AnyMiddleware = TypeVar("AnyMiddleware", bound=Middleware)


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
        name: Display name; the `application_name` of its connections is `pgsluice NAME`.
        dsn: Server of senders and workers; None: resolved as for all commands. May be set later.
        shards: Several servers that share the keys of messages, or the path of their file; None: a single one. May be
            set later.
        tracing: False if its handlers and senders are never traced. May be set later.
        transactions: As given; applies to handlers declared afterwards.
        handlers: Its handlers, by name.
        middlewares: Called around each handler, the first outermost.
        schedules: Its schedules, by name.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        name: str = DEFAULT_NAME,
        shards: Shards | str | Path | None = None,
        tracing: bool = True,
        transactions: Any = None,
    ) -> None:
        """Prepare an app without handlers.

        Args:
            dsn: A libpq URL or keyword string; None: `PGSLUICE_DSN`, `DATABASE_URL`, libpq's own variables, or the
                embedded server, in this order, resolved on first use.
            name: Identifies this program in the database. The app owns the schedules that it declared under this name:
                those that it no longer declares are paused when a worker starts. With the default they are only logged.
            shards: Several servers, or the path of the file that names them, see `pgsluice.shards.Shards`. Each send
                then needs a key, and goes to the server to which the key belongs. Not with `dsn`.
            tracing: Trace messages if the program has configured an OpenTelemetry provider; False: never.
            transactions: Opens the transactions of its handlers, also in mode `transaction`, as `on` of
                `Context.transaction`: `sessionmaker(engine)` or `async_sessionmaker(engine)` of SQLAlchemy, or
                `django.db.connection`. None: connections of the worker.

        Raises:
            ArgumentError: Both `dsn` and `shards` are given, or the name or `dsn` is no text.
        """
        if dsn is not None and shards is not None:
            raise ArgumentError("dsn and shards are mutually exclusive; use one")
        text(dsn, "dsn")
        text(name, "name of the app")
        self.name = name
        self.dsn = dsn
        self.shards = shards
        self.tracing = tracing
        self.transactions = transactions
        self.handlers: dict[str, HandlerSpec] = {}
        self.middlewares: list[Middleware] = []
        self.schedules: dict[str, ScheduleSpec] = {}
        self._pools = SendingPools(
            lambda: self.dsn,
            f"pgsluice {name}",
            shards=lambda: self.shards,
            is_traced=lambda: self.tracing,
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
        batch: Batch | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Make a function the handler of a queue, or of events of a log.

        The function takes the payload, of its annotated type, and, if it has a second parameter, the context. Its
        outcome is what it returns or raises: None or `Done`, `Retry`, `Release` or `Reject`; any other exception is
        retried.

        Args:
            queue: The work queue.
            batch: Pass several payloads as a list. The handler returns None, or a list with one outcome per payload.
            **options: See `HandlerOptions`.

        Returns:
            A decorator that makes the function a `Handler`.

        Raises:
            ArgumentError: The function cannot be a handler, an option is unknown or invalid, options conflict, or
                another handler has the same name or source.
        """
        require_options(options, ("batch", *HandlerOptions.__annotations__), "handler")
        route = make_route(queue, options)

        def decorate(function: Callable[..., Any]) -> Handler[Any, ..., Any]:
            spec, payload = make_spec(function, route, batch, options)
            spec = replace(spec, transactions=self.transactions)
            check_neighbours(spec, self.handlers.values())
            self.handlers[spec.name] = spec
            sending = Sending(spec.name, route, payload, spec.unique)
            return Handler(self._pools, spec, function, sending, self.middlewares)

        return decorate

    def middleware(self, function: AnyMiddleware) -> AnyMiddleware:
        """Call a function around handlers: `async def timing(call, payload, context)`, or a `def`.

        It returns the result of `await call(payload, context)`, in a `def` of `call(payload, context)`, or an outcome
        of its own; an exception it raises counts as the handler's. The first declared is outermost. For a batch
        handler, payload and context are lists.

        An `async def` is called around every handler, in the event loop. A `def` is called around `def` handlers only,
        in the handler's thread or process, inside of the others: for resources of a thread, such as a scoped session.

        If it is an object with a method `close`, that is called when the worker stops: of a `def` in each thread of
        handlers, at its end.

        Raises:
            ArgumentError: It does not take the three arguments.
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
        key: str | None = None,
        priority: int | None = None,
        headers: dict[str, Any] | None = None,
        event_type: str | None = None,
        **timing: Unpack[ScheduleOptions],
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
            key: As in `SendOptions`, as are the next three.
            **timing: See `ScheduleOptions`; `declared_by` is this app.

        Raises:
            ArgumentError: The name is taken, an option is unknown, not exactly one of `cron` and `every_s` is given,
                or a number is out of range. `cron` and the time zone are validated by the database when a worker
                starts.
            PayloadError: The payload does not match its type.
        """
        if not isinstance(handler, Handler):
            raise ArgumentError(
                f"handler of schedule {name!r} is {handler!r}; pass a function decorated with "
                "handler()"
            )
        text(name, "name of the schedule")
        if name in self.schedules:
            raise ArgumentError(f"schedule {name!r} is declared twice; rename one")
        known = [option for option in ScheduleOptions.__annotations__ if option != "declared_by"]
        require_options(timing, known, "schedule")
        if (timing.get("cron") is None) == (timing.get("every_s") is None):
            raise ArgumentError(f"schedule {name!r} needs either cron= or every_s=")
        catch_up = timing.get("catch_up")
        if catch_up not in (None, *get_args(CatchUp)):
            raise ArgumentError(
                f"catch_up of schedule {name!r} is {catch_up!r}; use {', '.join(get_args(CatchUp))}"
            )
        for option, number, least in (
            ("every_s", timing.get("every_s"), 0.1),
            ("catch_up_within_s", timing.get("catch_up_within_s"), 0),
            ("jitter_s", timing.get("jitter_s"), 0),
        ):
            if number is not None and not is_number(number, least):
                raise ArgumentError(
                    f"{option} of schedule {name!r} is {number!r}; use {least} or more seconds"
                )
        text(timing.get("cron"), f"cron of schedule {name!r}")
        text(timing.get("time_zone"), f"time_zone of schedule {name!r}")
        zoned_time(timing.get("starts_at"), "starts_at")
        zoned_time(timing.get("ends_at"), "ends_at")
        sent: SendOptions = {
            "key": key,
            "priority": priority,
            "headers": headers,
            "event_type": event_type,
        }
        scheduled = handler.sending.scheduled(payload, sent)
        self.schedules[name] = ScheduleSpec(name=name, **scheduled, timing=timing)

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

        At the end, worker and maintenance have stopped, and the connections of this event loop are closed, as by
        `aclose`.

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

    def create_queues(self, connection: Connectable | None = None) -> None:
        """Create the queues and logs of the handlers that do not exist, and store the options that handlers declare.

        Idempotent, in one transaction. Options that an operator set are kept. Share groups, consumers and bindings to
        topics are created when a worker starts.

        Args:
            connection: As for `Handler.send`: creates them in its transaction. None: the app's own pool; with shards,
                on each of them, in a transaction of its own.

        Raises:
            PrivilegeError: Something must be created or changed, which needs the rights of `sluice_admin` for queues
                and of `pgq_admin` for logs.
            QueueNameError: A queue cannot have its name.
            ArgumentError: An option is invalid.
            ConnectionFailedError: The server is unreachable.
        """
        # As for the lifespan.
        from pgsluice.worker.engine.claim.declared_limits import create_sources

        if connection is None and (router := self._pools.router) is not None:
            for name in router.shards.names:
                self.create_queues(self._pools.pool(name))
        else:
            self._pools.runner(connection).run_steps(create_sources(self.handlers.values()))

    async def create_queues_async(self, connection: AsyncConnectable | None = None) -> None:
        """Like `create_queues`, in an event loop."""
        from pgsluice.worker.engine.claim.declared_limits import create_sources

        if connection is None and (router := self._pools.router) is not None:
            for name in router.shards.names:
                await self.create_queues_async(await self._pools.async_pool(name))
            return
        runner = await self._pools.async_runner(connection)
        await runner.run_steps(create_sources(self.handlers.values()))

    def close(self) -> None:
        """Close the connections opened by `send` and `send_many`; the next send reconnects."""
        self._pools.close()

    async def aclose(self) -> None:
        """Close the connections opened by `send_async` and `send_many_async` in this event loop, before it closes."""
        await self._pools.aclose()
