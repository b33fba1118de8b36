"""The checker reports each kind of violation in constructed histories, and accepts correct ones."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.checker import check
from support.history import NEVER, Log, Operation, operations

S = 1_000_000
LEASE_S = 10
BACKOFF_S = 2


class Story:
    """A history of one consumer with an operation per second, and the final tables.

    The server's clock is the machine's. An operation takes half a second.
    """

    def __init__(self):
        self.history = []
        self.effects = []
        self.dead = []
        self.now_s = 100.0
        self._settlements = itertools.count(1)

    def wait(self, s):
        self.now_s += s
        return self

    def _add(self, name, asked, outcome, answer=None):
        ended = NEVER if outcome == "info" else self.now_s + 0.5
        self.history.append(Operation("c", name, asked, self.now_s, ended, outcome, answer))
        self.now_s += 1
        return self

    def send(self, *values, outcome="ok"):
        return self._add("send", {"values": list(values)}, outcome)

    def crash(self):
        return self._add("crash", None, "ok")

    def claim(self, claim_id, *events, outcome="ok", synchronous=True, qty=10, begun_s=0):
        """Events are (ev_id, attempt, deliveries); event 1 is v1."""
        at = int(self.now_s * S)
        asked = {"qty": qty, "lease_us": LEASE_S * S, "synchronous": synchronous}
        answer = {
            "claim": claim_id,
            "asked_at": at,
            "given_at": at,
            "lease_until": at + LEASE_S * S + begun_s * S,
            "events": [[e, f"v{e}", attempt, deliveries] for e, attempt, deliveries in events],
        }
        return self._add("claim", asked, outcome, answer if outcome == "ok" else None)

    def settle(self, claim_id, outcome, *ids, answered="ok", stored=None, delay_s=None, code=None):
        settlement = f"s{next(self._settlements)}"
        delay_us = None if delay_s is None else delay_s * S
        part = {"outcome": outcome, "ev_ids": list(ids), "delay_us": delay_us}
        asked = {"settlement": settlement, "claim": claim_id, "parts": [part]}
        if outcome == "accept" and (answered == "ok" if stored is None else stored):
            self.effects += [[settlement, claim_id, ev_id, f"v{ev_id}"] for ev_id in ids]
        answer = {"at": int(self.now_s * S)} | ({"code": code} if code else {})
        return self._add("settle", asked, answered, answer)

    def renew(self, claim_id, answered="ok", code=None):
        at = int(self.now_s * S)
        answer = {"at": at, "code": code} if code else {"at": at, "until": at + LEASE_S * S}
        return self._add("renew", {"claim": claim_id}, answered, answer)

    def dead_letter(self, ev_id, claim_id, reason, attempts, deliveries, value=None, error="s1"):
        self.dead.append(
            {
                "ev_id": ev_id,
                "value": value or f"v{ev_id}",
                "claim": claim_id,
                "attempts": attempts,
                "deliveries": deliveries,
                "reason": reason,
                "error": error,
            }
        )
        return self

    def extra_effect(self, settlement, claim_id, ev_id, value=None):
        self.effects.append([settlement, claim_id, ev_id, value or f"v{ev_id}"])
        return self

    def without_effects(self):
        self.effects.clear()
        return self

    @property
    def snapshot(self):
        return {
            "effects": self.effects,
            "dead": self.dead,
            "max_attempts": 3,
            "max_deliveries": 4,
            "backoff_us": BACKOFF_S * S,
        }

    def kinds(self):
        found = check(self.history, self.snapshot).violations
        return sorted({line.partition(":")[0] for line in found})


def one(*, synchronous=True):
    """Return the story of an event that was sent and claimed."""
    return Story().send("v1").claim(1, (1, 1, 1), synchronous=synchronous)


def expired():
    return one().wait(LEASE_S)


SOUND = {
    "accepted": one().settle(1, "accept", 1),
    "accepted in parts": Story().send("v1", "v2").claim(1, (1, 1, 1), (2, 1, 1))
        .settle(1, "accept", 2).settle(1, "accept", 1),
    "rejected": one().settle(1, "reject", 1).dead_letter(1, 1, "rejected", 1, 1),
    "released": one().settle(1, "release", 1).claim(2, (1, 1, 1)).settle(2, "accept", 1),
    "retried after the backoff": one().settle(1, "retry", 1).wait(BACKOFF_S).claim(2, (1, 2, 2))
        .settle(2, "accept", 1),
    "retried after a delay": one().settle(1, "retry", 1, delay_s=20).wait(20).claim(2, (1, 2, 2))
        .settle(2, "accept", 1),
    "expired without a renewal": expired().claim(2, (1, 1, 2)).settle(2, "accept", 1),
    "expired after a renewal": one().renew(1).wait(LEASE_S).claim(2, (1, 2, 2))
        .settle(2, "accept", 1),
    "expired after part of it was settled": Story().send("v1", "v2").claim(1, (1, 1, 1), (2, 1, 1))
        .settle(1, "accept", 2).wait(LEASE_S).claim(2, (1, 2, 2)).settle(2, "accept", 1),
    "accepted after its lease, before another claim": expired().settle(1, "accept", 1),
    "a stale acknowledgement refused": expired().claim(2, (1, 1, 2))
        .settle(1, "accept", 1, answered="fail", code="SG002").settle(2, "accept", 1),
    "sent and rolled back": Story().send("v1", outcome="fail"),
    "not sent, with an unknown outcome": Story().send("v1", "v2", outcome="info"),
    "sent, with an unknown outcome": Story().send("v1", outcome="info").claim(1, (1, 1, 1))
        .settle(1, "accept", 1),
    "accepted, with an unknown outcome": one().settle(1, "accept", 1, answered="info", stored=True)
        .wait(LEASE_S).settle(1, "accept", 1, answered="fail", code="settled before"),
    "not accepted, with an unknown outcome": one().settle(1, "accept", 1, answered="info").wait(LEASE_S)
        .claim(2, (1, 1, 2)).settle(2, "accept", 1),
    "retried, with an unknown outcome": one().settle(1, "retry", 1, answered="info").wait(BACKOFF_S)
        .claim(2, (1, 2, 2)).settle(2, "accept", 1),
    "not retried, with an unknown outcome": one().settle(1, "retry", 1, answered="info").wait(LEASE_S)
        .claim(2, (1, 1, 2)).settle(2, "accept", 1),
    "renewed, with an unknown outcome": one().renew(1, "info").wait(LEASE_S).claim(2, (1, 2, 2))
        .settle(2, "accept", 1),
    "an unrecorded delivery": Story().send("v1").claim(0, outcome="info").wait(LEASE_S)
        .claim(1, (1, 1, 2)).settle(1, "accept", 1),
    "a claim lost in a crash": one(synchronous=False).crash().claim(2, (1, 1, 1))
        .settle(2, "accept", 1),
    "a claim not lost in a crash": one(synchronous=False).crash().wait(LEASE_S).claim(2, (1, 1, 2))
        .settle(2, "accept", 1),
    "an acknowledgement of a claim lost in a crash": one(synchronous=False).crash()
        .settle(1, "accept", 1, answered="fail", code="SG003").claim(2, (1, 1, 1))
        .settle(2, "accept", 1),
    "dead after its attempts": one().settle(1, "retry", 1, delay_s=0).claim(2, (1, 2, 2))
        .settle(2, "retry", 1, delay_s=0).claim(3, (1, 3, 3)).settle(3, "retry", 1)
        .dead_letter(1, 3, "too many attempts", 3, 3, error="s3"),
    "dead of an expired lease after its attempts": one().renew(1).wait(LEASE_S).claim(2, (1, 2, 2)).renew(2)
        .wait(LEASE_S).claim(3, (1, 3, 3)).renew(3).wait(LEASE_S)
        .dead_letter(1, 3, "its lease ended", 3, 3, error=None),
    "dead after its deliveries": expired().claim(2, (1, 1, 2)).wait(LEASE_S).claim(3, (1, 1, 3))
        .wait(LEASE_S).claim(4, (1, 1, 4)).wait(LEASE_S).dead_letter(1, 4, "its lease ended", 0, 4),
    "dead in an unrecorded claim": expired().claim(2, (1, 1, 2)).wait(LEASE_S)
        .claim(3, (1, 1, 3)).wait(LEASE_S).claim(0, outcome="info").wait(LEASE_S)
        .dead_letter(1, 4, "its lease ended", 0, 4),
}  # fmt: skip

BROKEN = {
    "lost": {
        "sent and never delivered": Story().send("v1"),
        "half a transaction": Story().send("v1", "v2").claim(1, (1, 1, 1)).settle(1, "accept", 1),
        "half a transaction with an unknown outcome": Story().send("v1", "v2", outcome="info")
            .claim(1, (1, 1, 1)).settle(1, "accept", 1),
        "delivered and forgotten": expired(),
        "released and forgotten": one().settle(1, "release", 1),
        "dead and nowhere": one().settle(1, "reject", 1),
        "its acceptance refused": expired().settle(1, "accept", 1, answered="fail", code="SG002"),
    },
    "phantom": {
        "never sent": Story().claim(1, (1, 1, 1)).settle(1, "accept", 1),
        "rolled back": Story().send("v1", outcome="fail").claim(1, (1, 1, 1))
            .settle(1, "accept", 1),
        "before it was sent": Story().claim(1, (1, 1, 1)).settle(1, "accept", 1).send("v1"),
    },
    "overlap": {
        "two hold it": one().claim(2, (1, 1, 2)).settle(2, "accept", 1),
        "two hold it after a renewal": one().wait(8).renew(1).wait(1).claim(2, (1, 2, 2))
            .settle(2, "accept", 1),
        "claimed between a claim and its late acknowledgement": one().claim(2, (1, 1, 2))
            .settle(1, "accept", 1, answered="fail", code="SG002").settle(2, "accept", 1),
        "a synchronous claim lost in a crash": one().crash().claim(2, (1, 1, 1))
            .settle(2, "accept", 1),
        "a claim lost in a crash though something was flushed behind it": one(synchronous=False)
            .send("v2", outcome="ok").crash().claim(2, (1, 1, 1), (2, 1, 1))
            .settle(2, "accept", 1, 2),
    },
    "early": {
        "before the backoff": one().settle(1, "retry", 1).claim(2, (1, 2, 2))
            .settle(2, "accept", 1),
        "before the delay": one().settle(1, "retry", 1, delay_s=20).wait(10).claim(2, (1, 2, 2))
            .settle(2, "accept", 1),
    },
    "again": {
        "after it was accepted": one().settle(1, "accept", 1).wait(LEASE_S).claim(2, (1, 1, 2)),
        "after it was accepted, as the table says": one()
            .settle(1, "accept", 1, answered="info", stored=True).wait(LEASE_S).claim(2, (1, 2, 2)),
        "after it was rejected": one().settle(1, "reject", 1).dead_letter(1, 1, "rejected", 1, 1)
            .wait(LEASE_S).claim(2, (1, 2, 2)),
        "after its last attempt": one().settle(1, "retry", 1, delay_s=0).claim(2, (1, 2, 2))
            .settle(2, "retry", 1, delay_s=0).claim(3, (1, 3, 3)).settle(3, "retry", 1, delay_s=0)
            .claim(4, (1, 4, 4)).settle(4, "accept", 1),
    },
    "stale": {
        "an acceptance": expired().claim(2, (1, 1, 2)).settle(1, "accept", 1),
        "a retry": expired().claim(2, (1, 1, 2)).settle(1, "retry", 1),
        "an acceptance whose reply was lost": expired().claim(2, (1, 1, 2))
            .settle(1, "accept", 1, answered="info", stored=True),
        "a renewal": expired().claim(2, (1, 1, 2)).renew(1).settle(2, "accept", 1),
    },
    "settled twice": {
        "accepted twice": one().settle(1, "accept", 1).settle(1, "accept", 1),
        "accepted and rejected": one().settle(1, "accept", 1).settle(1, "reject", 1),
    },
    "effect twice": {
        "by two claims": expired().claim(2, (1, 1, 2)).settle(2, "accept", 1)
            .settle(1, "accept", 1),
        "acknowledged twice": one().settle(1, "accept", 1, answered="info", stored=True)
            .settle(1, "accept", 1),
    },
    "effect": {
        "none, though it was accepted": one().settle(1, "accept", 1).without_effects(),
        "of what was refused": one().settle(1, "accept", 1).wait(LEASE_S)
            .settle(1, "accept", 1, answered="fail", stored=True, code="SG002"),
        "of an unknown settlement": one().settle(1, "accept", 1).extra_effect("s9", 1, 1),
        "of another payload": one().settle(1, "accept", 1).without_effects()
            .extra_effect("s1", 1, 1, "v2"),
        "half of one": Story().send("v1", "v2").claim(1, (1, 1, 1), (2, 1, 1))
            .settle(1, "accept", 1, 2, answered="info").extra_effect("s1", 1, 1),
    },
    "attempts": {
        "the first delivery is the second event": Story().send("v1").claim(1, (1, 2, 1)).settle(1, "accept", 1),
        "a retry does not count": one().settle(1, "retry", 1, delay_s=0).claim(2, (1, 1, 2))
            .settle(2, "accept", 1),
        "a release counts": one().settle(1, "release", 1).claim(2, (1, 2, 2))
            .settle(2, "accept", 1),
        "an expiry without a renewal counts": expired().claim(2, (1, 2, 2)).settle(2, "accept", 1),
        "an expiry after a renewal does not": one().renew(1).wait(LEASE_S).claim(2, (1, 1, 2))
            .settle(2, "accept", 1),
        "a delivery is missing": expired().claim(2, (1, 1, 3)).settle(2, "accept", 1),
        "more deliveries are missing than replies were lost": Story().send("v1")
            .claim(0, outcome="info").wait(LEASE_S).claim(1, (1, 1, 3)).settle(1, "accept", 1),
        "a delivery does not count": expired().claim(2, (1, 1, 1)).settle(2, "accept", 1),
    },
    "missing": {
        "more than the claims with lost replies can hold": Story().send("v1", "v2")
            .claim(0, outcome="info", qty=1).wait(LEASE_S).claim(1, (1, 1, 2), (2, 1, 2))
            .settle(1, "accept", 1, 2),
    },
    "dead": {
        "for no reason": expired().dead_letter(1, 1, "too many attempts", 1, 1),
        "before its last attempt": one().settle(1, "retry", 1).dead_letter(1, 1, "too many attempts", 1, 1),
        "for another reason": one().settle(1, "reject", 1).dead_letter(1, 1, "too many attempts", 1, 1),
        "with other attempts": one().settle(1, "reject", 1).dead_letter(1, 1, "rejected", 2, 1),
        "with other deliveries": one().settle(1, "reject", 1).dead_letter(1, 1, "rejected", 1, 2),
        "with another error": one().settle(1, "reject", 1)
            .dead_letter(1, 1, "rejected", 1, 1, error="s2"),
        "of a claim that never had it": one().settle(1, "reject", 1).dead_letter(1, 2, "rejected", 1, 1),
        "with another payload": one().settle(1, "reject", 1).dead_letter(1, 1, "rejected", 1, 1, "v2"),
        "and accepted": one().settle(1, "accept", 1).dead_letter(1, 1, "rejected", 1, 1),
    },
    "dead twice": {
        "of one event": one().settle(1, "reject", 1).dead_letter(1, 1, "rejected", 1, 1)
            .dead_letter(1, 1, "rejected", 1, 1),
    },
    "refused": {
        "an acknowledgement in time": one()
            .settle(1, "accept", 1, answered="fail", code="SG002").wait(LEASE_S)
            .claim(2, (1, 1, 2)).settle(2, "accept", 1),
        "a renewal in time": one().renew(1, "fail", code="SG002").settle(1, "accept", 1),
    },
    "lease": {
        "it ended before it began": Story().send("v1").claim(1, (1, 1, 1), begun_s=-5)
            .settle(1, "accept", 1),
    },
    "claim": {
        "one id for two": one(synchronous=False).crash().claim(1, (1, 1, 1))
            .settle(1, "accept", 1),
        "ids that fall": Story().send("v1", "v2").claim(2, (1, 1, 1)).claim(1, (2, 1, 1))
            .settle(1, "accept", 2).settle(2, "accept", 1),
        "more than requested": Story().send("v1", "v2").claim(1, (1, 1, 1), (2, 1, 1), qty=1)
            .settle(1, "accept", 1, 2),
        "an event twice": Story().send("v1").claim(1, (1, 1, 1), (1, 1, 1)).settle(1, "accept", 1),
        "an event of another claim settled": Story().send("v1", "v2").claim(1, (1, 1, 1))
            .claim(2, (2, 1, 1)).settle(2, "accept", 1, 2).settle(1, "accept", 1),
    },
}  # fmt: skip


@pytest.mark.parametrize("story", SOUND.values(), ids=SOUND)
def test_the_checker_lets_pass(story):
    assert story.kinds() == []


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


def test_checker_reads_the_history_files_and_prints_violations(tmp_path):
    story = expired()
    log = Log(tmp_path / "history", "c")
    for op in story.history:
        log.write("invoke", op.name, op.asked)
        log.write(op.outcome, op.name, op.answer)
    with (tmp_path / "history").open("a") as file:
        file.write('\n[1.5, "killed", "invoke", "settle", {"settlement": "killed-3')
    log.write("invoke", "claim", {"qty": 1, "lease_us": S, "synchronous": True})
    (tmp_path / "snapshot.json").write_text(json.dumps(story.snapshot))
    assert [op.outcome for op in operations(tmp_path / "history")] == ["ok", "ok", "info"]

    done = subprocess.run(
        [sys.executable, "-m", "chaos.checker", str(tmp_path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )

    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (1, "")
    assert [line.splitlines()[0] for line in found["violations"]] == [
        "lost: event 1: delivered 1 times"
    ]
    assert found["figures"]["claims info"] == 1
