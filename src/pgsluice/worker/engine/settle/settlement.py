"""Turn a handler's result or exception into one of the four outcomes of its message. No I/O."""

from __future__ import annotations

import inspect
import traceback
import zlib
from collections.abc import AsyncIterable, Iterable, ValuesView
from typing import Any

from pgsluice.client.json_values import json_text
from pgsluice.errors import HandlerError, PayloadError
from pgsluice.outcome import Done, Outcome, Reject, Release, Retry
from pgsluice.worker.engine.delivery import DONE, Failure, Settlement
from pgsluice.worker.handlers.handler import HandlerSpec

# Limits on stored error texts: an exception can quote a whole payload.
_MESSAGE_CHARS = 2_000
_TRACE_CHARS = 20_000
# Returned as text they would mean done, like any other value.
_OUTCOME_NAMES = ("retry", "release", "reject")


def settlement_of_result(spec: HandlerSpec, result: Any) -> Settlement:
    """Return the settlement for a single-message handler's return value: an outcome, an exception, which is treated as
    if raised, or anything else, which means done.
    """
    if result is None:
        return DONE if spec.result_type is None else _returned(spec, None)
    if isinstance(result, type) and issubclass(result, BaseException):
        if not issubclass(result, Outcome) or result is Outcome:
            return failed(HandlerError(f"the handler returned the class {result.__name__}"))
        result = result()  # `return Reject` is the same as `raise Reject`
    if isinstance(result, BaseException):
        return settlement_of_error(spec, result)
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        return failed(
            HandlerError(
                f"the handler returned a {type(result).__name__}, which the worker does not run; make it an `async def`"
            )
        )
    if isinstance(result, str) and result.lower() in _OUTCOME_NAMES:
        name = result.capitalize()
        return failed(HandlerError(f"the handler returned {result!r}; return {name}()"))
    held = result.values() if isinstance(result, dict) else result
    if isinstance(held, list | tuple | set | frozenset | ValuesView):
        for each in held:
            if isinstance(each, BaseException):
                return settlement_of_error(spec, each)
    return DONE if spec.result_type is None else _returned(spec, result)


def _returned(spec: HandlerSpec, result: Any) -> Settlement:
    """Return the settlement of a done message with its result; one that is not of its type fails the attempt."""
    assert spec.result_type is not None  # noqa: S101 - its handler keeps results
    try:
        value = None if result is None else spec.result_type.encode(result, "result")
        return Settlement(Done(), returned=json_text(value, "result"))
    except Exception as error:  # noqa: BLE001 - also from the user's types; a failure of this message
        return settlement_of_error(spec, error)


def settlements_of_results(spec: HandlerSpec, result: Any, qty: int) -> list[Settlement]:
    """Return settlements for a batch handler's return value: one outcome for all, or a list with one per message."""
    if isinstance(result, Settlement):
        return [result] * qty
    if isinstance(result, list | tuple):
        if len(result) == qty:
            return [
                each if isinstance(each, Settlement) else settlement_of_result(spec, each)
                for each in result
            ]
        settlement = failed(
            HandlerError(f"the handler returned {len(result)} outcomes for {qty} messages")
        )
        return [settlement] * qty
    if isinstance(result, Iterable | AsyncIterable) and not isinstance(result, str | bytes | type):
        settlement = failed(
            HandlerError(
                f"the handler returned a {type(result).__name__} for {qty} messages; return one outcome for all, or a "
                "list with one per message in order"
            )
        )
        return [settlement] * qty
    return [settlement_of_result(spec, result)] * qty


def settlement_of_error(spec: HandlerSpec, error: BaseException) -> Settlement:
    """Return the settlement for an exception: an outcome, or a failure retried or rejected by the handler's options."""
    if isinstance(error, BaseExceptionGroup):
        error = _only_outcome(error) or error
    if isinstance(error, Outcome):
        if spec.result_type is not None and isinstance(error, Done):
            return _returned(spec, None)
        return _requested(error)
    again = not isinstance(error, spec.give_up_on) and (
        not spec.retry_on or isinstance(error, spec.retry_on)
    )
    if again:
        return failed(error)
    return Settlement(Reject(f"gave up on {type(error).__name__}"), failure_of(error))


def is_done(error: BaseException) -> bool:
    """True if the exception is `Done`."""
    if isinstance(error, BaseExceptionGroup):
        return isinstance(_only_outcome(error), Done)
    return isinstance(error, Done)


def decoded(spec: HandlerSpec, payload: Any) -> Any:
    """Return a payload as the handler's type, or a Settlement: a payload of the wrong type is rejected for good."""
    try:
        return spec.decode(payload)
    except PayloadError as error:
        failure = Failure("PayloadError", clipped(str(error), _MESSAGE_CHARS))
        return Settlement(Reject("payload"), failure)
    except Exception as error:  # noqa: BLE001 - from the user's module; a failure of this message
        return settlement_of_error(spec, error)


def settlement_of_timeout(spec: HandlerSpec) -> Settlement:
    """Return the settlement for a timeout, a TimeoutError for `retry_on` and `give_up_on`."""
    settlement = settlement_of_error(spec, TimeoutError())
    failure = Failure("timeout", f"the handler exceeded its timeout of {spec.timeout_s:g} s")
    return Settlement(settlement.outcome, failure)


def failed(error: BaseException) -> Settlement:
    """Return the settlement for a failure to be retried."""
    return Settlement(Retry(), failure_of(error))


def failure_of(error: BaseException) -> Failure:
    """Convert an exception for storage: bounded, and valid text for PostgreSQL."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the user's __str__; the message must still be settled
        message = "(str() of the exception failed)"
    trace = "".join(traceback.format_exception(error))
    return Failure(
        type(error).__name__,
        clipped(message, _MESSAGE_CHARS),
        clipped(trace, -_TRACE_CHARS),
        _place_of(error),
    )


def _place_of(error: BaseException) -> int:
    """Return a hash of the lines of code in a traceback, equal in every process."""
    trace, lines = error.__traceback__, set()
    while trace is not None:
        lines.add(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return zlib.crc32("\n".join(sorted(lines)).encode("utf-8", "backslashreplace"))


def clipped(text: str, chars: int) -> str:
    """Return the first `chars` characters, or the last if negative, as text that PostgreSQL can store."""
    text = text[:chars] if chars >= 0 else text[chars:]
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _only_outcome(group: BaseExceptionGroup[BaseException]) -> Outcome | None:
    """Return the first exception of a group whose exceptions are all outcomes of one class, as from a TaskGroup."""
    leaves: list[BaseException] = []
    groups: list[BaseExceptionGroup[BaseException]] = [group]
    while groups:
        for each in groups.pop().exceptions:
            if isinstance(each, BaseExceptionGroup):
                groups.append(each)
            else:
                leaves.append(each)
    first = leaves[0]
    is_one_kind = all(type(each) is type(first) for each in leaves)
    return first if isinstance(first, Outcome) and is_one_kind else None


def _requested(outcome: Outcome) -> Settlement:
    if isinstance(outcome, Retry | Reject):
        name = type(outcome).__name__
        return Settlement(outcome, Failure(name, clipped(outcome.reason or "", _MESSAGE_CHARS)))
    if isinstance(outcome, Done | Release):
        return Settlement(outcome)
    name = type(outcome).__name__
    return failed(HandlerError(f"invalid outcome {name}; return Done, Retry, Release or Reject"))
