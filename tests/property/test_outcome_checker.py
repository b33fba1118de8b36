"""The checker of test_worker_outcomes.py reports each planted fault in constructed histories."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from property.outcome_checker import Checker, Effect, Evidence, Settled, Start, Waiting
from property.outcome_steps import LATER_S, MAX_ATTEMPTS, TIMEOUT_S, Step

QUEUE = "thread"
NO_COUNTS = {"done": 0, "retry": 0, "released": 0, "dead": 0, "lost": 0}
ERROR = Step("within", end="an error", is_raised=True)
NO_ACCOUNT = ("ValueError", "no such account")


class Story:
    """A history of one message, correct unless its methods are called with options."""

    def __init__(self, *steps, queue=QUEUE):
        self.steps = list(steps)
        self.queue = queue
        self.at = datetime.now(UTC)
        self.evidence = Evidence(sent={queue: [1]})
        self.counts = dict(NO_COUNTS)
        self.by_error_type = {}
        self.starts = self.failed = 0

    def start(self, *, attempt=None, slow_s=0.0):
        """Add a run of the handler, with an effect outside the transaction."""
        self.starts += 1
        begun, self.at = self.at, self.at + timedelta(seconds=0.1 + slow_s)
        self.evidence.starts.append(
            Start(
                *(self.queue, 1, 0, self.starts, self.starts),
                *(attempt or self.failed + 1, None, begun, self.at),
            )
        )
        self.evidence.effects.append(Effect(self.queue, 1, self.starts, False))
        return self

    def effect(self):
        """Add an effect of the committed transaction."""
        self.evidence.effects.append(Effect(self.queue, 1, self.starts, True))
        return self

    def settle(self, result, error=(None, None), reason=None, *, counted=None, attempts=None):
        """Add an outcome in the database."""
        self.at += timedelta(seconds=0.1)
        attempt = self.failed + 1 if attempts is None else attempts
        self.evidence.settled.append(
            Settled(self.queue, 1, self.starts, result, attempt, *error, reason, self.at)
        )
        self.failed += result == "retry"
        return self.count(counted or result, error[0])

    def count(self, result, error_type=None):
        self.counts[result] += 1
        if error_type is not None:
            self.by_error_type[error_type] = self.by_error_type.get(error_type, 0) + 1
        return self

    def line(self, event, error, attempt=None, **fields):
        """Add a log line."""
        name = "attempts" if event == "message dead-lettered" else "attempt"
        given = {"queue": self.queue, "msg_id": 1, name: attempt or self.failed, "error": error}
        self.evidence.lines.append((event, given | fields))
        return self

    def fail(self):
        """Add an attempt that fails as `ERROR` does."""
        text = ": ".join(NO_ACCOUNT)
        return self.start().settle("retry", NO_ACCOUNT).line("handler failed", text)

    def do(self):
        """Add a successful attempt."""
        return self.start().effect().settle("done")

    def wait(self, due_s):
        """Add the message to its queue."""
        self.evidence.waiting.append(Waiting(self.queue, 1, self.starts, due_s))
        return self

    def kinds(self):
        """Return the kinds of violations that the checker reports."""
        self.evidence.counts = {self.queue: self.counts | {"by_error_type": self.by_error_type}}
        steps = [*self.steps, *[Step("within")] * 9]
        checker = Checker(self.evidence, lambda _queue, _number, ordinal: steps[ordinal - 1])
        checker.run()
        return {violation.split(":")[0] for violation in checker.violations}


def dead(*, error=NO_ACCOUNT, reason="too many attempts", attempts=3, logged=True):
    """Return the story of a message that failed for the last time."""
    story = Story(*[ERROR] * MAX_ATTEMPTS).fail().fail().start()
    story.settle("dead", error, reason, attempts=attempts)
    return story.line("message dead-lettered", ": ".join(NO_ACCOUNT), 3) if logged else story


def timed_out(slow_s):
    error = ("timeout", f"the handler exceeded its timeout of {TIMEOUT_S:g} s")
    return (
        Story(Step("within"))
        .start(slow_s=slow_s)
        .settle("retry", error)
        .line("handler failed", ": ".join(error))
        .do()
    )


LOST = Step("within", "terminates its session")
SHUTDOWN = "AdminShutdown: terminating connection"
LATER = Step("within", end="Release, much later")

SOUND = {
    "done": Story().do(),
    "done at the second attempt": Story(ERROR).fail().do(),
    "dead after its attempts": dead(),
    "rejected": Story(Step("within", end="Reject"))
        .start().settle("dead", ("Reject", "unwanted"), "unwanted")
        .line("message dead-lettered", "Reject: unwanted", 1),
    "released": Story(Step("within", end="Release")).start().settle("released").do(),
    "released as its session was lost": Story(LOST).start()
        .settle("released", ("AdminShutdown", None)).line(
            "handler lost its session", SHUTDOWN, 1, outcome="released").do(),
    "slow enough for its timeout": timed_out(TIMEOUT_S),
    "released for much later": Story(LATER).start().settle("released").wait(LATER_S - 1),
}  # fmt: skip

BROKEN = {
    "no effect": {
        "done, and nothing committed": Story().start().settle("done"),
        "done, and the effect is of the attempt before": Story(ERROR).fail().effect().start()
            .settle("done"),
    },
    "effect twice": {
        "of one attempt": Story().do().effect(),
        "of two attempts": Story(ERROR).fail().effect().do(),
    },
    "effect": {
        "of an attempt that failed": Story(ERROR).fail().effect().do(),
        "of a message that is dead": dead().effect(),
    },
    "outcome": {
        "a failure is done": Story(ERROR).start().effect().settle("done"),
        "a rejection is retried": Story(Step(end="Reject")).start()
            .settle("retry", ("Reject", "unwanted")).line("handler failed", "Reject: unwanted").do(),
        "a dead letter without its error": dead(error=(None, None)),
        "a dead letter with another error": dead(error=("ValueError", "other")),
        "a dead letter with another reason": dead(reason="rejected"),
        "a dead letter with other attempts": dead(attempts=2),
        "dead before its last attempt": Story(ERROR).start()
            .settle("dead", NO_ACCOUNT, "too many attempts")
            .line("message dead-lettered", ": ".join(NO_ACCOUNT), 1),
        "a lost session counts": Story(LOST).start().settle("retry", ("AdminShutdown", None))
            .line("handler failed", SHUTDOWN).do(),
        "timed out, and was not slow": timed_out(0),
    },
    "attempts": {
        "a failure was not counted": Story(ERROR).fail().start(attempt=1).effect().settle("done"),
        "a release was counted": Story(Step("within", end="Release")).start().settle("released")
            .start(attempt=2).effect().settle("done"),
    },
    "unsettled": {"a start without an outcome": Story().start().wait(1).count("done")},
    "overlap": {
        "two starts of one claim": Story(ERROR).fail().do(),
    },
    "settled twice": {"done and retried": Story().do().settle("retry", NO_ACCOUNT)},
    "lost": {
        "in no place": Story(ERROR).fail(),
        "done and in its queue": Story().do().wait(1),
        "left in its queue": Story(ERROR).fail().wait(1),
    },
    "delay": {"released for much later, and due at once": Story(LATER).start().settle("released")
        .wait(1)},
    "counts": {
        "a failure counted as done": Story(ERROR).start().settle("retry", NO_ACCOUNT, counted="done")
            .line("handler failed", ": ".join(NO_ACCOUNT)).do(),
        "a claim counted as lost": Story().do().count("lost"),
        "an error of another type": Story(ERROR).fail().do().count("retry", "KeyError"),
    },
    "log": {
        "a failure without a line": Story(ERROR).start().settle("retry", NO_ACCOUNT).do(),
        "a dead letter without a line": dead(logged=False),
        "a line with another error": Story(ERROR).start().settle("retry", NO_ACCOUNT)
            .line("handler failed", "KeyError: 1").do(),
        "a line of nothing": Story().do().line("handler failed", "ValueError", 1),
        "a line of a stale claim": Story(ERROR).start().settle("retry", NO_ACCOUNT)
            .line("handler failed", ": ".join(NO_ACCOUNT), outcome="stale").do(),
    },
}  # fmt: skip
_late, _next = BROKEN["overlap"]["two starts of one claim"].evidence.starts
BROKEN["overlap"]["two starts of one claim"].evidence.starts[1] = _next._replace(fence=_late.fence)
_overlapping = Story(ERROR).fail().do()
_overlapping.evidence.starts[1] = _overlapping.evidence.starts[1]._replace(
    began_at=_overlapping.evidence.starts[0].began_at
)
BROKEN["overlap"]["a start before the last one ended"] = _overlapping


@pytest.mark.parametrize("story", SOUND.values(), ids=SOUND)
def test_the_checker_accepts(story):
    assert story.kinds() == set()


@pytest.mark.parametrize(
    ("kind", "story"),
    [
        pytest.param(kind, story, id=f"{kind}: {name}")
        for kind, stories in BROKEN.items()
        for name, story in stories.items()
    ],
)
def test_the_checker_finds(kind, story):
    assert kind in story.kinds()


def test_the_checker_reports_what_handlers_found_and_what_is_left_over():
    story = Story().do()
    story.evidence = replace(story.evidence, found=["found: 1"], left_over=["left over: 2"])
    assert story.kinds() == {"found", "left over"}
