"""Compare sent items with delivered ones: `python -m chaos.everything.reconciler FOLDER`.

FOLDER has `history`, which support/history.py reads, and `snapshot.json`, the final contents of the
tables. The program uses the guarantees and none of the code. It prints figures and violations as
JSON, and exits with 1 if there are violations:

    journal     a confirmed commit is missing, or a rolled back transaction is present
    lost        a committed item has no effect at a receiver, is not dead-lettered by its rule, and
                is not left to be read
    doubled     an item has several effects at one receiver, or an effect and a dead letter, or
                several dead letters
    dead        an item is dead-lettered that its rule does not reject, or for another reason
    phantom     an effect or dead letter of an item that no committed transaction sent
    order       effects of a key are not in the order in which its items were committed; but
                messages sent to a queue before the clock is set back may follow later ones
    slots       a schedule's slot was fired twice, or not at all outside of clock steps
    pinned      a segment that is not the current one still has events, or consumers that need it
    waiting     something was left when the time for draining ran out
    schema      `verify` finds a difference
    unexpected  a session got an error that no fault of the run explains; a clock step explains
                deadlocks and idle timeouts, as timeouts then fire early or late

History, `asked`: `send` {txn, items: {target: [{item, key, n, rule}]}, undone: [item]}, `settle`
{settlement, effects}, `resolve` {txn, how}, `cut`: commits after its start may be lost with the old
server; `unexpected` {error, code, at}. The table `sent` shows which transactions were committed,
whatever the reply to the commit.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from datetime import datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from chaos.everything.layout import GROUPS, ORDERED, QUEUES, SLOT_S, receivers
from support.history import NEVER, Operation, operations

SHOWN = 5
SET_BACK = "clock -"
# Errors that a clock step explains, as timeouts fire early or late: a deadlock, a terminated idle
# session.
BY_CLOCK = ("40P01", "25P03")
AFTER_STEP_S = 5.0
SET_BACK_S = 1.0  # between the step and its line in the history
REASONS = {"reject": ("rejected",), "retry": ("too many attempts", "its lease ended")}


class Reconciler:
    """Reconciles one run; `violations` is empty if it is correct."""

    def __init__(self, history: list[Operation], snapshot: dict[str, Any]) -> None:
        self._snapshot = snapshot
        self.figures: Counter[str] = Counter()
        self.violations: list[str] = []
        self._by_name: dict[str, list[Operation]] = defaultdict(list)
        for op in history:
            self._by_name[op.name].append(op)
        self._receivers = receivers()
        self._judging = {f"{g.log}/{g.name}" for g in GROUPS} | set(QUEUES)
        self._sent = set(snapshot["sent"])
        # By receiver and item: the number of effects, the reasons of dead letters, and where it is
        # left.
        self._effects: Counter[tuple[str, str]] = Counter()
        self._dead: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._left = {(queue, item) for queue, item in snapshot["left"]}
        # By receiver: each item and its rule.
        self._expected: dict[str, dict[str, str]] = defaultdict(dict)

    def run(self) -> None:
        """Check everything."""
        self._read_effects()
        self._read_journal()
        self._expect_slots()
        for receiver in sorted(set(chain(*self._receivers.values()))):
            self._judge_receiver(receiver)
        self._judge_order()
        self._judge_slots()
        self._judge_end()

    def _report(self, kind: str, what: str, names: list[Any] | None = None) -> None:
        shown = f": {', '.join(map(str, names[:SHOWN]))}" if names else ""
        self.violations.append(f"{kind}: {what}{shown}")

    def _read_effects(self) -> None:
        for consumer, item, *_ in self._snapshot["effects"]:
            self._effects[consumer, item] += 1
        for receiver, item, reason in self._snapshot["dead_letters"]:
            self._dead[receiver, item].append(reason)
        self.figures["effects"] = len(self._snapshot["effects"])

    # The journal

    def _is_cut(self, op: Operation) -> bool:
        """True if an operation may have been lost with the old server."""
        return any(
            op.ended >= cut.invoked and op.invoked <= cut.ended for cut in self._by_name["cut"]
        )

    def _read_journal(self) -> None:
        resolved = {op.asked["txn"]: op for op in self._by_name["resolve"] if op.outcome == "ok"}
        for op in self._by_name["send"]:
            txn, is_there = op.asked["txn"], op.asked["txn"] in self._sent
            outcome = op.outcome
            if txn in resolved:
                outcome = {"commit": "ok", "rollback": "fail"}[resolved[txn].asked["how"]]
                op = resolved[txn] if resolved[txn].ended < NEVER else op
            self.figures[f"transactions {outcome}"] += 1
            self.figures["transactions info, committed"] += outcome == "info" and is_there
            if outcome == "ok" and not is_there and not self._is_cut(op):
                self._report("journal", f"{txn} was committed and is not there")
            elif outcome == "fail" and is_there:
                self._report("journal", f"{txn} was rolled back and is there")
        known = set()
        for op in self._by_name["send"]:
            known.add(op.asked["txn"])
            if op.asked["txn"] in self._sent:
                for target, items in op.asked["items"].items():
                    self.figures["items"] += len(items)
                    for receiver in self._receivers[target]:
                        self._expected[receiver] |= {item["item"]: item["rule"] for item in items}
        if unknown := sorted(self._sent - known):
            self._report("journal", f"{len(unknown)} transactions are in no history", unknown)
        written = Counter(settlement for *_, settlement in self._snapshot["effects"])
        for op in self._by_name["settle"]:
            settlement, effects = op.asked["settlement"], op.asked["effects"]
            self.figures[f"settlements {op.outcome}"] += 1
            if op.outcome == "ok" and written[settlement] != effects and not self._is_cut(op):
                self._report(
                    "journal", f"{settlement} has {written[settlement]} of {effects} effects"
                )
        for txn, op in resolved.items():
            self.figures[f"prepared, {op.asked['how']}"] += 1
            if op.asked["how"] == "rollback" and written[txn]:
                self._report("journal", f"{txn} was rolled back and has effects")

    # Receivers

    def _expect_slots(self) -> None:
        for name, slot, _, number in self._snapshot["fired"]:
            target, item = (
                ("jobs", f"slots@{slot}") if name == "slots" else ("beats", f"beat {number}")
            )
            for receiver in self._receivers[target]:
                self._expected[receiver][item] = "accept"

    def _judge_receiver(self, receiver: str) -> None:
        expected = self._expected[receiver]
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for item, item_rule in expected.items():
            rule = item_rule if receiver in self._judging else "accept"
            effects, dead = self._effects[receiver, item], self._dead.get((receiver, item), [])
            reasons = REASONS.get(rule, ())
            is_left = (receiver, item) in self._left
            if effects + len(dead) + is_left == 0:
                found["lost", "items"].append(item)
            elif effects + len(dead) + is_left > 1:
                found["doubled", "items"].append(
                    f"{item} ({effects} effects, dead {dead}, {'' if is_left else 'not '}left)"
                )
            elif effects and rule != "accept":
                found["dead", f"effects of items to {rule}"].append(item)
            elif dead and (rule == "accept" or dead[0] not in reasons):
                found["dead", f"items to {rule}, {dead[0]}"].append(item)
            self.figures["dead"] += len(dead)
        strange = {item for of, item in self._effects if of == receiver}
        strange |= {
            item for (of, item), reasons in self._dead.items() if of == receiver and reasons
        }
        found["phantom", "items"] += sorted(strange - set(expected))
        for (kind, what), items in found.items():
            if items:
                self._report(kind, f"{receiver}: {len(items)} {what}", items)

    def _judge_order(self) -> None:
        sent = {
            item["item"]: op.invoked
            for op in self._by_name["send"]
            for items in op.asked["items"].values()
            for item in items
        }
        set_back = [op.invoked for op in self._by_name["fault"] if op.asked.startswith(SET_BACK)]
        last: dict[tuple[str, str], tuple[int, str]] = {}
        wrong: dict[str, list[str]] = defaultdict(list)
        for consumer, item, key, n, _ in self._snapshot["effects"]:
            if consumer not in ORDERED or key is None:
                continue
            self.figures["effects in order"] += 1
            before, name = last.get((consumer, key), (0, ""))
            is_late = consumer in QUEUES and any(
                sent.get(item, NEVER) <= at + SET_BACK_S and at <= sent.get(name, 0)
                for at in set_back
            )
            if n < before and is_late:
                self.figures["messages late after the clock was set back"] += 1
            elif n < before:
                wrong[consumer].append(f"{item} after {name} of {key}")
            last[consumer, key] = max((before, name), (n, item))
        for consumer, items in wrong.items():
            self._report("order", f"{consumer}: {len(items)} items", items)

    def _judge_slots(self) -> None:
        skipped = [
            tuple(datetime.fromisoformat(at).timestamp() for at in step)
            for step in self._snapshot["skipped"]
        ]
        fired: dict[str, list[float]] = defaultdict(list)
        for name, _, at, _ in self._snapshot["fired"]:
            fired[name].append(at)
        for name, slots in fired.items():
            self.figures[f"slots of {name}"] = len(slots)
            if twice := [at for at, count in Counter(slots).items() if count > 1]:
                self._report("slots", f"{name}: {len(twice)} fired twice", twice)
            slots = sorted(set(slots))
            missing = []
            for before, after in pairwise(slots):
                at = before + SLOT_S
                while at < after - SLOT_S / 2:
                    step = next((step for step in skipped if step[0] - 30 <= at <= step[1]), None)
                    if step is None:
                        missing.append(at)
                        at += SLOT_S
                    else:
                        at += SLOT_S * max(1, int((min(step[1], after) - at) / SLOT_S))
            if missing:
                self._report("slots", f"{name}: {len(missing)} not fired", missing)

    def _judge_end(self) -> None:
        for waiting in self._snapshot["waiting"]:
            self._report("waiting", str(waiting))
        for segment in self._snapshot["segments"]:
            if not segment["current"] and segment["events"] and not self._snapshot["waiting"]:
                about = f"{segment['events']} events, consumers {segment['consumers']}, {segment['reason']}"
                self._report("pinned", f"segment {segment['segment']} of {segment['log']}: {about}")
        for line in self._snapshot["differences"]:
            self._report("schema", line)
        errors: Counter[str] = Counter()
        places = {}
        for op in self._by_name["unexpected"]:
            if op.asked["code"] in BY_CLOCK and self._is_during_clock_step(op):
                self.figures["errors beside a clock step"] += 1
                continue
            errors[op.asked["error"]] += 1
            places[op.asked["error"]] = op.asked["at"]
        for error, count in errors.items():
            self._report("unexpected", f"{count} times {error} at {places[error]}")
        for op in self._by_name["fault"]:
            self.figures[f"faults: {op.asked}"] += 1
        self.figures["reinstalls"] = sum(op.outcome == "ok" for op in self._by_name["reinstall"])

    def _is_during_clock_step(self, op: Operation) -> bool:
        """True if a clock step may explain the error, as PostgreSQL's timeouts use this clock."""
        steps = [step for step in self._by_name["fault"] if step.asked.startswith("clock")]
        return any(step.invoked <= op.invoked <= step.invoked + AFTER_STEP_S for step in steps)


def judge(history: list[Operation], snapshot: dict[str, Any]) -> Reconciler:
    """Reconcile a run."""
    reconciler = Reconciler(history, snapshot)
    reconciler.run()
    return reconciler


def main() -> int:
    folder = Path(sys.argv[1])
    snapshot = json.loads((folder / "snapshot.json").read_text())
    found = judge(operations(folder / "history"), snapshot)
    json.dump(
        {"figures": dict(sorted(found.figures.items())), "violations": found.violations},
        sys.stdout,
        indent=1,
    )
    return 1 if found.violations else 0


if __name__ == "__main__":
    sys.exit(main())
