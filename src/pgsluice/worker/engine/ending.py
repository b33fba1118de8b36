"""What a call of a handler came to, from what it returned or raised: always one of the four answers. No I/O."""

from __future__ import annotations

import inspect
import traceback
import zlib
from collections.abc import AsyncIterable, Iterable, ValuesView
from dataclasses import dataclass, replace
from typing import Any

from pgsluice.errors import HandlerError, PayloadError
from pgsluice.worker.engine.delivery import Failure
from pgsluice.worker.handlers.answer import Answer, Done, Reject, Release, RetryAfter
from pgsluice.worker.handlers.handler import HandlerSpec

# As much of what an exception says as helps: it can quote a whole payload.
_MESSAGE_CHARS = 2_000
_TRACE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Ending:
    """What a call of a handler came to.

    Attributes:
        answer: One of the four.
        failure: Why, for `RetryAfter` and `Reject`.
        settled: `done` when the handler's own transaction acknowledged it, `lost` when its claim was found to be over:
            then there is nothing left to say to the source. Else None.
    """

    answer: Answer
    failure: Failure | None = None
    settled: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether the handler raised or returned an exception that is no outcome."""
        return self.failure is not None and self.failure.trace is not None


DONE = Ending(Done())
ACKNOWLEDGED = Ending(Done(), settled="done")
# The place where its handler runs could not be had.
NOT_NOW = Ending(Release(5.0))
LOST = Ending(Release(), settled="lost")


def ending_of_result(spec: HandlerSpec, result: Any) -> Ending:
    """Tell what a handler of one message returned: an outcome, an exception, which means what raising it does, or
    anything else, which means done.
    """
    if result is None:
        return DONE
    if isinstance(result, type) and issubclass(result, BaseException):
        if not issubclass(result, Answer) or result is Answer:
            return failed(HandlerError(f"the handler returned the class {result.__name__}"))
        result = result()  # `return Reject` and `raise Reject` mean the same
    if isinstance(result, BaseException):
        return ending_of_error(spec, result)
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        return failed(
            HandlerError(
                f"the handler returned a {type(result).__name__}, which nothing runs; nothing was done"
            )
        )
    held = result.values() if isinstance(result, dict) else result
    if isinstance(held, list | tuple | set | frozenset | ValuesView):
        for each in held:
            if isinstance(each, BaseException):
                return ending_of_error(spec, each)
    return DONE


def endings_of_results(spec: HandlerSpec, result: Any, qty: int) -> list[Ending]:
    """Tell what a handler of a batch returned: one outcome for all, or a list with one for each, in their order."""
    if isinstance(result, Ending):
        return [result] * qty
    if isinstance(result, list | tuple):
        if len(result) == qty:
            return [
                each if isinstance(each, Ending) else ending_of_result(spec, each)
                for each in result
            ]
        ending = failed(
            HandlerError(f"the handler returned {len(result)} outcomes for {qty} messages")
        )
        return [ending] * qty
    if isinstance(result, Iterable | AsyncIterable) and not isinstance(result, str | bytes | type):
        ending = failed(
            HandlerError(
                f"the handler returned a {type(result).__name__} for {qty} messages; return one outcome for all, or a "
                "list with one for each in their order"
            )
        )
        return [ending] * qty
    return [ending_of_result(spec, result)] * qty


def ending_of_error(spec: HandlerSpec, error: BaseException) -> Ending:
    """What was raised: an answer, or a failure, which is tried again or given up as the handler's options say."""
    if isinstance(error, BaseExceptionGroup):
        error = _only_answer(error) or error
    if isinstance(error, Answer):
        return _asked(error)
    again = not isinstance(error, spec.give_up_on) and (
        not spec.retry_on or isinstance(error, spec.retry_on)
    )
    return failed(error) if again else given_up(error)


def is_done(error: BaseException) -> bool:
    """Return whether what a handler raised means that its message is handled."""
    if isinstance(error, BaseExceptionGroup):
        return isinstance(_only_answer(error), Done)
    return isinstance(error, Done)


def ending_of_payload(error: PayloadError) -> Ending:
    """A payload that is not of the handler's type: nothing will make it fit."""
    return Ending(Reject("payload"), Failure("PayloadError", clipped(str(error), _MESSAGE_CHARS)))


def ending_of_timeout(spec: HandlerSpec) -> Ending:
    """It ran longer than it may. To `retry_on` and `give_up_on` it is a TimeoutError."""
    ending = ending_of_error(spec, TimeoutError())
    failure = Failure("timeout", f"the handler ran longer than {spec.timeout_s:g} s")
    return Ending(ending.answer, failure)


def postponed(spec: HandlerSpec, ending: Ending, attempt: int) -> Ending:
    """Return an ending whose retry is delayed by a lease at least."""
    if not isinstance(ending.answer, RetryAfter):
        return ending
    delay_s = ending.answer.delay_s
    if delay_s is None:
        delay_s = 0.0 if spec.retry is None else spec.retry.delay_s(attempt)
    answer = RetryAfter(max(delay_s, spec.lease_s), ending.answer.reason)
    return replace(ending, answer=answer)


def failed(error: BaseException) -> Ending:
    """To be tried again."""
    return Ending(RetryAfter(), failure_of(error))


def given_up(error: BaseException) -> Ending:
    """Never to be tried again."""
    return Ending(Reject(f"gave up on {type(error).__name__}"), failure_of(error))


def failure_of(error: BaseException) -> Failure:
    """An exception as it is kept with the message: bounded, and such that PostgreSQL can store it."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the user's own __str__, which must not keep the message from its end
        message = "(its text cannot be made)"
    trace = "".join(traceback.format_exception(error))
    return Failure(
        type(error).__name__,
        clipped(message, _MESSAGE_CHARS),
        clipped(trace, -_TRACE_CHARS),
        _place_of(error),
    )


def _place_of(error: BaseException) -> int:
    """Return a number that is the same in every process for the same lines of code."""
    trace, lines = error.__traceback__, set()
    while trace is not None:
        lines.add(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return zlib.crc32("\n".join(sorted(lines)).encode("utf-8", "backslashreplace"))


def clipped(text: str, chars: int) -> str:
    """The first so many characters, or with a negative number the last, as PostgreSQL can store them."""
    text = text[:chars] if chars >= 0 else text[chars:]
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _only_answer(group: BaseExceptionGroup[BaseException]) -> Answer | None:
    """Return the first exception of a group in which all are outcomes of one kind, as when a task was rejected."""
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
    return first if isinstance(first, Answer) and is_one_kind else None


def _asked(answer: Answer) -> Ending:
    if isinstance(answer, RetryAfter | Reject):
        name = type(answer).__name__
        return Ending(answer, Failure(name, clipped(answer.reason or "", _MESSAGE_CHARS)))
    if isinstance(answer, Done | Release):
        return Ending(answer)
    return failed(HandlerError(f"{type(answer).__name__} is no answer; use one of the four"))
