"""Check a run of handlers by their journal, the database, and the worker's counts and log.

The checker uses the drawn steps and their predicted outcomes (outcome_steps.py), and none of the
worker's code. A start that took as long as its timeout may have timed out instead; everything else
must be as predicted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from property.outcome_steps import (
    KINDS,
    LATER_S,
    LOST_TYPES,
    MAX_ATTEMPTS,
    TIMED_OUT,
    TIMEOUT_S,
    Expected,
    Kind,
    Step,
    expected_in_batch,
    expected_of,
    is_effective,
)

# Event of a log line → the results that it reports; the second replaces repeated lines.
LINES = {
    "retry": ("handler failed", "handler failed repeatedly"),
    "acknowledged": ("handler failed", "handler failed repeatedly"),
    "released": ("handler lost its session", "handlers lost their sessions"),
    "dead": ("message dead-lettered", "messages dead-lettered"),
}
_SLOW = timedelta(seconds=TIMEOUT_S * 0.95)
_CLOCKS = timedelta(seconds=0.05)


class Start(NamedTuple):
    """A start of a handler for a message, as the handler journaled it."""

    queue: str
    msg_id: int
    number: int
    ordinal: int
    fence: int
    attempt: int
    of_all: int | None
    began_at: datetime
    ended_at: datetime | None


class Settled(NamedTuple):
    """Outcome of a claim in the database: `done`, `retry`, `released` or `dead`."""

    queue: str
    msg_id: int
    fence: int
    result: str
    attempts: int | None
    error_type: str | None
    error: str | None
    reason: str | None
    at: datetime


class Waiting(NamedTuple):
    """A message that is in its queue."""

    queue: str
    msg_id: int
    fence: int
    due_s: float


class Effect(NamedTuple):
    """A row that a handler wrote."""

    queue: str
    msg_id: int
    ordinal: int
    is_transaction: bool


class Failure(NamedTuple):
    """A failed attempt that must be in the log."""

    msg_id: int
    attempt: int
    result: str
    error: str


@dataclass
class Evidence:
    """Records of a run.

    Attributes:
        sent: Messages by queue.
        starts: Starts that handlers journaled.
        settled: Outcomes of claims in the database.
        waiting: Messages left in their queues.
        effects: Rows that handlers wrote.
        counts: The worker's counts by queue.
        lines: Event and fields of each line of the failure log.
        found: Faults that handlers found.
        left_over: Sessions and processes that outlived the worker.
    """

    sent: dict[str, list[int]] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    counts: dict[str, dict[str, Any]] = field(default_factory=dict)
    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)


class Checker:
    """Checks one run; `violations` is empty if it is correct."""

    def __init__(self, evidence: Evidence, step_of: Callable[[str, int, int], Step]) -> None:
        """Prepare it.

        Args:
            evidence: Records of the run.
            step_of: Returns the step for a queue, a message's number and the ordinal of a start.
        """
        self._evidence = evidence
        self._step_of = step_of
        self.violations = [*evidence.found, *evidence.left_over]
        self.figures: Counter[str] = Counter()
        self._starts: dict[tuple[str, int], list[Start]] = defaultdict(list)
        self._settled: dict[tuple[str, int], list[Settled]] = defaultdict(list)
        self._waiting = {(each.queue, each.msg_id): each for each in evidence.waiting}
        self._effects: dict[tuple[str, int], list[Effect]] = defaultdict(list)
        self._failures: dict[str, list[Failure]] = defaultdict(list)
        self._error_types: dict[str, Counter[str]] = defaultdict(Counter)
        # Messages acknowledged in batches that may have timed out: the line may be one that is only
        # counted.
        self._may_be_logged: Counter[str] = Counter()
        self._results: dict[str, Counter[str]] = defaultdict(Counter)
        for start in sorted(evidence.starts, key=lambda each: each.ordinal):
            self._starts[start.queue, start.msg_id].append(start)
        for settled in sorted(evidence.settled, key=lambda each: each.at):
            self._settled[settled.queue, settled.msg_id].append(settled)
        for effect in evidence.effects:
            self._effects[effect.queue, effect.msg_id].append(effect)

    def run(self) -> None:
        """Check every message and every queue."""
        for queue, msg_ids in self._evidence.sent.items():
            for msg_id in msg_ids:
                self._judge_message(KINDS[queue], msg_id)
            self._judge_counts(queue, msg_ids)
            self._judge_log(queue)

    def _report(self, kind: str, queue: str, msg_id: int, what: str) -> None:
        steps = [self._step(start) for start in self._starts[queue, msg_id]]
        story = [
            f"{start}\n        {step}"
            for start, step in zip(self._starts[queue, msg_id], steps, strict=True)
        ]
        about = (*story, *self._settled[queue, msg_id], *self._effects[queue, msg_id])
        self.violations.append(
            "\n    ".join([f"{kind}: message {msg_id} of {queue}: {what}", *map(str, about)])
        )

    def _step(self, start: Start) -> Step:
        return self._step_of(start.queue, start.number, start.ordinal)

    def _of_all(self, start: Start) -> Step | None:
        """Return the step of the message that ended the batch for all of its messages."""
        if start.of_all is None:
            return None
        (leader,) = [
            each
            for each in self._starts[start.queue, start.of_all]
            if abs(each.began_at - start.began_at) <= _CLOCKS
        ]
        return self._step(leader)

    # One message

    def _judge_message(self, kind: Kind, msg_id: int) -> None:
        key = kind.name, msg_id
        settled = {each.fence: each for each in self._settled[key]}
        if len(settled) < len(self._settled[key]):
            self._report("settled twice", *key, "a claim has two outcomes")
        last = self._settled[key][-1] if self._settled[key] else None
        if (last is not None and last.result in ("done", "dead")) is (key in self._waiting):
            place = "in no place" if key not in self._waiting else "in two places"
            self._report("lost", *key, place)
        counted = 0
        before: Start | None = None
        starts = {start.fence: start for start in self._starts[key]}
        if len(starts) < len(self._starts[key]):
            self._report("overlap", *key, "a claim was started twice")
        for fence in sorted({*settled, *starts}):
            start, outcome = starts.get(fence), settled.get(fence)
            if start is None:
                self._judge_unstarted(kind, settled[fence])
            elif outcome is None:
                self._report("unsettled", *key, f"start {start.ordinal} has no outcome")
            else:
                self._judge_start(kind, start, outcome, counted, before)
                before = start
            counted += outcome is not None and outcome.result == "retry"
        self._judge_effects(kind, msg_id, starts, settled)
        self._judge_waiting(kind, msg_id, starts, last)

    def _judge_unstarted(self, kind: Kind, outcome: Settled) -> None:
        # The process, or the connection and the row lock, were not available in time.
        is_slow = outcome.error_type == "timeout" and (
            kind.execution == "process" or kind.is_transaction
        )
        if outcome.result != "released" and not is_slow:
            self._report(
                "phantom", kind.name, outcome.msg_id, "a claim that was not started is settled"
            )
        if is_slow:
            self._note(kind, outcome, outcome.attempts or 0, TIMED_OUT)

    def _judge_start(
        self, kind: Kind, start: Start, outcome: Settled, counted: int, before: Start | None
    ) -> None:
        key = kind.name, start.msg_id
        if start.attempt != counted + 1:
            self._report("attempts", *key, f"start {start.ordinal} is attempt {counted + 1}")
        if before is not None:
            ended = max(self._at(before), before.ended_at or self._at(before))
            if start.began_at + _CLOCKS < ended:
                self._report(
                    "overlap", *key, f"start {start.ordinal} began before the last one ended"
                )
        allowed = [self._expected(kind, start)]
        took = max(outcome.at, start.ended_at or outcome.at) - start.began_at
        # The time of the commit is unknown: the settlement has the time of a statement in its
        # transaction.
        is_late_commit = outcome.result == "done" and self._is_logged_timeout(start)
        if took >= _SLOW or is_late_commit:
            allowed += [replace(TIMED_OUT, result="done", is_failed_after=True), TIMED_OUT]
            if is_late_commit:
                del allowed[0]
            elif outcome.result == "done" and kind.is_batch:
                self._may_be_logged[kind.name] += 1
        wrong = [_differs(each, outcome, start.attempt) for each in allowed]
        if all(wrong):
            self._report("outcome", *key, f"start {start.ordinal}: {wrong[0]}")
        else:
            self._note(kind, outcome, start.attempt, allowed[wrong.index("")])

    def _is_logged_timeout(self, start: Start) -> bool:
        """True if a line reports a timeout of the handler after its transaction was committed."""
        return any(
            (fields["queue"], fields.get("msg_id")) == (start.queue, start.msg_id)
            and (fields.get("attempt"), fields.get("outcome")) == (start.attempt, "acknowledged")
            and fields["error"].startswith("timeout:")
            for _, fields in self._evidence.lines
        )

    def _expected(self, kind: Kind, start: Start) -> Expected:
        step, of_all = self._step(start), self._of_all(start)
        if of_all is not None:
            return expected_in_batch(kind, step, of_all)
        return expected_of(kind, step)

    def _at(self, start: Start) -> datetime:
        return next(
            each.at
            for each in self._settled[start.queue, start.msg_id]
            if each.fence == start.fence
        )

    def _note(self, kind: Kind, outcome: Settled, attempt: int, expected: Expected) -> None:
        """Record what the worker must have counted and logged."""
        result = outcome.result
        self.figures[result] += 1
        self.figures[f"{kind.name}: {result}"] += 1
        self._results[kind.name][result] += 1
        if result in ("retry", "dead"):
            self._error_types[kind.name][outcome.error_type or ""] += 1
            text = f"{outcome.error_type}: {outcome.error}" if outcome.error else outcome.error_type
            self._failures[kind.name].append(Failure(outcome.msg_id, attempt, result, text or ""))
        elif expected.is_lost:
            self.figures["lost sessions"] += 1
            self._results[kind.name]["lost sessions"] += 1
            self._failures[kind.name].append(Failure(outcome.msg_id, attempt, result, ""))
        elif expected.is_failed_after:
            (error_type,) = expected.error_types
            text = f"{error_type}: {expected.error}" if expected.error else error_type
            failure = Failure(outcome.msg_id, attempt, "acknowledged", text)
            self._failures[kind.name].append(failure)

    def _judge_effects(
        self, kind: Kind, msg_id: int, starts: dict[int, Start], settled: dict[int, Settled]
    ) -> None:
        wanted: set[tuple[int, bool]] = set()
        for fence, start in starts.items():
            step, of_all = self._step(start), self._of_all(start)
            outcome = settled.get(fence)
            if outcome is not None and outcome.result == "done" and is_effective(step, of_all):
                wanted.add((start.ordinal, False))
                if step.where != "plain":
                    wanted.add((start.ordinal, True))
        found = Counter((e.ordinal, e.is_transaction) for e in self._effects[kind.name, msg_id])
        for effect in sorted(wanted - set(found)):
            self._report("no effect", kind.name, msg_id, f"done without its effect {effect}")
        committed = Counter({each: qty for each, qty in found.items() if each[1]})
        for effect, qty in committed.items():
            if qty > 1 or sum(committed.values()) > 1:
                self._report("effect twice", kind.name, msg_id, f"{effect}")
            if effect not in wanted:
                self._report("effect", kind.name, msg_id, f"{effect} of a start that was not done")

    def _judge_waiting(
        self, kind: Kind, msg_id: int, starts: dict[int, Start], last: Settled | None
    ) -> None:
        waiting = self._waiting.get((kind.name, msg_id))
        if waiting is None:
            return
        self.figures["waiting"] += 1
        start = None if last is None else starts.get(last.fence)
        if start is None or not self._expected(kind, start).is_later:
            self._report("lost", kind.name, msg_id, "left in the queue")
        elif not LATER_S / 2 < waiting.due_s <= LATER_S:
            self._report("delay", kind.name, msg_id, f"due in {waiting.due_s:.0f} s")

    # One handler

    def _judge_counts(self, queue: str, msg_ids: list[int]) -> None:
        counts = dict(self._evidence.counts[queue])
        by_error_type = Counter(counts.pop("by_error_type"))
        results = self._results[queue]
        claims = sum(self._fence(queue, msg_id) for msg_id in msg_ids)
        unstarted = claims - sum(results[each] for each in ("done", "retry", "dead", "released"))
        expected = {each: results[each] for each in ("done", "retry", "dead")}
        expected |= {"released": results["released"] + unstarted, "lost": 0}
        if counts != expected:
            self.violations.append(f"counts: of {queue}: {counts}, and not {expected}")
        of_lost = by_error_type - self._error_types[queue]
        if (
            self._error_types[queue] - by_error_type
            or sum(of_lost.values()) != results["lost sessions"]
            or not set(of_lost) <= LOST_TYPES
        ):
            self.violations.append(
                f"counts: errors of {queue}: {by_error_type}, and not {self._error_types[queue]} and "
                f"{results['lost sessions']} lost sessions"
            )

    def _fence(self, queue: str, msg_id: int) -> int:
        waiting = self._waiting.get((queue, msg_id))
        if waiting is not None:
            return waiting.fence
        return max((each.fence for each in self._settled[queue, msg_id]), default=0)

    def _judge_log(self, queue: str) -> None:
        failures = Counter(self._failures[queue])
        logged: Counter[str] = Counter()
        for event, fields in self._evidence.lines:
            if fields["queue"] != queue:
                continue
            one = next((one for one, many in LINES.values() if event in (one, many)), event)
            logged[one] += fields.get("count", 1)
            if "count" not in fields and not _take(failures, event, fields):
                self.violations.append(f"log: of {queue}: no such failure: {event} {fields}")
        expected: Counter[str] = Counter()
        for failure in self._failures[queue]:
            expected[LINES[failure.result][0]] += 1
        if 0 < logged["handler failed"] - expected["handler failed"] <= self._may_be_logged[queue]:
            logged["handler failed"] = expected["handler failed"]
        if logged != expected:
            self.violations.append(f"log: of {queue}: {logged}, and not {expected}")


def _differs(expected: Expected, outcome: Settled, attempt: int) -> str:
    """Return how an outcome differs from what was expected; empty if it does not."""
    result, reason = expected.result, expected.reason
    if result == "retry" and attempt == MAX_ATTEMPTS:
        result, reason = "dead", "too many attempts"
    if outcome.result != result:
        return f"it is {outcome.result}, and not {result}"
    if result not in ("retry", "dead"):
        return ""
    if outcome.error_type not in expected.error_types:
        return f"its error is {outcome.error_type}, and not {sorted(expected.error_types)}"
    if expected.error is not None and outcome.error != expected.error:
        return f"its error is {outcome.error!r}, and not {expected.error!r}"
    if outcome.reason != reason:
        return f"its reason is {outcome.reason!r}, and not {reason!r}"
    if outcome.attempts != attempt:
        return f"it has {outcome.attempts} attempts, and not {attempt}"
    return ""


def _take(failures: Counter[Failure], event: str, fields: dict[str, Any]) -> bool:
    """Remove the failure that a line reports; return False if there is none."""
    attempt = fields.get("attempts", fields.get("attempt"))
    outcome = fields.get("outcome", "dead" if "attempts" in fields else "retry")
    for failure, qty in failures.items():
        if (
            qty > 0
            and (failure.msg_id, failure.attempt) == (fields["msg_id"], attempt)
            and (failure.result, LINES[failure.result][0]) == (outcome, event)
            and fields["error"].startswith(failure.error.split("\n")[0].strip())
        ):
            failures[failure] -= 1
            return True
    return False
