"""Trace a worker's messages: receive, process, settle. Without tracing, none of this is called per message."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pgsluice.tracing.carrier import EVENT_FIELD, SpanPlace, System, carrier_of
from pgsluice.tracing.switch import quiet, tracing
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.claim.sources import Feed
from pgsluice.worker.engine.delivery import Delivery, Failure, Settlement
from pgsluice.worker.engine.run.executor import AnyContext, Executor
from pgsluice.worker.engine.settle.redaction import values_of, without_secrets, without_values
from pgsluice.worker.handlers.handler import ConsumerRoute, HandlerSpec, QueueRoute

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from pgsluice.tracing.spans import Operation, Tracing

_REPLAYED_HEADER = "x-pgmq-replayed-from"


class WorkerTracing:
    """Tracing of one worker, decided when it starts."""

    def __init__(self, *, is_enabled: bool) -> None:
        """Decide.

        Args:
            is_enabled: False: do not trace, whatever the process has configured.

        Raises:
            ConfigurationError: As for `tracing.switch.tracing`.
        """
        self._tracing = tracing() if is_enabled else None

    def quiet(self) -> AbstractContextManager[None]:
        """Ask other instrumentations to leave out the worker's own statements, such as polls."""
        return nullcontext() if self._tracing is None else quiet()

    def executor(self, *args: Any, **kwargs: Any) -> Executor:
        """Make the executor; the arguments are those of `Executor`."""
        if self._tracing is None:
            return Executor(*args, **kwargs)
        return TracedExecutor(self._tracing, *args, **kwargs)

    def feeds(self, feeds: Sequence[Feed]) -> Sequence[Feed]:
        """Trace the sources of feeds."""
        if self._tracing is None:
            return feeds
        return [
            replace(each, source=cast("Source", TracedSource(each, self._tracing)))
            for each in feeds
        ]


class TracedExecutor(Executor):
    """Record each handler call as a span."""

    def __init__(self, tracing: Tracing, *args: Any, **kwargs: Any) -> None:
        """Prepare an executor; the further arguments are those of `Executor`."""
        super().__init__(*args, **kwargs)
        self._tracing = tracing

    async def handle(self, spec: HandlerSpec, context: AnyContext) -> Settlement:
        """As in `Executor`."""
        with self._processing(spec, [context.delivery]) as operation:
            context.delivery.span = operation.context
            settlement = await super().handle(spec, context)
            _record_outcome(operation, [context.delivery], [settlement])
        return settlement

    async def handle_batch(
        self, spec: HandlerSpec, contexts: Sequence[AnyContext]
    ) -> list[Settlement]:
        """As in `Executor`."""
        deliveries = [context.delivery for context in contexts]
        with self._processing(spec, deliveries) as operation:
            for delivery in deliveries:
                delivery.span = operation.context
            settlements = await super().handle_batch(spec, contexts)
            _record_outcome(operation, deliveries, settlements)
        return settlements

    def _processing(
        self, spec: HandlerSpec, deliveries: Sequence[Delivery]
    ) -> AbstractContextManager[Operation]:
        place = place_of(spec)
        attributes = {**_attributes(deliveries), "pgsluice.handler": spec.name}
        if len(deliveries) == 1:
            attributes["pgsluice.attempt"] = deliveries[0].attempt
        return self._tracing.processing(
            place,
            _origins(deliveries),
            joins=_joins(deliveries),
            attributes=attributes,
            # A consumer of a log has no source that counts its events.
            counts=len(deliveries) if isinstance(spec.route, ConsumerRoute) else 0,
        )


class TracedSource:
    """Record the claims of a source that return messages, and its settlements. See `Source`."""

    def __init__(self, feed: Feed, tracing: Tracing) -> None:
        """Wrap the source of a feed."""
        self._source = feed.source
        self._place = place_of(feed.specs[0])
        self._tracing = tracing

    def __getattr__(self, name: str) -> Any:
        """Return any other member of the source."""
        return getattr(self._source, name)

    async def claim(self, qty: int, lease_s: float) -> list[Delivery]:
        """As in `Source`. A claim that fails or finds nothing is not recorded: it is part of polling."""
        began_ns, began_s = time.time_ns(), time.perf_counter()
        deliveries = await self._source.claim(qty, lease_s)
        if deliveries:
            self._tracing.record(
                "receive",
                self._place,
                began_ns,
                time.perf_counter() - began_s,
                _origins(deliveries),
                joins=_joins(deliveries),
                attributes=_attributes(deliveries),
                received=len(deliveries),
            )
        return deliveries

    async def settle(
        self, settlements: Mapping[Delivery, Settlement], *, wait_s: float | None = None
    ) -> dict[Delivery, Settlement]:
        """As in `Source`. A call that found only locked rows is not recorded: it is repeated."""
        began_ns, began_s = time.time_ns(), time.perf_counter()
        settled: dict[Delivery, Settlement] = {}
        failure: Exception | None = None
        try:
            settled = await self._source.settle(settlements, wait_s=wait_s)
        except Exception as error:
            failure = error
            raise
        finally:
            results = {str(each.result) for each in settled.values()}
            if failure is not None or (settled and results != {"locked"}):
                deliveries = list(settlements)
                attributes = _attributes(deliveries)
                if results:
                    attributes["pgsluice.result"] = _common(results)
                self._tracing.record(
                    "settle",
                    self._place,
                    began_ns,
                    time.perf_counter() - began_s,
                    [each.span for each in deliveries if each.span] or _origins(deliveries),
                    joins=True,
                    attributes=attributes,
                    error=failure,
                )
        return settled


def place_of(spec: HandlerSpec) -> SpanPlace:
    """Return the queue or log of a handler."""
    system: System = "pgmq" if isinstance(spec.route, QueueRoute) else "pgq"
    return SpanPlace(system, *spec.route.fields.values())


def _attributes(deliveries: Sequence[Delivery]) -> dict[str, str | int]:
    if len(deliveries) == 1:
        return {"messaging.message.id": str(deliveries[0].message_id)}
    return {"messaging.batch.message_count": len(deliveries)}


def _origins(deliveries: Sequence[Delivery]) -> list[SpanContext]:
    """Return the spans that sent the messages, of those that have one."""
    from pgsluice.tracing.spans import LINKS_MAX, origin_of

    found = (origin_of(carrier_of(_carrying(each))) for each in deliveries[:LINKS_MAX])
    return [each for each in found if each is not None]


def _carrying(delivery: Delivery) -> Any:
    """Return what may hold the trace context: the headers of a message, a field of an event."""
    field = delivery.headers.get(EVENT_FIELD)
    return delivery.headers if field is None else field


def _joins(deliveries: Sequence[Delivery]) -> bool:
    """True for a single message, in its first attempt and not replayed."""
    if len(deliveries) != 1:
        return False
    (delivery,) = deliveries
    return delivery.attempt <= 1 and _REPLAYED_HEADER not in delivery.headers


def _record_outcome(
    operation: Operation, deliveries: Sequence[Delivery], settlements: Sequence[Settlement]
) -> None:
    """Record the outcome of a call, and its first failure."""
    outcomes = {
        each.result if each.result == "lost" else type(each.outcome).__name__.lower()
        for each in settlements
    }
    operation.span.set_attribute("pgsluice.outcome", _common(outcomes))
    for delivery, settlement in zip(deliveries, settlements, strict=True):
        if settlement.failure is not None:
            _record_failure(operation, delivery, settlement.failure)
            return


def _record_failure(operation: Operation, delivery: Delivery, failure: Failure) -> None:
    values = values_of(delivery.payload)
    message, trace = (
        None if text is None else without_values(without_secrets(text), values)
        for text in (failure.message, failure.trace)
    )
    operation.failed(failure.error_type, message or "", trace)


def _common(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else "mixed"
