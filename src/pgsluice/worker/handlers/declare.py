"""Validated handler declarations, checked when the module is imported. No I/O."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from types import FunctionType, SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pgsluice.client.calls.arguments import several
from pgsluice.client.limit_records import WhenWaiting
from pgsluice.client.payload_type import PayloadType, payload_type, resolve_hints
from pgsluice.client.unique import Unique
from pgsluice.durations import EXAMPLES, SECONDS_MAX, parse_duration
from pgsluice.errors import ArgumentError
from pgsluice.outcome import Outcome
from pgsluice.ranges import is_number
from pgsluice.worker.handlers.handler import (
    Batch,
    ConsumerRoute,
    Execution,
    GroupRoute,
    HandlerSpec,
    Limits,
    Mode,
    QueueRoute,
    Route,
)
from pgsluice.worker.handlers.options import HandlerOptions
from pgsluice.worker.handlers.retry import RetryPolicy

Word = TypeVar("Word", bound=StrEnum)


def make_route(queue: str | None, options: HandlerOptions) -> Route:
    """Make the route of a handler.

    Raises:
        ArgumentError: The source is missing, incomplete or ambiguous.
    """
    topic, log = options.get("topic"), options.get("log")
    group, consumer = options.get("group"), options.get("consumer")
    dead_letters = options.get("dead_letters", False)
    names = {"queue": queue, "topic": topic, "log": log, "group": group, "consumer": consumer}
    names["name"] = options.get("name")
    for option, name in names.items():
        if name is not None and (not isinstance(name, str) or not name):
            raise ArgumentError(f"{option} is {name!r}; use a name")
    types = _event_types(options.get("event_types", ()))
    if dead_letters and consumer is None:
        raise ArgumentError(
            "dead_letters requires consumer=; messages and events of share groups are always dead-lettered"
        )
    if log is None:
        if group is not None or consumer is not None or types:
            raise ArgumentError("group, consumer and event_types require log=")
        if queue is None:
            raise ArgumentError(
                "a handler needs a source: a queue (with topic= if the queue is bound to a topic), "
                "or log= with group= or consumer="
            )
        return QueueRoute(queue, topic)
    if queue is not None or topic is not None:
        raise ArgumentError("queue and log are mutually exclusive; declare one handler for each")
    if group is not None and consumer is None:
        return GroupRoute(log, group, types)
    if consumer is not None and group is None:
        return ConsumerRoute(log, consumer, types, dead_letters)
    raise ArgumentError(
        f"a handler of log {log!r} needs group=, for concurrent processing in any number of processes, or consumer=, "
        "for events in order"
    )


def _event_types(event_types: Iterable[str]) -> tuple[str, ...]:
    types = tuple(several(event_types, "event_types", "types"))
    for each in types:
        if not isinstance(each, str) or types.count(each) > 1:
            raise ArgumentError(
                f"invalid or repeated type {each!r} in event_types; use distinct strings"
            )
    return types


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a handler function.

    Attributes:
        name: Its module and name, for errors.
        payload: Payload type; for a batch handler the type of the items.
        takes_context: True if it has a second parameter.
        is_async: True if it is `async def`.
    """

    name: str
    payload: PayloadType
    takes_context: bool
    is_async: bool


def read_signature(function: Callable[..., Any], *, is_batch: bool) -> Signature:
    """Read a function's signature from its parameters and annotation.

    Raises:
        ArgumentError: It cannot be called as a handler, or its payload type is not supported.
    """
    if not isinstance(function, FunctionType):
        raise ArgumentError(f"{function!r} is not a function; decorate a `def` or an `async def`")
    name = f"{function.__module__}.{function.__qualname__}"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ArgumentError(
            f"{name} is a generator; a handler must return or raise instead of yield"
        )
    parameters = inspect.signature(function).parameters.values()
    positional = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    others = [each for each in parameters if each not in positional]
    if positional and positional[0].name in ("self", "cls"):
        raise ArgumentError(f"{name} is a method; decorate a function")
    required = [each.name for each in positional[2:] if each.default is each.empty]
    required += [
        each.name
        for each in others
        if each.kind is each.KEYWORD_ONLY and each.default is each.empty
    ]
    if not positional or required:
        takes = (
            f"has extra required parameters: {', '.join(required)}"
            if required
            else "takes no payload"
        )
        raise ArgumentError(
            f"{name} {takes}; a handler takes the payload, and optionally the context"
        )
    annotation = _annotation_of(function, positional[0], name)
    if is_batch:
        annotation = _item_of(annotation, name, positional[0].name)
    return Signature(
        name, payload_type(annotation), len(positional) > 1, inspect.iscoroutinefunction(function)
    )


def _annotation_of(function: FunctionType, parameter: inspect.Parameter, name: str) -> Any:
    if parameter.annotation is parameter.empty:
        return Any
    return _resolved(function, parameter.annotation, name)


def _resolved(function: Callable[..., Any], annotation: Any, name: str) -> Any:
    # Only this annotation: names in the others may not be defined at run time.
    holder = SimpleNamespace(__annotations__={"annotation": annotation})
    globals_ = inspect.unwrap(function).__globals__
    return resolve_hints(holder, name, globals_)["annotation"]


def result_type_of(function: Callable[..., Any]) -> PayloadType:
    """Return the type of a function's results, by its annotation without the outcomes.

    Raises:
        ArgumentError: The type has no JSON form.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    returned = inspect.signature(function).return_annotation
    if returned is inspect.Signature.empty:
        return payload_type(Any)
    annotation = _resolved(function, returned, name)
    is_union = get_origin(annotation) in (Union, UnionType)
    members = get_args(annotation) if is_union else (annotation,)
    values = tuple(each for each in members if not _is_outcome(each))
    return payload_type(Union[values] if values else None)  # noqa: UP007 - of a tuple


def _is_outcome(annotation: Any) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, Outcome)


def _item_of(annotation: Any, name: str, parameter_name: str) -> Any:
    if annotation in (Any, list, Sequence):
        return Any
    if get_origin(annotation) not in (list, Sequence):
        raise ArgumentError(
            f"{name} is a batch handler, but its {parameter_name} is not a list; annotate it as list[<payload type>]"
        )
    return get_args(annotation)[0]


def one_of(kind: type[Word], word: str, option: str) -> Word:
    """Convert a word to the enum member.

    Raises:
        ArgumentError: It is not a member.
    """
    try:
        return kind(word)
    except ValueError:
        raise ArgumentError(f"{option} is {word!r}; use {', '.join(kind)}") from None


def choose_execution(
    signature: Signature, function: Callable[..., Any], execution: Execution | str | None
) -> Execution:
    """Return the requested execution of a function, or its default.

    Raises:
        ArgumentError: The function cannot run there.
    """
    usual = Execution.LOOP if signature.is_async else Execution.THREAD
    chosen = usual if execution is None else one_of(Execution, execution, "execution")
    if signature.is_async and chosen is not Execution.LOOP:
        raise ArgumentError(
            f"{signature.name} is `async def`, which runs in the event loop; make it a `def` to run it in a {chosen}"
        )
    if chosen is Execution.LOOP and not signature.is_async:
        raise ArgumentError(
            f"{signature.name} would block the event loop; make it an `async def`, or run it in a thread"
        )
    if chosen is Execution.PROCESS and "<" in function.__qualname__:
        raise ArgumentError(
            f"{signature.name} cannot be imported by a handler process; define it at module level"
        )
    return chosen


def make_spec(
    function: Callable[..., Any], route: Route, batch: Batch | None, options: HandlerOptions
) -> tuple[HandlerSpec, PayloadType]:
    """Make the specification of a handler; return it with its payload type.

    Raises:
        ArgumentError: The function cannot be a handler, an option is invalid, or options conflict.
    """
    signature = read_signature(function, is_batch=batch is not None)
    payload = signature.payload
    limits = Limits(**_of(Limits, options))
    if limits.when_waiting is None and limits.key_concurrency == 1:
        limits = replace(limits, when_waiting="block")
    if limits.priority_weights is not None:
        weights = _weights(limits.priority_weights, options.get("name") or function.__name__)
        limits = replace(limits, priority_weights=weights)
    made = {
        "name": options.get("name") or function.__name__,
        "function": function,
        "route": route,
        "decode": payload.decode if isinstance(route, QueueRoute) else payload.decode_text,
        "takes_context": signature.takes_context,
        "execution": choose_execution(signature, function, options.get("execution")),
        "mode": one_of(Mode, options.get("mode", Mode.LEASE), "mode"),
        "batch": batch,
        "limits": limits,
        "retry_on": tuple(several(options.get("retry_on", ()), "retry_on", "exception classes")),
        "give_up_on": tuple(
            several(options.get("give_up_on", ()), "give_up_on", "exception classes")
        ),
    }
    keep_result = options.get("keep_result")
    if keep_result is not None:
        made["keep_result_s"] = _seconds(keep_result, f"keep_result of handler {made['name']!r}")
        made["result_type"] = result_type_of(function)
    spec = HandlerSpec(**{**_of(HandlerSpec, options), **made})
    check_spec(spec)
    return spec, payload


def _weights(weights: Any, name: str) -> tuple[int, ...]:
    """Return the weights of priority levels.

    Raises:
        ArgumentError: They are not a sequence of 2 to 9 whole numbers, 0 or more, one of them above 0.
    """
    is_valid = (
        isinstance(weights, Sequence)
        and 2 <= len(weights) <= 9
        and all(type(weight) is int and weight >= 0 for weight in weights)
        and any(weights)
    )
    if not is_valid:
        raise ArgumentError(
            f"priority_weights of handler {name!r} is {weights!r}; use 2 to 9 whole numbers, 0 or more and not all 0"
        )
    return tuple(weights)


def _seconds(value: Any, name: str) -> float:
    """Return a duration in seconds, given as a number or as text."""
    seconds = parse_duration(value) if isinstance(value, str) else value
    if seconds is None or not is_number(seconds, 0, SECONDS_MAX) or seconds == 0:
        raise ArgumentError(f"{name} is {value!r}; use more than 0 seconds, or one of: {EXAMPLES}")
    return float(seconds)


def _of(kind: type[HandlerSpec | Limits], options: HandlerOptions) -> dict[str, Any]:
    """Return the options that are fields of a record."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in options.items() if name in names}


def check_spec(spec: HandlerSpec) -> None:
    """Validate the options of a handler.

    Raises:
        ArgumentError: A number is out of range, or two options conflict.
    """
    if spec.keep not in ("archive", "delete"):
        raise ArgumentError(f"keep is {spec.keep!r}; use archive, delete")
    for option, value, kind in (
        ("retry", spec.retry, RetryPolicy),
        ("batch", spec.batch, Batch),
        ("unique", spec.unique, Unique),
    ):
        if not isinstance(value, kind | None):
            raise ArgumentError(
                f"{option} of handler {spec.name!r} is {value!r}; use {kind.__name__}(…)"
            )
    _check_numbers(spec)
    _check_order(spec)
    _check_exceptions(spec)
    if spec.mode is Mode.TRANSACTION:
        if not isinstance(spec.route, QueueRoute):
            raise ArgumentError(
                f"handler {spec.name!r} is for a log, but mode='transaction' is for queues; use consumer=, whose "
                "handlers run in the transaction of their batch, or context.transaction()"
            )
        if spec.batch is not None or spec.execution is Execution.PROCESS:
            option = "batch" if spec.batch is not None else "execution='process'"
            raise ArgumentError(
                f"mode='transaction' of handler {spec.name!r} handles one message at a time in this process; "
                f"omit {option}, or the mode"
            )
    if spec.result_type is not None and spec.batch is not None:
        raise ArgumentError(
            f"handler {spec.name!r} is for batches, which does not support keep_result; omit one of them"
        )
    if not isinstance(spec.route, QueueRoute):
        _check_log_options(spec)


def _check_numbers(spec: HandlerSpec) -> None:
    batch, limits = spec.batch or Batch(2), spec.limits
    wholes: list[tuple[str, float | None, float, str]] = [
        ("batch.size", batch.size, 2, "a whole number, 2 or more"),
        ("concurrency", limits.concurrency, 1, "a whole number, 1 or more"),
        ("fleet_concurrency", limits.fleet_concurrency, 1, "a whole number, 1 or more"),
        ("key_concurrency", limits.key_concurrency, 1, "a whole number, 1 or more"),
        ("rate", limits.rate, 1, "a whole number, 1 or more"),
        ("weight", limits.weight, 1, "a whole number, 1 or more"),
    ]
    seconds: list[tuple[str, float | None, float, str]] = [
        ("batch.wait_s", batch.wait_s, 0, "0 or more seconds"),
        ("lease_s", spec.lease_s, 1.001, "more than 1 second"),
        ("rate_s", limits.rate_s, 0.001, "0.001 or more seconds"),
        ("timeout_s", spec.timeout_s, 0.001, "0.001 or more seconds"),
    ]
    for rules, is_whole in ((wholes, True), (seconds, False)):
        for option, number, least, range_text in rules:
            if number is not None and not is_number(number, least, is_whole=is_whole):
                raise ArgumentError(
                    f"{option} of handler {spec.name!r} is {number!r}; use {range_text}"
                )


def _check_order(spec: HandlerSpec) -> None:
    limits = spec.limits
    if limits.when_waiting not in (None, *get_args(WhenWaiting)):
        raise ArgumentError(
            f"when_waiting of handler {spec.name!r} is {limits.when_waiting!r}; use "
            f"{', '.join(get_args(WhenWaiting))}, or None"
        )
    if limits.when_waiting is not None and limits.key_concurrency not in (None, 1):
        raise ArgumentError(
            f"key_concurrency of handler {spec.name!r} is {limits.key_concurrency} with when_waiting, which "
            "orders the messages of a key; use 1, or omit when_waiting"
        )
    if limits.priority_weights is not None and (limits.key_concurrency or limits.when_waiting):
        raise ArgumentError(
            f"handler {spec.name!r} has priority_weights with limits of keys; use one of them"
        )


def _check_exceptions(spec: HandlerSpec) -> None:
    for option, kinds in (("retry_on", spec.retry_on), ("give_up_on", spec.give_up_on)):
        for kind in kinds:
            if not (inspect.isclass(kind) and issubclass(kind, BaseException)):
                raise ArgumentError(
                    f"{option} of handler {spec.name!r} is {kind!r}; use exception classes"
                )


def _check_log_options(spec: HandlerSpec) -> None:
    limits, usual = spec.limits, Limits()
    if spec.result_type is not None:
        raise ArgumentError(
            f"handler {spec.name!r} is for a log, which does not support keep_result; omit it"
        )
    of_queues = ["fleet_concurrency", "key_concurrency", "rate", "rate_s", "when_waiting"]
    of_queues += ["priority_weights"]
    if isinstance(spec.route, ConsumerRoute):
        if spec.batch is not None:
            raise ArgumentError(
                f"handler {spec.name!r} is for a consumer, which handles events one by one; use group= for a batch"
            )
        of_queues += ["concurrency"]
    if spec.unique is not None:
        raise ArgumentError(
            f"handler {spec.name!r} is for a log, which does not support unique; omit it"
        )
    for option in of_queues:
        if getattr(limits, option) != getattr(usual, option):
            raise ArgumentError(
                f"handler {spec.name!r} is for a log, which does not support {option}; omit it"
            )


def places_of(route: Route) -> dict[tuple[str, ...], str]:
    """Return the exclusive sources of a route, with their descriptions."""
    if isinstance(route, QueueRoute):
        # Queue names are case-insensitive.
        return {("queue", route.queue_name.lower()): f"queue {route.queue_name!r}"}
    kind, reader = list(route.fields.items())[-1]
    where = f"{kind} {reader!r} of log {route.log_name!r}"
    if not route.event_types:
        return {(kind, route.log_name, reader): f"events of {where} that no other handler is for"}
    return {
        (kind, route.log_name, reader, each): f"events of type {each!r} of {where}"
        for each in route.event_types
    }


def check_neighbours(spec: HandlerSpec, others: Iterable[HandlerSpec]) -> None:
    """Refuse a handler whose name or source another handler has.

    Raises:
        ArgumentError: It conflicts with another handler.
    """
    places = places_of(spec.route)
    for other in others:
        if other.name == spec.name:
            raise ArgumentError(
                f"{_where(spec)} and {_where(other)} are both named {spec.name!r}; rename one with name="
            )
        if both := places.keys() & places_of(other.route).keys():
            raise ArgumentError(
                f"handlers {other.name!r} and {spec.name!r} are both for {places[min(both)]}; merge them, or "
                "give one another source"
            )
        reader = _reader(spec.route)
        if reader is None or reader != _reader(other.route):
            continue
        if type(spec.route) is not type(other.route):
            raise ArgumentError(
                f"handlers {other.name!r} and {spec.name!r} use a consumer and a group of the same name in one log; "
                "rename one"
            )
        if getattr(spec.route, "dead_letters", None) != getattr(other.route, "dead_letters", None):
            raise ArgumentError(
                f"handlers {other.name!r} and {spec.name!r} of one consumer differ in dead_letters; declare both alike"
            )


def _reader(route: Route) -> tuple[str, ...] | None:
    return None if isinstance(route, QueueRoute) else tuple(route.fields.values())


def _where(spec: HandlerSpec) -> str:
    return f"{spec.function.__module__}.{spec.function.__qualname__}"
