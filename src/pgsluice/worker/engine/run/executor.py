"""Runs a handler in the event loop, a thread or a process, within its timeout, and returns a settlement."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pgsluice.errors import ConfigurationError, LeaseLostError
from pgsluice.outcome import Release
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.connections.connections import Connections
from pgsluice.worker.engine.delivery import (
    ACKNOWLEDGED,
    LOST,
    NOT_STARTED,
    Delivery,
    Failure,
    Settlement,
)
from pgsluice.worker.engine.run.base_context import BaseContext
from pgsluice.worker.engine.run.call_times import CallTimes
from pgsluice.worker.engine.run.context import Context, SyncContext
from pgsluice.worker.engine.run.process_pool import Child, Job, ProcessPool, RemoteError
from pgsluice.worker.engine.run.threads import NotStartedError, Threads
from pgsluice.worker.engine.run.time_limit import TimeLimit
from pgsluice.worker.engine.settle.lost_sessions import LostSessions
from pgsluice.worker.engine.settle.settlement import (
    decoded,
    settlement_of_error,
    settlement_of_result,
    settlement_of_timeout,
    settlements_of_results,
)
from pgsluice.worker.forks import end_fork, process_id
from pgsluice.worker.handlers.handler import Execution, HandlerSpec, Mode
from pgsluice.worker.handlers.middleware import (
    HandlerCall,
    Middleware,
    around,
    around_in_thread,
    close,
    close_in_thread,
)

AnyContext = Context | SyncContext


class Executor:
    """Runs handlers.

    From the outside in: the timeout, the `async def` middleware, the event loop, thread or process, in a thread or
    process the `def` middleware, in mode `transaction` the transaction, the function. Every result, including
    SystemExit in a thread or the death of a process, becomes a `Settlement`; only a cancellation by the worker itself
    propagates.

    Attributes:
        threads: Threads of `def` handlers.
        unstarted: Handlers whose last call could not start a thread or process, with the reason.
        times: Durations of the calls by handler, of those that were called; a batch is one call.
    """

    def __init__(
        self,
        connections: Connections | None,
        middlewares: Sequence[Middleware] = (),
        *,
        max_memory_mb: int | None = None,
        processes: ProcessPool | None = None,
        on_hung: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare an executor, in the running event loop.

        Args:
            connections: Connections for handler transactions.
            middlewares: Called around each handler, the first outermost.
            max_memory_mb: Address space limit of a handler process in MB, or None.
            processes: Processes that several executors share; their owner closes them, and the middleware. None: own
                ones.
            on_hung: Called when a thread is abandoned after its handler's timeout.
        """
        self._connections = connections
        self._middlewares = middlewares
        self.threads = Threads(on_hung, partial(close_in_thread, middlewares))
        self._is_sharing = processes is not None
        self._processes = processes or ProcessPool(max_memory_mb=max_memory_mb)
        # The processes of calls that have not begun, by the first context of the call.
        self._reserved: dict[BaseContext, Child] = {}
        self._lost_sessions = LostSessions()
        self._calls: dict[str, HandlerCall] = {}
        self.unstarted: dict[str, str] = {}
        self.times: dict[str, CallTimes] = {}

    async def prepare(self, spec: HandlerSpec) -> None:
        """Verify that a handler can be called in its own process.

        Raises:
            ConfigurationError: The process cannot import it.
        """
        if spec.execution is Execution.PROCESS:
            self._processes.give_back(await self._processes.reserve(spec))

    async def close(self) -> None:
        """Stop the processes and the idle threads, and close the middleware."""
        if not self._is_sharing:
            await self._processes.close()
        await self.threads.close()
        if not self._is_sharing:
            await close(self._middlewares)

    def context(self, spec: HandlerSpec, delivery: Delivery, source: Source) -> AnyContext:
        """Make the context of a handler call."""
        kind = Context if spec.execution is Execution.LOOP else SyncContext
        return kind(spec, delivery, source, self._connections)

    async def handle(self, spec: HandlerSpec, context: AnyContext) -> Settlement:
        """Call a handler for one message."""
        payload = _payload(spec, context)
        if isinstance(payload, Settlement):
            return payload
        if spec.execution is Execution.LOOP:
            result = await self._call(spec, payload, context)
        else:
            result = await self._attempt(spec, payload, context)
        if not isinstance(result, Settlement):
            result = ACKNOWLEDGED if context.is_acknowledged else settlement_of_result(spec, result)
        return self._settlement(context, result)

    async def handle_batch(
        self, spec: HandlerSpec, contexts: Sequence[AnyContext]
    ) -> list[Settlement]:
        """Call a handler for many messages; return their settlements in order."""
        decoded_payloads = [_payload(spec, context) for context in contexts]
        payloads = [each for each in decoded_payloads if not isinstance(each, Settlement)]
        called = [
            context
            for context, payload in zip(contexts, decoded_payloads, strict=True)
            if not isinstance(payload, Settlement)
        ]
        if not called:
            return decoded_payloads
        result = await self._attempt(spec, payloads, called)
        settled = iter(settlements_of_results(spec, result, len(called)))
        # An exception concerns all messages, whichever context had the session.
        is_lost = isinstance(result, Settlement) and any(each.is_session_lost for each in called)
        return [
            payload
            if isinstance(payload, Settlement)
            else self._settlement(context, next(settled), is_lost=is_lost)
            for context, payload in zip(contexts, decoded_payloads, strict=True)
        ]

    def _settlement(
        self, context: AnyContext, settlement: Settlement, *, is_lost: bool = False
    ) -> Settlement:
        """Return the settlement of a call, by the state of its session and of its own acknowledgement.

        If the call failed with its session lost, the message is released.
        """
        if context.is_acknowledged:
            failure = settlement.failure  # the handler may have failed afterwards
            return ACKNOWLEDGED if failure is None else replace(ACKNOWLEDGED, failure=failure)
        if settlement.is_error and (is_lost or context.is_session_lost):
            return self._lost_sessions.settlement(context.delivery, settlement)
        return settlement

    def _not_started(self, spec: HandlerSpec, delivery: Delivery, reason: str) -> Settlement:
        """Return the settlement of a call whose thread or process did not start: a delayed release."""
        self.unstarted[spec.name] = reason
        settlement = Settlement(Release(), Failure(NOT_STARTED, reason))
        return self._lost_sessions.settlement(delivery, settlement, is_unlimited=True)

    async def _attempt(self, spec: HandlerSpec, payload: Any, context: Any) -> Any:
        """Return the handler's result, or a Settlement for its exception.

        A thread that exceeds its timeout keeps its slot and its message until it returns: a concurrent second attempt,
        or another message in its slot, would exceed the limits. If cancelled while waiting for the thread, at worker
        shutdown, this returns the timeout with a retry no sooner than one lease from now.

        The start of a process counts neither as handler time nor as a failure.
        """
        first = _first(context)
        try:
            if spec.execution is Execution.PROCESS:
                self._reserved[first] = await self._processes.reserve(spec)
            result = await self._call(spec, payload, context)
        except ConfigurationError as error:
            return self._not_started(spec, first.delivery, str(error))
        finally:
            if (unused := self._reserved.pop(first, None)) is not None:
                self._processes.give_back(unused)
        if self.unstarted and not (isinstance(result, Settlement) and result.is_unstarted):
            self.unstarted.pop(spec.name, None)
        if first.overrun is not None:
            try:
                await asyncio.shield(first.overrun)
            except asyncio.CancelledError:
                if not isinstance(result, Settlement) or result.failure is None:
                    raise
                return replace(result, delay_min_s=spec.lease_s)
        return result

    async def _call(self, spec: HandlerSpec, payload: Any, context: Any) -> Any:
        """Return the handler's result within its timeout, or a Settlement for its exception; count its duration.

        A call that did not start is not counted, nor one that the worker cancelled.
        """
        call = self._calls.get(spec.name) or self._bind(spec)
        limit: TimeLimit | None = None
        pid = process_id()
        first = _first(context)
        is_counted = True
        began_s = time.monotonic()
        try:
            if spec.timeout_s is None:
                result = await call(payload, context)
            else:
                if first is not context:
                    for each in context:
                        each.waits = first.waits
                async with TimeLimit(spec.timeout_s, first.waits) as limit:
                    result = await call(payload, context)
            end_fork(pid)
            return result  # noqa: TRY300 - end_fork does not return in a fork
        except GeneratorExit:
            is_counted = False
            raise
        except RemoteError as error:
            if error.has_begun:
                return error.settlement
            is_counted = False
            return self._lost_sessions.settlement(first.delivery, error.settlement)
        except NotStartedError as error:
            is_counted = False
            return self._not_started(spec, first.delivery, str(error))
        except BaseException as error:
            end_fork(pid, error)
            # A handler never stops the worker, whatever it raises.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                is_counted = False
                raise  # by the worker
            if isinstance(error, LeaseLostError) and _is_lost(context):
                return LOST  # detected by its own transaction or heartbeat
            if limit is not None and limit.expired() and isinstance(error, TimeoutError):
                return settlement_of_timeout(spec)
            return settlement_of_error(spec, error)
        finally:
            if is_counted:
                ended_s = time.monotonic()
                self.times[spec.name].add(ended_s - began_s, first.delivery.message_id, ended_s)

    def _bind(self, spec: HandlerSpec) -> HandlerCall:
        """Bind a handler to its execution and the middleware."""
        call: HandlerCall
        if spec.execution is Execution.PROCESS:
            call = partial(self._in_process, spec)
        elif spec.execution is Execution.THREAD:
            function = around_in_thread(self._middlewares, _function_of(spec))
            call = partial(self._in_thread, function)
        else:
            call = _function_of(spec)
        self._calls[spec.name] = call = around(self._middlewares, call)
        self.times[spec.name] = CallTimes()
        return call

    async def _in_thread(self, function: Callable[..., Any], payload: Any, context: Any) -> Any:
        contexts = [context] if isinstance(context, SyncContext) else context

        def abandon(returned: asyncio.Future[None]) -> None:
            for each in contexts:
                each.abandon(returned)

        result, error = await self.threads.run(function, payload, context, on_left=abandon)
        if error is not None:
            raise error
        return result

    async def _in_process(self, spec: HandlerSpec, payload: Any, context: Any) -> Any:
        is_one = isinstance(context, BaseContext)
        contexts = [context] if is_one else context
        payloads = [payload] if is_one else payload
        child = self._reserved.pop(contexts[0], None)
        if child is None:  # middleware that calls a handler twice
            child = await self._processes.reserve(spec)
        result = await self._processes.run(child, Job.of(spec, payloads, contexts))
        # Middleware gets a value as the function returned it.
        return _returned(spec, result) if isinstance(result, Settlement) else result


def _payload(spec: HandlerSpec, context: AnyContext) -> Any:
    """Return the payload of a call, or a Settlement if it cannot be decoded; a process decodes it itself."""
    payload = context.delivery.payload
    return payload if spec.execution is Execution.PROCESS else decoded(spec, payload)


def _returned(spec: HandlerSpec, settlement: Settlement) -> Any:
    value = json.loads(settlement.returned or "null")
    return None if value is None or spec.result_type is None else spec.result_type.decode(value)


def _first(context: Any) -> BaseContext:
    """Return the context of a call, for a batch the first."""
    return context if isinstance(context, BaseContext) else context[0]


def _is_lost(context: Any) -> bool:
    """True if the claim of a single call is known to be lost; a batch fails for its other messages."""
    return isinstance(context, BaseContext) and context.is_lost


def _function_of(spec: HandlerSpec) -> Callable[[Any, Any], Any]:
    """Return a function of payload and context that calls the handler's, and ends the transaction that it opened."""
    function = spec.function
    if spec.batch is None and (spec.takes_context or spec.mode is Mode.TRANSACTION):
        return lambda payload, context: context.run_function(payload)
    return function if spec.takes_context else lambda payload, _context: function(payload)
