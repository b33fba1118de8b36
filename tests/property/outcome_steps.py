"""Draw the steps of handlers and predict their outcomes: the model of test_worker_outcomes.py.

A message's payload is a seed and a number. These, the kind of handler and the ordinal of the start
determine the step, in the test as well as in the handler's process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import psycopg

from pgsluice.errors import LeaseLostError
from pgsluice.worker import Done, Reject, Release, Retry

MAX_ATTEMPTS = 3
TIMEOUT_S = 2.0
LATER_S = 3_600


@dataclass(frozen=True)
class Kind:
    """A kind of handler; each has a queue of the same name.

    Attributes:
        name: Its name.
        execution: `loop`, `thread` or `process`.
        is_transaction: True if its mode is `transaction`.
        is_batch: True if it handles several messages at once.
        messages: How many messages are sent to it.
    """

    name: str
    execution: str
    is_transaction: bool = False
    is_batch: bool = False
    messages: int = 20

    @property
    def has_block(self) -> bool:
        """True if its handlers can use `context.transaction()`."""
        return self.execution != "process"


KINDS = {
    kind.name: kind
    for kind in (
        Kind("loop", "loop"),
        Kind("loop_transaction", "loop", is_transaction=True),
        Kind("thread", "thread"),
        Kind("thread_transaction", "thread", is_transaction=True),
        Kind("process", "process", messages=12),
        Kind("loop_batch", "loop", is_batch=True),
        Kind("thread_batch", "thread", is_batch=True),
        Kind("process_batch", "process", is_batch=True, messages=12),
    )
}


@dataclass(frozen=True)
class Expected:
    """Required outcome of a start of a handler.

    Attributes:
        result: `done`, `retry`, `dead` or `released`.
        error_types: The error types that may be stored and logged; empty: it is no failure.
        error: The stored text, or None for any text.
        reason: The reason of the dead letter, if it is rejected.
        is_later: True if the message is due only after the test.
        is_lost: True if it is released because its session was lost.
        is_failed_after: True if it fails after its transaction was committed, which is only logged.
    """

    result: str
    error_types: frozenset[str] = frozenset()
    error: str | None = None
    reason: str | None = None
    is_later: bool = False
    is_lost: bool = False
    is_failed_after: bool = False


class GiveUpError(Exception):
    """Exceptions in the handlers' `give_up_on`."""


class UnprintableError(Exception):
    """An exception whose `str()` fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def done() -> Expected:
    return Expected("done")


def failed(error_type: str, error: str | None = None) -> Expected:
    return Expected("retry", frozenset({error_type}), error)


def rejected(error_type: str, error: str, reason: str) -> Expected:
    return Expected("dead", frozenset({error_type}), error, reason)


@dataclass(frozen=True)
class End:
    """End of a handler.

    Attributes:
        make: Creates the returned or raised object.
        expected: The predicted outcome.
        is_raisable: False if it can only be returned.
        is_exception: False if it cannot be caught by `except Exception`.
        is_for_all: False if it has another meaning when returned for a whole batch.
    """

    make: Callable[[], Any]
    expected: Expected
    is_raisable: bool = True
    is_exception: bool = True
    is_for_all: bool = True


OF_ANOTHER = "an error of another connection"
SUCCESSES = {
    "nothing": End(lambda: None, done(), is_raisable=False),
    "a value": End(lambda: 42, done(), is_raisable=False),
    "Done": End(Done, done()),
    "the class Done": End(lambda: Done, done()),
    "a group of Done": End(lambda: ExceptionGroup("tasks", [Done(), Done()]), done()),
}
OTHERS = {
    "Reject": End(lambda: Reject("unwanted"), rejected("Reject", "unwanted", "unwanted")),
    "the class Reject": End(lambda: Reject, rejected("Reject", "rejected", "rejected")),
    "Reject of an error": End(
        lambda: Reject(ValueError("unknown")),
        rejected("Reject", "ValueError: unknown", "ValueError: unknown"),
    ),
    "a group of Reject": End(
        lambda: ExceptionGroup("tasks", [ExceptionGroup("inner", [Reject("both")])]),
        rejected("Reject", "both", "both"),
    ),
    "Retry": End(lambda: Retry(0.05, "not yet"), failed("Retry", "not yet")),
    "Retry by the policy": End(Retry, failed("Retry")),
    "Release": End(lambda: Release(0.05), Expected("released")),
    "an error": End(lambda: ValueError("no such account"), failed("ValueError", "no such account")),
    "an error to give up on": End(
        lambda: GiveUpError("hopeless"),
        rejected("GiveUpError", "hopeless", "gave up on GiveUpError"),
    ),
    "a mixed group": End(
        lambda: ExceptionGroup("tasks", [Reject("one"), ValueError("other")]),
        failed("ExceptionGroup", "tasks (2 sub-exceptions)"),
    ),
    "a group with a Done": End(
        lambda: ExceptionGroup("tasks", [Done(), ValueError("other")]),
        failed("ExceptionGroup", "tasks (2 sub-exceptions)"),
    ),
    "SystemExit": End(lambda: SystemExit(3), failed("SystemExit", "3"), is_exception=False),
    "KeyboardInterrupt": End(
        KeyboardInterrupt, failed("KeyboardInterrupt"), is_exception=False
    ),
    "CancelledError": End(
        asyncio.CancelledError, failed("CancelledError"), is_exception=False
    ),
    "a TimeoutError": End(lambda: TimeoutError("upstream"), failed("TimeoutError", "upstream")),
    "a LeaseLostError": End(lambda: LeaseLostError("of another"), failed("LeaseLostError", "of another")),
    OF_ANOTHER: End(
        lambda: psycopg.OperationalError("of another"), failed("OperationalError", "of another")
    ),
    "an error without text": End(
        UnprintableError, failed("UnprintableError", "(str() of the exception failed)")
    ),
    "an error with a NUL": End(lambda: ValueError("a\x00b"), failed("ValueError", "a\\x00b")),
    "an error with half a character": End(
        lambda: ValueError("a\udc80b"), failed("ValueError", "a\\udc80b")
    ),
    "a list with an error": End(
        lambda: [1, ValueError("second")],
        failed("ValueError", "second"),
        is_raisable=False,
        is_for_all=False,
    ),
    "a dictionary with an error": End(
        lambda: {"a": ValueError("of a")},
        failed("ValueError", "of a"),
        is_raisable=False,
        is_for_all=False,
    ),
    "a generator": End(
        lambda: (Done() for _ in range(1)), failed("HandlerError"), is_raisable=False
    ),
    "a class of errors": End(lambda: KeyError, failed("HandlerError"), is_raisable=False),
    "Retry, much later": End(
        lambda: Retry(LATER_S, "tomorrow"),
        replace(failed("Retry", "tomorrow"), is_later=True),
    ),
    "Release, much later": End(lambda: Release(LATER_S), Expected("released", is_later=True)),
}  # fmt: skip
# Only in batches.
FOR_ALL = {"too few": End(list, failed("HandlerError"), is_raisable=False)}
ENDS = {**SUCCESSES, **OTHERS, **FOR_ALL}

TIMED_OUT = failed("timeout", f"the handler exceeded its timeout of {TIMEOUT_S:g} s")
DIED = failed("process died")
MISUSED = failed("HandlerError")
LOST_TYPES = frozenset({"AdminShutdown", "OperationalError", "ConnectionFailedError"})
LOST = Expected("released", LOST_TYPES, is_lost=True)
# Changes of the transaction that a handler hides → the outcome if the transaction is to be
# committed.
BREAKAGES = {
    "swallows an error": Expected("retry", frozenset({"HandlerError", "InFailedSqlTransaction"})),
    "swallows the loss of its session": LOST,
    "closes its connection": Expected("retry", LOST_TYPES | {"HandlerError"}),
    "rolls back": Expected("retry", frozenset({"HandlerError", "NoActiveSqlTransaction"})),
    "rolls back and goes on": Expected(
        "retry", frozenset({"HandlerError", "InvalidSavepointSpecification"})
    ),
}
UNSEEN = ("swallows the loss of its session", "closes its connection")
HANGS = ("hangs", "hangs in the server", "hangs in the server and swallows that")
DEATHS = {"exits": DIED, "is killed": DIED}
HARMLESS = (
    *("beats", "forks", "starts a program", "swallows an error elsewhere"),
    "locks other messages",
)
IN_BLOCK = ("changes its session", "swallows an error in a savepoint", "terminates its session")


@dataclass(frozen=True)
class Step:
    """Steps of one start of a handler for one message.

    Attributes:
        where: Where it ends: `plain` without `context.transaction()`, `within` or `after` it.
        trouble: What it does before it ends.
        is_late: True if the trouble follows the block.
        end: How it ends, a key of `ENDS`.
        is_raised: True if the end is raised, False if it is returned.
        for_all: In batches: `before` or `after` if the end applies to all messages, else None.
        salt: Seed of further random choices.
    """

    where: str = "plain"
    trouble: str = "none"
    is_late: bool = False
    end: str = "nothing"
    is_raised: bool = False
    for_all: str | None = None
    salt: int = 0


def expected_of(kind: Kind, step: Step) -> Expected:
    """Predict the outcome of a step that is not slow and does not end a batch for all."""
    nominal = ENDS[step.end].expected
    if step.trouble in HANGS:
        return TIMED_OUT
    if step.trouble in DEATHS:
        return DEATHS[step.trouble]
    if step.trouble in ("uses a second block", "asks for a transaction"):
        return MISUSED
    if step.trouble == "terminates its session":
        return LOST
    is_done = nominal.result == "done"
    if step.trouble in BREAKAGES:
        is_raised_around = step.is_raised and (kind.is_transaction or step.where == "within")
        if (
            step.trouble == "swallows the loss of its session"
            and is_raised_around
            and step.end == OF_ANOTHER
        ):
            return LOST  # the error's origin is unknown, and the session was lost
        # An exception within the block prevents the commit. The end of a block nested in the
        # transaction
        # of the mode does not detect a lost connection.
        is_unseen = kind.is_transaction and step.trouble in UNSEEN
        is_saved = is_unseen or step.is_late or (step.is_raised and step.where == "within")
        return nominal if is_saved and not is_done else BREAKAGES[step.trouble]
    if kind.is_batch and step.where != "plain" and not step.is_raised:
        return _done_in_block(nominal)
    return nominal


def expected_in_batch(kind: Kind, step: Step, of_all: Step) -> Expected:
    """Predict the outcome of a message in a batch that ends for all of its messages."""
    nominal = expected_of(kind, replace(of_all, where="plain"))
    if step.where != "plain" and of_all.for_all == "after":
        return _done_in_block(nominal)
    return nominal


def _done_in_block(nominal: Expected) -> Expected:
    is_failed = bool(nominal.error_types)
    return replace(done(), error_types=nominal.error_types, is_failed_after=is_failed)


def is_effective(step: Step, of_all: Step | None) -> bool:
    """True if a step writes its effect before it ends."""
    return of_all is None or of_all.for_all == "after"


@lru_cache(maxsize=4096)
def step_of(seed: int, kind_name: str, number: int, ordinal: int) -> Step:
    """Return the step of a message's start, numbered from 1; starts after its script succeed."""
    chance = random.Random(f"{seed}/{kind_name}/{number}")
    kind = KINDS[kind_name]
    length = chance.choice([0, 1, 1, 2, 2, 3, 4, 5])
    rare = set()  # slow steps occur at most once per message
    steps = []
    for _ in range(length):
        step = _draw(chance, kind)
        if (cost := _cost(step)) is not None:
            if cost in rare:
                step = replace(step, trouble="none", is_late=False, end="an error", for_all=None)
            rare.add(cost)
        steps.append(step)
    if ordinal <= length:
        return steps[ordinal - 1]
    where = chance.choice(["within", "after", "plain"]) if kind.has_block else "plain"
    return Step("within" if kind.is_batch and where == "after" else where)


def _cost(step: Step) -> str | None:
    if step.trouble in (*HANGS, "shrugs off its timeout"):
        return "hangs"
    if step.trouble in ("terminates its session", "swallows the loss of its session"):
        return "lost"
    return "dies" if step.trouble in DEATHS else None


def _draw(chance: random.Random, kind: Kind) -> Step:
    salt = chance.randrange(1 << 30)
    if kind.is_batch and chance.random() < 0.15:
        return _draw_for_all(chance, kind, salt)
    where = "plain"
    if kind.has_block and chance.random() < 0.7:
        where = "within" if kind.is_batch else chance.choice(["within", "after"])
    trouble = "none" if chance.random() < 0.4 else chance.choice(_troubles(kind, where))
    is_late = where == "after" and trouble in BREAKAGES and chance.random() < 0.5
    end = chance.choice(list(SUCCESSES if chance.random() < 0.45 else OTHERS))
    if trouble == "shrugs off its timeout":
        end = chance.choice(["nothing", "Done", "an error"])
    is_raised = ENDS[end].is_raisable and chance.random() < 0.5
    if kind.is_batch:  # an exception outside a block ends all; see _draw_for_all
        is_raised = is_raised and where == "within" and ENDS[end].is_exception
    return Step(where, trouble, is_late, end, is_raised, salt=salt)


def _draw_for_all(chance: random.Random, kind: Kind, salt: int) -> Step:
    where = chance.choice(["plain", "within"]) if kind.has_block else "plain"
    deaths = list(DEATHS) if kind.execution == "process" else []
    trouble = "none" if chance.random() < 0.7 else chance.choice(["hangs", *deaths])
    ends = [name for name, end in ENDS.items() if end.is_for_all]
    end = chance.choice(ends)
    is_raised = ENDS[end].is_raisable and chance.random() < 0.5
    for_all = chance.choice(["before", "after"])
    return Step(where, trouble, False, end, is_raised, for_all, salt)


def _troubles(kind: Kind, where: str) -> list[str]:
    troubles = list(HARMLESS)
    if not kind.is_transaction:
        troubles.append("locks its message")
    if where != "plain":
        troubles += [*IN_BLOCK, *BREAKAGES]
        if not kind.is_batch:
            troubles.append("hangs in the server")
            if kind.execution == "thread":
                troubles.append("hangs in the server and swallows that")
            if not kind.is_transaction and where == "after":
                troubles.append("uses a second block")
    if not kind.is_batch:
        troubles.append("hangs")
        if kind.execution == "loop":
            troubles.append("shrugs off its timeout")
        if kind.execution == "process":
            troubles += [*DEATHS, "asks for a transaction"]
    return troubles
