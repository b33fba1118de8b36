"""Check a run of a share group by its history and final tables: `python -m chaos.checker FOLDER`.

The checker uses the contract of share groups, and none of their code. FOLDER has `history`, which
support/history.py reads, and `snapshot.json`. It prints figures and violations as JSON, and exits
with 1 if there are violations.

Assumptions:

- A commit whose reply was lost may have happened. An accept writes rows to the table `effect` in
  its transaction, so the snapshot shows it. For other outcomes, both possibilities are allowed.
- Claims of a group have rising ids; the order of an event's deliveries is the order of its claims,
  not that of the lines.
- Leases are compared on the server's clock. A lease starts at `lease_until` minus its requested
  length.
- An unrecorded delivery needs a claim whose reply was lost; such claims are counted.
- A claim that commits asynchronously may be lost in a crash, unless a later commit flushed it.

So a reported violation cannot occur in a group that keeps the contract.

Operations, `asked` → `answer`; times are microseconds of the server's clock:

    send      {values} → null
    claim     {qty, lease_us, synchronous} → {claim, asked_at, given_at, lease_until,
              events: [[ev_id, value, attempt, deliveries]]}
    settle    {settlement, claim, parts: [{outcome, ev_ids, delay_us}]} → {at}, or {code, at};
              retries and rejections have the settlement's name as their error
    renew     {claim} → {at, until}, or {code, at} if refused
    crash     null → null

Snapshot: `effects` [[settlement, claim, ev_id, value]], `dead` [{ev_id, value, claim, attempts,
deliveries, reason, error}], `max_attempts`, `max_deliveries`, `backoff_us`.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from support.history import NEVER, Operation, operations

# The lease expired; a crash undid the asynchronous claim.
LEASE_LOST = ("SG002", "SG003")
DEAD_OF_REJECT = "rejected"
DEAD_OF_RETRY = "too many attempts"
DEAD_OF_EXPIRY = "its lease ended"


class Delivery(NamedTuple):
    """A delivery of an event to a consumer."""

    claim: Claim
    ev_id: int
    value: str
    attempt: int
    deliveries: int


class End(NamedTuple):
    """A possible end of a delivery.

    `attempts` and `deliveries` are the counts afterwards. The event may be claimed again from
    `free_at` on; with a `reason` it is dead-lettered instead, with one of the texts in `error`, if
    known.
    """

    kind: str
    attempts: int
    deliveries: int
    free_at: float
    reason: str | None = None
    error: tuple[str, ...] = ()


@dataclass
class Settlement:
    """Outcome of one event in one transaction."""

    op: Operation
    outcome: str
    delay_us: int | None
    certain: bool

    def at(self, claim: Claim) -> int:
        """Return a lower bound of its time."""
        return self.op.answer["at"] if self.op.outcome == "ok" else claim.claimed_at


@dataclass
class Claim:
    """A claim whose reply arrived."""

    op: Operation
    claim_id: int
    claimed_at: int
    given_at: int
    lease_until: int
    may_be_lost: bool = False
    deliveries: list[Delivery] = field(default_factory=list)
    settlements: dict[int, list[Settlement]] = field(default_factory=lambda: defaultdict(list))
    renewals: list[Operation] = field(default_factory=list)
    # True if the consumer renewed or settled, None if that is unknown.
    is_seen: bool | None = False

    def mark_seen(self, certain: bool) -> None:
        if certain:
            self.is_seen = True
        elif self.is_seen is False:
            self.is_seen = None


class Checker:
    """Checks one run; `violations` is empty if it is correct."""

    def __init__(self, history: list[Operation], snapshot: dict[str, Any]) -> None:
        self._history = history
        self._snapshot = snapshot
        self.figures: Counter[str] = Counter()
        self.violations: list[str] = []
        self._by_name: dict[str, list[Operation]] = defaultdict(list)
        for op in history:
            self._by_name[op.name].append(op)
        self._effects: dict[int, list[Any]] = defaultdict(list)
        for row in snapshot["effects"]:
            self._effects[row[2]].append(row)
        self._dead: dict[int, list[Any]] = defaultdict(list)
        for dead in snapshot["dead"]:
            self._dead[dead["ev_id"]].append(dead)
        self._claims: dict[int, Claim] = {}
        self._events: dict[int, list[Delivery]] = defaultdict(list)
        self._missing = 0
        self._unanswered = [op for op in self._by_name["claim"] if op.outcome == "info"]

    def run(self) -> None:
        self._read_claims()
        self._read_settlements()
        self._read_renewals()
        self._find_what_a_crash_may_have_lost()
        self._judge_refusals()
        for ev_id in sorted({*self._events, *self._effects, *self._dead}):
            self._judge_event(ev_id)
        self._judge_values()
        if self._missing > sum(op.asked["qty"] for op in self._unanswered):
            self._report(
                "missing", f"{self._missing} deliveries in {len(self._unanswered)} lost answers"
            )

    def _report(self, kind: str, what: str, *about: object) -> None:
        self.violations.append("\n    ".join([f"{kind}: {what}", *map(str, about)]))

    def _report_event(self, ev_id: int, kind: str, what: str, *about: object) -> None:
        rows = (*self._effects.get(ev_id, []), *self._dead.get(ev_id, []))
        story = _story(self._events.get(ev_id, []))
        self._report(kind, f"event {ev_id}: {what}", *story, *rows, *about)

    # Reading

    def _read_claims(self) -> None:
        for op in self._by_name["claim"]:
            self.figures[f"claims {op.outcome}"] += 1
            if op.outcome != "ok" or not op.answer["events"]:
                continue
            given = op.answer
            claim = Claim(
                op,
                given["claim"],
                given["lease_until"] - op.asked["lease_us"],
                given["given_at"],
                given["lease_until"],
            )
            if not given["asked_at"] <= claim.claimed_at <= given["given_at"]:
                self._report("lease", "it does not run from the claim", op)
            if len(given["events"]) > op.asked["qty"]:
                self._report("claim", "more events than requested", op)
            if claim.claim_id in self._claims:
                earlier = self._claims[claim.claim_id].op
                self._report("claim", f"the id {claim.claim_id} was given twice", earlier, op)
                continue
            self._claims[claim.claim_id] = claim
            for ev_id, value, attempt, deliveries in given["events"]:
                delivery = Delivery(claim, ev_id, value, attempt, deliveries)
                if any(other.claim is claim for other in self._events[ev_id][-1:]):
                    self._report("claim", f"event {ev_id} is in it twice", op)
                claim.deliveries.append(delivery)
                self._events[ev_id].append(delivery)
        latest: Claim | None = None
        for _, claim in sorted(self._claims.items()):
            if latest and claim.op.ended < latest.op.invoked:
                self._report("claim", "ids do not rise", latest.op, claim.op)
            if latest is None or claim.op.invoked > latest.op.invoked:
                latest = claim
        for deliveries in self._events.values():
            deliveries.sort(key=lambda delivery: delivery.claim.claim_id)

    def _read_settlements(self) -> None:
        written: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for settlement, claim_id, ev_id, _ in self._snapshot["effects"]:
            if (claim_id, ev_id) in written[settlement]:
                self._report("effect twice", f"event {ev_id} in {settlement}")
            written[settlement].add((claim_id, ev_id))
        for op in self._by_name["settle"]:
            found = written.pop(op.asked["settlement"], set())
            expected = {
                (op.asked["claim"], ev_id)
                for part in op.asked["parts"]
                if part["outcome"] == "accept"
                for ev_id in part["ev_ids"]
            }
            if found and op.outcome == "fail":
                self._report("effect", "of what was refused", op)
            elif found != expected and (found or op.outcome == "ok"):
                self._report("effect", f"{len(found)} of {len(expected)} rows", op)
            certain = op.outcome == "ok" or bool(found)
            self.figures[f"settlements {op.outcome}"] += 1
            self.figures["settlements info, stored"] += op.outcome == "info" and certain
            claim = self._claims.get(op.asked["claim"])
            if claim is None:
                self._report("claim", "settled, and never given", op)
            elif certain or (op.outcome == "info" and not expected):
                self._settle(claim, op, certain)
        for settlement, rows in written.items():
            self._report("effect", f"of an unknown settlement: {settlement}", sorted(rows))

    def _settle(self, claim: Claim, op: Operation, certain: bool) -> None:
        held = {delivery.ev_id for delivery in claim.deliveries}
        claim.mark_seen(certain)
        for part in op.asked["parts"]:
            for ev_id in part["ev_ids"]:
                if ev_id not in held:
                    self._report("claim", f"event {ev_id} is settled and not in it", op, claim.op)
                    continue
                settlement = Settlement(op, part["outcome"], part["delay_us"], certain)
                earlier = [s for s in claim.settlements[ev_id] if s.certain and certain]
                if earlier:
                    self._report("settled twice", f"event {ev_id}", earlier[0].op, op)
                claim.settlements[ev_id].append(settlement)
                if certain:
                    self.figures[f"events settled: {part['outcome']}"] += 1

    def _read_renewals(self) -> None:
        for op in self._by_name["renew"]:
            self.figures[f"renewals {op.outcome}"] += 1
            claim = self._claims.get(op.asked["claim"])
            if claim is None:
                self._report("claim", "renewed, and never given", op)
            elif op.outcome != "fail":
                claim.mark_seen(op.outcome == "ok")
                if op.outcome == "ok":
                    claim.renewals.append(op)
                    # These consumers never shorten a lease, so a later end replaces an earlier one.
                    claim.lease_until = max(claim.lease_until, op.answer["until"])

    def _find_what_a_crash_may_have_lost(self) -> None:
        """Mark asynchronous claims that no later commit flushed before a crash."""
        flushed = sorted(
            (op.ended, op.invoked)
            for name in ("send", "settle", "renew")
            for op in self._by_name[name]
            if op.outcome == "ok"
        )
        latest, newest = [], 0.0
        for _, invoked in flushed:
            newest = max(newest, invoked)
            latest.append(newest)
        for crash in self._by_name["crash"]:
            self.figures["crashes"] += 1
            before = bisect_right(flushed, (crash.invoked, NEVER))
            safe = latest[before - 1] if before else 0.0
            for claim in self._claims.values():
                if (
                    not claim.op.asked["synchronous"]
                    and safe < claim.op.ended <= crash.ended
                    and claim.is_seen is not True
                ):
                    claim.may_be_lost = True
        self.figures["claims a crash may have lost"] = sum(
            claim.may_be_lost for claim in self._claims.values()
        )

    def _judge_refusals(self) -> None:
        """Check that during a lease only the consumer's own earlier settlements cause refusals."""
        for op in (*self._by_name["settle"], *self._by_name["renew"]):
            if op.outcome != "fail" or op.answer["code"] not in LEASE_LOST:
                continue
            self.figures["refused, lease lost"] += 1
            claim = self._claims.get(op.asked["claim"])
            if claim is None or claim.may_be_lost or op.answer["at"] >= claim.lease_until:
                continue
            settled = {
                ev_id
                for ev_id, settlements in claim.settlements.items()
                if any(settlement.op.invoked < op.invoked for settlement in settlements)
            }
            if op.name == "renew":
                explained = settled >= {delivery.ev_id for delivery in claim.deliveries}
            else:
                explained = any(settled & set(part["ev_ids"]) for part in op.asked["parts"])
            if not explained:
                self._report("refused", "while the lease runs", claim.op, op)

    # Judging

    def _judge_event(self, ev_id: int) -> None:
        deliveries = self._events.get(ev_id, [])
        effects, dead = self._effects.get(ev_id, []), self._dead.get(ev_id, [])
        self.figures["events"] += 1
        self.figures["deliveries"] += len(deliveries)
        for earlier, later in pairwise(deliveries):
            self._judge_fence(earlier, later)
        for place, delivery in enumerate(deliveries):
            self._judge_delivery(delivery, deliveries[:place])
        if len(effects) > 1:
            self._report_event(ev_id, "effect twice", "")
        if len(dead) > 1:
            self._report_event(ev_id, "dead twice", "")
        for row in effects:
            if not any(d.claim.claim_id == row[1] and d.value == row[3] for d in deliveries):
                self._report_event(ev_id, "effect", "by a claim that does not have it")
        if effects and dead:
            self._report_event(ev_id, "dead", "and accepted")
        elif dead:
            self._judge_dead(ev_id, dead[0], deliveries)
        elif not effects:
            self._report_event(ev_id, "lost", f"delivered {len(deliveries)} times")

    def _judge_fence(self, earlier: Delivery, later: Delivery) -> None:
        """Check that a claim settles and renews nothing after another claim has the event."""
        if later.claim.may_be_lost:
            return
        holder, taken = earlier.claim, later.claim
        certain = [s for s in holder.settlements[earlier.ev_id] if s.certain]
        outcomes = [(s.op, s.outcome) for s in certain]
        if not certain:
            outcomes += [(op, "renew") for op in holder.renewals]
        for op, outcome in outcomes:
            began = op.answer["at"] if op.outcome == "ok" else 0
            if began > taken.given_at or op.invoked > taken.op.ended:
                self._report_event(earlier.ev_id, "stale", outcome, holder.op, taken.op, op)

    def _judge_delivery(self, delivery: Delivery, before: list[Delivery]) -> None:
        """Check that the previous delivery has ended, and that the counts follow from its end."""
        ev_id = delivery.ev_id
        ends = [end for end in self._ends_before(before) if end.reason is None]
        in_time = [end for end in ends if end.free_at <= delivery.claim.claimed_at]
        if not ends:
            self._report_event(ev_id, "again", "it was settled or dead-lettered")
            return
        if not in_time:
            kind = "overlap" if any(end.kind == "expiry" for end in ends) else "early"
            self._report_event(ev_id, kind, f"claim {delivery.claim.claim_id}")
            return
        for end in in_time:
            missing = delivery.deliveries - 1 - end.deliveries
            until = delivery.claim.op.ended
            if delivery.attempt == end.attempts + 1 and self._can_miss(missing, until):
                self._missing += missing
                self.figures[f"deliveries after {end.kind}"] += 1
                self.figures["unrecorded deliveries"] += missing
                return
        possible = [(end.kind, end.attempts, end.deliveries) for end in in_time]
        found = f"attempt {delivery.attempt}, delivery {delivery.deliveries}"
        self._report_event(ev_id, "attempts", f"{found} after one of {possible}")

    def _judge_dead(self, ev_id: int, dead: dict[str, Any], deliveries: list[Delivery]) -> None:
        """Check that the dead letter follows from the last delivery, with its reason and error."""
        self.figures[f"dead, {dead['reason']}"] += 1
        held = {delivery.claim.claim_id: delivery for delivery in deliveries}
        for end in self._ends_before(deliveries):
            missing = dead["deliveries"] - end.deliveries
            # Unrecorded deliveries ended with an expired lease, without a renewal.
            ends = end._replace(reason=DEAD_OF_EXPIRY, error=()) if missing else end
            if (
                (dead["reason"], dead["attempts"]) == (ends.reason, ends.attempts)
                and (not ends.error or dead["error"] in ends.error)
                and (missing == 0 or dead["deliveries"] == self._snapshot["max_deliveries"])
                and self._can_miss(missing, NEVER)
            ):
                self._missing += missing
                if not missing and dead["claim"] not in held:
                    self._report_event(ev_id, "dead", "in a claim that does not have it")
                if deliveries and dead["value"] != deliveries[-1].value:
                    self._report_event(ev_id, "dead", "with another payload")
                return
        self._report_event(ev_id, "dead", "for no reason")

    def _can_miss(self, missing: int, until: float) -> bool:
        """True if this number of deliveries may have been in claims whose replies were lost."""
        if missing <= 0:
            return missing == 0
        return missing <= sum(op.invoked <= until for op in self._unanswered)

    def _ends_before(self, before: list[Delivery]) -> list[End]:
        """Return the possible ends of the last delivery; a crash may have undone its claim."""
        found = []
        for delivery in reversed(before):
            found += self._ends(delivery)
            if not delivery.claim.may_be_lost:
                return found
        return [*found, End("crash" if before else "start", 0, 0, 0)]

    def _ends(self, delivery: Delivery) -> Iterator[End]:
        claim = delivery.claim
        settlements = claim.settlements[delivery.ev_id]
        certain = [settlement for settlement in settlements if settlement.certain]
        for settlement in certain or settlements:
            yield from self._ends_by(delivery, settlement)
        if not certain:
            for is_seen in (True, False) if claim.is_seen is None else (claim.is_seen,):
                attempts, deliveries = delivery.attempt - 1 + is_seen, delivery.deliveries
                reason = DEAD_OF_EXPIRY if self._is_last(attempts, deliveries) else None
                yield End("expiry", attempts, deliveries, claim.lease_until, reason)

    def _ends_by(self, delivery: Delivery, settlement: Settlement) -> Iterator[End]:
        attempts, deliveries = delivery.attempt, delivery.deliveries
        at = settlement.at(delivery.claim)
        error = (settlement.op.asked["settlement"],)
        match settlement.outcome:
            case "reject":
                yield End("reject", attempts, deliveries, NEVER, DEAD_OF_REJECT, error)
            case "release":
                yield End("release", attempts - 1, deliveries - 1, at)
            case "retry":
                delay_us = settlement.delay_us
                if delay_us is None:
                    delay_us = self._snapshot["backoff_us"]
                reason = DEAD_OF_RETRY if self._is_last(attempts, deliveries) else None
                yield End("retry", attempts, deliveries, at + delay_us, reason, error)

    def _is_last(self, attempts: int, deliveries: int) -> bool:
        return (
            attempts >= self._snapshot["max_attempts"]
            or deliveries >= self._snapshot["max_deliveries"]
        )

    def _judge_values(self) -> None:
        """Check that exactly the sent events were delivered."""
        ids: dict[str, set[int]] = defaultdict(set)
        first: dict[str, float] = {}
        for ev_id, deliveries in self._events.items():
            for delivery in deliveries:
                ids[delivery.value].add(ev_id)
                ended = delivery.claim.op.ended
                first[delivery.value] = min(first.get(delivery.value, NEVER), ended)
            if len({delivery.value for delivery in deliveries}) > 1:
                self._report("phantom", f"event {ev_id} has two payloads", *_story(deliveries))
        for ev_id, rows in self._dead.items():
            ids[rows[0]["value"]].add(ev_id)
        for value, of_value in ids.items():
            if len(of_value) > 1:
                self._report("phantom", f"{value} is in the events {sorted(of_value)}")
        unknown = set(ids)
        for op in self._by_name["send"]:
            values = op.asked["values"]
            unknown.difference_update(values)
            there = [value for value in values if value in ids]
            self.figures[f"sent {op.outcome}"] += len(values)
            if op.outcome == "info":
                self.figures["sent info, stored"] += len(there)
            if op.outcome == "fail":
                for value in there:
                    self._report("phantom", f"{value} was rolled back", op)
            elif len(there) < len(values) and (there or op.outcome == "ok"):
                absent = [value for value in values if value not in ids]
                self._report("lost", f"{len(absent)} of {len(values)} sent, {absent[:5]}", op)
            for value in there:
                if first.get(value, NEVER) < op.invoked:
                    self._report("phantom", f"{value} was delivered before it was sent", op)
        for value in sorted(unknown):
            self._report("phantom", f"{value} was never sent")


def _story(deliveries: Iterable[Delivery]) -> list[str]:
    """Return the history of an event as lines of text."""
    lines = []
    for delivery in deliveries:
        claim = delivery.claim
        outcomes = [
            f"{s.outcome} {s.op.outcome} by {s.op.asked['settlement']}"
            for s in claim.settlements[delivery.ev_id]
        ]
        lines.append(
            f"claim {claim.claim_id} of {claim.op.process}, attempt {delivery.attempt}, delivery {delivery.deliveries}, "
            f"[{claim.claimed_at}, {claim.lease_until}): {', '.join(outcomes) or 'nothing'}"
            f"{' (a crash may have lost it)' if claim.may_be_lost else ''}"
        )
    return lines


def check(history: list[Operation], snapshot: dict[str, Any]) -> Checker:
    checker = Checker(history, snapshot)
    checker.run()
    return checker


def main() -> int:
    folder = Path(sys.argv[1])
    snapshot = json.loads((folder / "snapshot.json").read_text())
    checker = check(operations(folder / "history"), snapshot)
    outcomes = {"figures": dict(sorted(checker.figures.items())), "violations": checker.violations}
    json.dump(outcomes, sys.stdout, indent=1)
    return 1 if checker.violations else 0


if __name__ == "__main__":
    sys.exit(main())
