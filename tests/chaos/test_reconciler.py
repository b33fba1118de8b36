"""The reconciler reports each planted fault in constructed runs, and accepts correct ones."""

from __future__ import annotations

import json

import pytest

from chaos.everything.layout import receivers
from chaos.everything.reconciler import judge
from chaos.everything.running import reconcile
from support.history import Log, Operation

SLOT = 1795661362.0
DEADLOCK = {"error": "DeadlockDetected: deadlock detected", "code": "40P01", "at": []}
IDLE = {
    "error": "IdleInTransactionSessionTimeout: terminating connection",
    "code": "25P03",
    "at": [],
}


class Story:
    """A history and a snapshot, correct until a fault is planted."""

    def __init__(self):
        self.history = []
        self.snapshot = {
            "sent": [],
            "effects": [],
            "dead_letters": [],
            "fired": [],
            "left": [],
            "waiting": [],
            "segments": [
                {
                    "log": "orders",
                    "segment": 0,
                    "current": True,
                    "events": 9,
                    "consumers": None,
                    "reason": None,
                }
            ],
            "skipped": [],
            "differences": [],
        }
        self.now_s = 100.0

    def add(self, name, asked, outcome="ok"):
        ended = float("inf") if outcome == "info" else self.now_s + 0.5
        self.history.append(Operation("p", name, asked, self.now_s, ended, outcome))
        self.now_s += 1
        return self

    def send(self, txn, items, outcome="ok", stored=None, undone=()):
        """Items are {target: [(item, key, n, rule)]}."""
        named = {
            target: [
                dict(zip(("item", "key", "n", "rule"), item, strict=True)) for item in of_target
            ]
            for target, of_target in items.items()
        }
        if outcome == "ok" if stored is None else stored:
            self.snapshot["sent"].append(txn)
        return self.add("send", {"txn": txn, "items": named, "undone": list(undone)}, outcome)

    def effect(self, receiver, item, key="k", n=1, settlement="s"):
        self.snapshot["effects"].append([receiver, item, key, n, settlement])
        return self

    def without(self, receiver, item):
        self.snapshot["effects"] = [
            e for e in self.snapshot["effects"] if e[:2] != [receiver, item]
        ]
        return self

    def have(self, **more):
        for name, values in more.items():
            self.snapshot[name] += values
        return self

    def cut_from(self, began_s):
        """Extend the last cut to the current time."""
        self.history[0].invoked, self.history[0].ended = began_s, self.now_s
        return self

    def kinds(self):
        return [line.partition(":")[0] for line in judge(self.history, self.snapshot).violations]


def delivered():
    """Return a story of two events of a key, delivered to all receivers, and a message."""
    story = Story().send("t1", {"orders": [("a", "k", 1, "accept"), ("b", "k", 2, "accept")]})
    story.send("t2", {"steps": [("m", "k", 1, "accept")], "changes": [("c", "x", 1, "accept")]})
    for receiver in receivers()["orders"]:
        for item, n in (("a", 1), ("b", 2)):
            story.effect(receiver, item, n=n)
    for receiver in receivers()["changes"]:
        story.effect(receiver, "c", "x")
    return story.effect("steps", "m")


def judged(rule, receiver="jobs"):
    """Return the story of a message that its rule dead-letters."""
    return Story().send("t", {receiver: [("m", "k", 1, rule)]})


SOUND = {
    "all delivered": delivered(),
    "a rolled back transaction without effects": delivered().send("t3", {"orders": [("z", "k", 3, "accept")]}, "fail"),
    "an unknown commit that happened": delivered().send("t3", {"quiet": [("q", "k", 1, "accept")]}, "info", stored=True)
        .effect("quiet/watch", "q"),
    "an unknown commit that did not happen": delivered().send("t3", {"quiet": [("q", "k", 1, "accept")]}, "info"),
    "a message that is still to be read": delivered().send("t3", {"jobs": [("j", "k", 1, "accept")]})
        .have(left=[["jobs", "j"]]),
    "rejected as its rule has it": judged("reject").have(dead_letters=[["jobs", "m", "rejected"]]),
    "dead after its last attempt": judged("retry").have(dead_letters=[["jobs", "m", "too many attempts"]]),
    "rejected by a group and handled by consumers": Story().send("t", {"changes": [("c", "k", 1, "reject")]})
        .effect("changes/lake", "c").effect("changes/team", "c").have(dead_letters=[["changes/other", "c", "rejected"]]),
    "a commit lost with the old server": Story().add("cut", None)
        .send("t", {"jobs": [("m", "k", 1, "accept")]}, "ok", stored=False).cut_from(100.0),
    "messages from before a step back of the clock are delivered late": Story().send("t1", {"steps": [("a", "k", 1, "accept")]})
        .add("fault", "clock -10 s").send("t2", {"steps": [("b", "k", 2, "accept")]})
        .effect("steps", "b", n=2).effect("steps", "a", n=1),
    "a deadlock during a clock step": Story().add("fault", "clock +10 s").add("unexpected", DEADLOCK, "info"),
    "an idle session terminated during a clock step": Story().add("fault", "clock +10 s").add("unexpected", IDLE, "info"),
    "slots without a gap": Story().have(fired=[["beats", "1", SLOT, 1], ["beats", "2", SLOT + 1, 2]])
        .effect("beats/beat", "beat 1").effect("beats/beat", "beat 2"),
    "a gap where the clock stepped": Story().have(
            fired=[["beats", "1", SLOT, 1], ["beats", "2", SLOT + 9, 2]],
            skipped=[["2026-11-26T02:49:22+00:00", "2026-11-26T02:49:31+00:00"]],
        ).effect("beats/beat", "beat 1").effect("beats/beat", "beat 2"),
}  # fmt: skip

BROKEN = {
    "lost": {
        "one event at one group": delivered().without("orders/plain", "b"),
        "one event at a consumer of batches": delivered().without("orders/audit", "a"),
        "one message": delivered().without("steps", "m"),
        "one dead letter": judged("reject"),
        "an unknown commit that is there": Story().send("t", {"jobs": [("m", "k", 1, "accept")]}, "info", stored=True),
        "a slot's message": Story().have(fired=[["slots", "2026-11-26T02:49:22.000000+00:00", SLOT, 1]]),
    },
    "doubled": {
        "one effect": delivered().effect("orders/keyed", "b", n=2),
        "one message": delivered().effect("steps", "m"),
        "an effect and a dead letter": delivered().have(dead_letters=[["steps", "m", "rejected"]]),
        "two dead letters": judged("reject").have(dead_letters=[["jobs", "m", "rejected"]] * 2),
        "an effect, and it is still to be read": delivered().have(left=[["steps", "m"]]),
    },
    "dead": {
        "an item to accept": delivered().without("orders/plain", "a").have(dead_letters=[["orders/plain", "a", "rejected"]]),
        "for another reason": judged("reject").have(dead_letters=[["jobs", "m", "too many attempts"]]),
        "an effect of an item to reject": judged("reject").effect("jobs", "m"),
    },
    "phantom": {
        "an item of a rolled back transaction": delivered().send("t3", {"orders": [("z", "z", 1, "accept")]}, "fail")
            .effect("orders/plain", "z", "z"),
        "an item that a savepoint took back": Story()
            .send("t", {"quiet": [("q", "k", 1, "accept")]}, undone=["u"]).effect("quiet/watch", "q")
            .effect("quiet/watch", "u", n=2),
        "at a receiver of another log": delivered().effect("quiet/watch", "a", n=1),
        "a dead letter": Story().have(dead_letters=[["orders/plain", "a", "rejected"]]),
    },
    "order": {
        "of a key of a group": delivered().without("orders/keyed", "a").effect("orders/keyed", "a", n=1),
        "of a key of a queue": Story().send("t1", {"steps": [("a", "k", 1, "accept"), ("b", "k", 2, "accept")]})
            .add("fault", "clock -10 s").effect("steps", "b", n=2).effect("steps", "a", n=1),
        "of a key of a group during a clock step": delivered().add("fault", "clock -10 s")
            .without("orders/keyed", "a").effect("orders/keyed", "a", n=1),
        "of a key of a consumer": delivered().without("orders/audit", "a").effect("orders/audit", "a", n=1),
    },
    "journal": {
        "a commit is gone": delivered().send("t3", {}, "ok", stored=False),
        "a rolled back transaction is there": delivered().send("t3", {}, "fail", stored=True),
        "a prepared transaction was rolled back and is there": delivered().send("t3", {}, "info", stored=True)
            .add("resolve", {"txn": "t3", "how": "rollback"}),
        "it was never sent": delivered().have(sent=["t9"]),
        "a settlement without its effects": delivered().add("settle", {"settlement": "s9", "effects": 1}),
        "a commit is gone from before the cut": Story().send("t", {}, "ok", stored=False).add("cut", None),
    },
    "slots": {
        "fired twice": Story().have(fired=[["beats", "1", SLOT, 1], ["beats", "1", SLOT, 2]])
            .effect("beats/beat", "beat 1").effect("beats/beat", "beat 2"),
        "not fired": Story().have(fired=[["beats", "1", SLOT, 1], ["beats", "3", SLOT + 2, 2]])
            .effect("beats/beat", "beat 1").effect("beats/beat", "beat 2"),
        "not fired beside a clock step": Story().have(
                fired=[["beats", "1", SLOT, 1], ["beats", "3", SLOT + 100, 2]],
                skipped=[["2026-11-26T02:49:22+00:00", "2026-11-26T02:49:31+00:00"]],
            ).effect("beats/beat", "beat 1").effect("beats/beat", "beat 2"),
    },
    "pinned": {
        "a segment that is not the current one": Story().have(segments=[
            {"log": "orders", "segment": 1, "current": False, "events": 1, "consumers": ["plain"], "reason": "needed"}
        ]),
    },
    "waiting": {"a group": Story().have(waiting=[["orders", "plain", "0", "2", "0"]])},
    "schema": {"a difference": Story().have(differences=["+ function sluice.tick()"])},
    "unexpected": {
        "an error": Story().add("unexpected", {"error": "InternalError: tuple", "code": "XX000", "at": []}, "info"),
        "a deadlock": Story().add("unexpected", DEADLOCK, "info").add("fault", "clock +10 s"),
        "an idle session ended": Story().add("unexpected", IDLE, "info").add("fault", "clock +10 s"),
    },
}  # fmt: skip


@pytest.mark.parametrize("story", SOUND.values(), ids=SOUND)
def test_a_sound_run_has_no_violations(story):
    assert story.kinds() == []


@pytest.mark.parametrize(
    ("kind", "story"),
    [
        pytest.param(kind, story, id=f"{kind}: {name}")
        for kind, stories in BROKEN.items()
        for name, story in stories.items()
    ],
)
def test_a_planted_fault_is_the_only_violation(kind, story):
    assert set(story.kinds()) == {kind}


def test_the_program_reads_the_files_of_a_run(tmp_path):
    log = Log(tmp_path / "history", "p1")
    log.write(
        "invoke",
        "send",
        {"txn": "t", "items": {"quiet": [{"item": "q", "key": "k", "n": 1, "rule": "accept"}]}},
    )
    log.write("ok", "send")
    story = Story().have(sent=["t"])
    (tmp_path / "snapshot.json").write_text(json.dumps(story.snapshot))

    found = reconcile(tmp_path)

    assert found["violations"] == ["lost: quiet/watch: 1 items: q"]
    assert found["figures"]["transactions ok"] == 1
