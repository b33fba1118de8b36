"""Random sequences of calls to share groups with keys, against a model of keys and events.

One session makes all calls. The clock of the ledgers advances in hours, and the ledgers are
truncated in between.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support import replace_in, rows, seeds, value
from support.share_groups import acknowledge, claim, create_group, let_pass, make_log, renew

MAX_ATTEMPTS = 3
MAX_DELIVERIES = 5
KEYS = st.sampled_from(["a", "b", "c", None])
HOURS = st.sampled_from([0, 1, 2])
_log_numbers = itertools.count(1)


@dataclass
class Event:
    """An event without a final outcome; the events of a key are in log order."""

    ev_id: int
    key: str | None
    attempts: int = 0
    deliveries: int = 0
    is_new: bool = True
    redriven: int = 0
    due: int = 0
    claim_id: int | None = None
    is_parked: bool = False
    is_back: bool = False  # to be redelivered immediately
    ev_type: str = "t"


@dataclass
class Claim:
    """A claim, with its unsettled events."""

    lease_end: int
    heard_of: bool = False
    events: list[Event] = field(default_factory=list)


class ShareKeyMachine(RuleBasedStateMachine):
    """A state machine whose rules make calls and check their results."""

    database = None
    only_when_waiting: str | None = None

    @initialize(when_waiting=st.sampled_from(["block", "skip", "park"]))
    def begin(self, when_waiting):
        self.main = type(self).database.connect()
        self.log = f"log_{next(_log_numbers)}"
        self.when_waiting = self.only_when_waiting or when_waiting
        self.now = 0
        self.pending: list[Event] = []
        self.claims: dict[int, Claim] = {}
        self.parked: set[str] = set()
        self.dead: list[int] = []
        make_log(self.main, self.log)
        create_group(
            self.main,
            log=self.log,
            key="ev_extra1",
            when_waiting=self.when_waiting,
            max_attempts=MAX_ATTEMPTS,
            max_deliveries=MAX_DELIVERIES,
            backoff="constant",
            backoff_base="1 hour",
            backoff_jitter=False,
        )

    def teardown(self):
        if hasattr(self, "main"):
            with self.main:
                self.main.execute("select pgq.drop_queue(%s, true)", (self.log,))
                self.empty_the_ledgers()

    def of_key(self, key):
        return [event for event in self.pending if event.key == key]

    @rule(key=KEYS, count=st.integers(1, 4), tick=st.booleans())
    def send(self, key, count, tick, ev_type="t"):
        for _ in range(count):
            ev_id = value(
                self.main,
                "select pgq.insert_event(%s, %s, 'd', %s, null, null, null)",
                self.log,
                ev_type,
                key,
            )
            self.pending.append(Event(ev_id, key, is_parked=key in self.parked, ev_type=ev_type))
        if tick:
            self.main.execute("select pgq.ticker(%s)", (self.log,))

    @rule()
    def time_passes(self):
        let_pass(self.main)
        self.now += 1

    @rule()
    def empty_the_ledgers(self):
        self.main.execute("update sluice.ledger set kept_bytes = 0")
        reason = value(self.main, "select reason from sluice._maintain_ledgers(0)")
        assert reason is None

    # Claims

    def expire_leases(self):
        for claim_id, held in list(self.claims.items()):
            if held.lease_end > self.now:
                continue
            del self.claims[claim_id]
            for event in held.events:
                event.claim_id = None
                event.attempts += held.heard_of
                event.deliveries += 1
                event.is_back = True
                event.due = self.now
                if event.attempts >= MAX_ATTEMPTS or event.deliveries >= MAX_DELIVERIES:
                    self.dead_letter(event)
                elif event.key in self.parked:
                    event.is_parked = True

    def dead_letter(self, event):
        self.pending.remove(event)
        self.dead.append(event.ev_id)

    def eligible(self, key, member=None):
        """Return the events of a key that a member may claim now, in order."""
        events = self.of_key(key)
        if key is None:
            return [
                e
                for e in events
                if e.claim_id is None and e.due <= self.now and self.handles(member, e)
            ]
        events = self.free(key, events)
        if self.when_waiting == "skip":
            events.sort(key=lambda event: event.is_new)
        return list(itertools.takewhile(lambda event: self.handles(member, event), events))

    def handles(self, member, event):
        """Return True if a member of the group claims events of that type."""
        return True

    def free(self, key, events):
        """Return the events of a key that wait for nothing but a member, in order."""
        if any(event.claim_id for event in events) or key in self.parked:
            return []
        if self.when_waiting == "block":
            return [] if any(event.due > self.now for event in events) else events
        return [event for event in events if event.due <= self.now]

    @rule(qty=st.integers(1, 6), lease=st.sampled_from([1, 3]))
    def claim(self, qty, lease, member=None):
        self.expire_leases()
        found = claim(self.main, qty, f"{lease} hours", group="workers", log=self.log, types=member)
        assert len(found) <= qty
        may = {key: self.eligible(key, member) for key in ["a", "b", "c", None]}
        if not found:
            assert not any(may.values()), f"nothing was claimed, but {may}"
            return
        if self.when_waiting == "skip":  # a claim of few events may not have met all redeliveries
            for key in ["a", "b", "c"]:
                free = self.free(key, self.of_key(key))
                may[key] = [event for event in free if self.handles(member, event)]
        (claim_id,) = {event.claim_id for event in found}
        held = self.claims[claim_id] = Claim(self.now + lease)
        by_key: dict[str | None, list[Event]] = {}
        for row in found:
            known = {event.ev_id: event for event in may[row.ev_extra1]}
            assert row.ev_id in known, f"{row.ev_id} of {row.ev_extra1} may not be claimed"
            event = known[row.ev_id]
            assert (row.attempt, row.deliveries, row.redriven) == (
                event.attempts + 1,
                event.deliveries + 1,
                event.redriven,
            )
            by_key.setdefault(event.key, []).append(event)
        for key, events in by_key.items():
            if key is not None:
                self.is_in_order(events, may[key])
            for event in events:
                event.claim_id = claim_id
                event.is_new = event.is_back = False
                held.events.append(event)

    def is_in_order(self, events, may):
        ids = [event.ev_id for event in events]
        if self.when_waiting != "skip":
            assert ids == [event.ev_id for event in may][: len(ids)]
            return
        # Due events are redelivered; new events follow in log order.
        new = [event for event in events if event.is_new]
        assert new == [event for event in may if event.is_new][: len(new)]
        left = [event for event in may if event not in events]
        assert not (new and any(event.is_back for event in left)), (
            "redeliveries must precede new events"
        )
        assert ids == sorted(ids)

    # Acknowledgements

    @rule(
        place=st.integers(0, 5),
        outcome=st.sampled_from(["accept", "release", "retry", "reject"]),
        delay=st.none() | HOURS,
        some=st.none() | st.lists(st.integers(0, 5), min_size=1, max_size=3),
    )
    def acknowledge(self, place, outcome, delay, some):
        if not self.claims:
            return
        claim_id = sorted(self.claims)[place % len(self.claims)]
        held = self.claims[claim_id]
        if some is None:
            requested = list(held.events)
        else:
            requested = [
                event
                for n, event in enumerate(held.events)
                if n in {s % len(held.events) for s in some}
            ]
        delay = delay if outcome in ("retry", "release") else None
        settled = acknowledge(
            self.main,
            claim_id,
            outcome,
            None if some is None else [event.ev_id for event in requested],
            delay=None if delay is None else f"{delay} hours",
            group="workers",
            log=self.log,
        )
        held.heard_of = True
        redelivered = self.settle(requested, outcome, delay)
        following = self.following(held, requested, redelivered)
        assert settled == len(requested) + len(following)
        self.settle(following, "release", 0)
        waits = {e.key for e in redelivered if e.due > self.now and e.key is not None}
        if self.when_waiting == "park":
            self.parked |= waits
            for event in self.pending:
                if event.key in self.parked and event.claim_id is None:
                    event.is_parked = True
        held.events = [event for event in held.events if event not in requested + following]
        if not held.events:
            del self.claims[claim_id]

    def settle(self, events, outcome, delay):
        """Apply the outcomes and return the events to redeliver."""
        redelivered = []
        for event in events:
            event.claim_id = None
            if outcome == "accept":
                self.pending.remove(event)
            elif outcome == "reject":
                self.dead_letter(event)
            else:
                event.attempts += outcome == "retry"
                event.deliveries += outcome == "retry"
                pause = delay if delay is not None else int(outcome == "retry")
                event.due = self.now + pause
                event.is_back = pause == 0
                if outcome == "retry" and (
                    event.attempts >= MAX_ATTEMPTS or event.deliveries >= MAX_DELIVERIES
                ):
                    self.dead_letter(event)
                else:
                    redelivered.append(event)
        return redelivered

    def following(self, held, requested, redelivered):
        if self.when_waiting == "skip":
            return []
        first = {}
        for event in redelivered:
            if event.key is not None:
                first.setdefault(event.key, held.events.index(event))
        return [
            event
            for place, event in enumerate(held.events)
            if event not in requested and first.get(event.key, len(held.events)) < place
        ]

    @rule(place=st.integers(0, 5), lease=st.sampled_from([1, 3]))
    def renew(self, place, lease):
        if self.claims:
            claim_id = sorted(self.claims)[place % len(self.claims)]
            renew(self.main, claim_id, f"{lease} hours", group="workers", log=self.log)
            held = self.claims[claim_id]
            held.heard_of = True
            held.lease_end = max(held.lease_end, self.now + lease)

    # Parked keys

    @rule(key=st.sampled_from(["a", "b", "c"]))
    def unpark(self, key):
        self.expire_leases()
        self.main.execute("select sluice.maintain_groups(%s)", (self.log,))
        parked = value(self.main, "select sluice.unpark_key(%s, 'workers', %s)", self.log, key)
        assert (parked > 0) == (key in self.parked)
        if parked:
            self.parked.discard(key)
            for event in self.of_key(key):
                if event.is_parked:
                    event.is_parked = False
                    event.due = self.now
                    event.redriven += event.deliveries > 0
                    event.attempts = event.deliveries = 0

    @rule()
    def look(self):
        """Check the list of blocked keys after the acknowledgement backlog is read."""
        self.expire_leases()
        self.main.execute("select sluice.maintain_groups(%s)", (self.log,))
        listed = {
            key: (reason, claim_id, ev_id)
            for key, reason, claim_id, ev_id in rows(
                self.main,
                "select key, reason, claim_id, ev_id from sluice.list_blocked_keys(%s, 'workers')",
                self.log,
            )
        }
        for key in ["a", "b", "c"]:
            reason, claim_id, ev_id = listed.get(key, (None, None, None))
            events = self.of_key(key)
            holder = next((e.claim_id for e in events if e.claim_id), None)
            if key in self.parked:
                assert reason in ("parked", "claimed")
            elif reason == "claimed":
                assert claim_id == holder
            elif self.when_waiting == "block" and not holder:
                waits = [event for event in events if event.due > self.now]
                assert (reason == "retrying") == bool(waits)
                if waits:
                    assert ev_id == events[0].ev_id
            else:
                assert reason is None
        buried = rows(
            self.main,
            """select msg_id from sluice.dead_letter
            where queue_name = %s and reason <> 'parked' order by msg_id""",
            self.log,
        )
        assert [ev_id for (ev_id,) in buried] == sorted(self.dead)


class TypedKeyMachine(ShareKeyMachine):
    """Members that handle different types, some of them undeclared; the events of others are left to them."""

    @initialize(
        when_waiting=st.sampled_from(["block", "skip", "park"]),
        unhandled=st.sampled_from(["accept", "leave"]),
    )
    def begin(self, when_waiting, unhandled):
        super().begin(when_waiting)
        self.unhandled = unhandled
        self.main.execute(
            "select sluice.set_group_options(%s, 'workers', jsonb_build_object('unhandled', %s::text))",
            (self.log, unhandled),
        )
        self.declared: set[str] = set()
        self.declare(["paid", "shipped"])

    @rule(types=st.sets(st.sampled_from(["paid", "shipped", "rest", "new"]), min_size=1))
    def declare(self, types):
        self.declared |= set(types)
        types = [None if name == "rest" else name for name in types]
        self.main.execute(
            "select sluice.declare_types(%s, 'workers', 'shop', %s::text[], %s::text[])",
            (self.log, [f"on_{name}" for name in types], types),
        )

    @rule()
    def forget(self):
        self.declared -= {"rest", "new"}
        self.main.execute(
            "select sluice.forget_types(%s, 'workers', array['new', null])", (self.log,)
        )

    @rule(
        key=KEYS,
        count=st.integers(1, 3),
        ev_type=st.sampled_from(["paid", "shipped", "new"]),
        tick=st.booleans(),
    )
    def send(self, key, count, ev_type, tick):
        super().send(key, count, tick, ev_type)

    @rule(
        qty=st.integers(1, 6),
        lease=st.sampled_from([1, 3]),
        member=st.none()
        | st.sets(st.sampled_from(["paid", "shipped", "rest", "new"]), min_size=1, max_size=2),
    )
    def claim(self, qty, lease, member):
        super().claim(qty, lease, None if member is None else sorted(member))

    def handles(self, member, event):
        if member is None or event.ev_type in member:
            return True
        is_left = "rest" in self.declared or self.unhandled == "leave"
        return event.ev_type not in self.declared and ("rest" in member or not is_left)

    @rule()
    def look(self):
        super().look()
        waiting = "select coalesce(sum(waiting), 0) from sluice.list_types(%s, 'workers')"
        assert value(self.main, waiting, self.log) <= len(self.pending)


class ParkedKeyMachine(ShareKeyMachine):
    """Park keys, send to them and unpark them; with all rules, this sequence is rare."""

    only_when_waiting = "park"

    @rule(key=st.sampled_from(["a", "b"]))
    def send(self, key):
        super().send(key, count=1, tick=True)

    @precondition(lambda self: self.claims)
    @rule(outcome=st.sampled_from(["release", "retry"]), delay=HOURS)
    def acknowledge(self, outcome, delay):
        super().acknowledge(place=0, outcome=outcome, delay=delay, some=None)

    # An overriding method is not a rule unless decorated.
    def time_passes(self):
        super().time_passes()

    def empty_the_ledgers(self):
        super().empty_the_ledgers()

    def renew(self, place, lease):
        super().renew(place, lease)

    def look(self):
        super().look()


def run(database, seed, base=ShareKeyMachine, **how):
    class Machine(base):
        pass

    Machine.database = database
    with_seed(seed)(Machine)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            suppress_health_check=list(HealthCheck),
            **{"max_examples": 100, "stateful_step_count": 40, **how},
        ),
    )


@pytest.mark.slow
def test_keys_behave_like_the_model(database_18, seed):
    run(database_18, seed)


@pytest.mark.slow
def test_members_of_different_types_behave_like_the_model(database_18, seed):
    run(database_18, seed, base=TypedKeyMachine)


@pytest.mark.slow
def test_parked_keys_behave_like_the_model(database_18, seed):
    run(database_18, seed, base=ParkedKeyMachine, max_examples=20)


PLANTED = {
    "a key that is claimed is free": (
        "sluice._sort_events(sluice.share_group,integer,text[],boolean,sluice.claim,pgq.event_template[])",
        "and t.claim_id is null as is_idle",
        "as is_idle",
    ),
    "a turn ends with the first event": (
        "sluice._end_turns(sluice.share_group,sluice.claim,bigint,bigint[],integer)",
        "bool_and(e.ev_id = any (v_settled))",
        "bool_or(e.ev_id = any (v_settled))",
    ),
    "later events stay in the claim": (
        "sluice._settle(sluice.share_group,bigint,text,bigint[],interval,text,text,jsonb)",
        "if v_behind is null then",
        "if true then",
    ),
    "events are redelivered in the order of their release": (
        "sluice._write_returned(sluice.key_turn,sluice.redelivery[],timestamp with time zone)",
        "order by w.place",
        "order by w.waiting_id desc",
    ),
    "a back-off is not kept": (
        "sluice._write_returned(sluice.key_turn,sluice.redelivery[],timestamp with time zone)",
        "i_turn.due_at := greatest(i_turn.due_at, i_due_at);",
        "",
    ),
    "a key is not checked after its turn": (
        "sluice._end_turns(sluice.share_group,sluice.claim,bigint,bigint[],integer)",
        "t.waiting > 0 or t.returned <> '{}'",
        "t.returned <> '{}'",
    ),
    "the ledgers lose waiting events": (
        "sluice._maintain_ledgers(bigint)",
        "w.waiting_id > (t.turn).upto_waiting",
        "w.waiting_id > (t.turn).upto_waiting + 1",
    ),
    "new events overtake waiting ones": (
        "sluice._sort_events(sluice.share_group,integer,text[],boolean,sluice.claim,pgq.event_template[])",
        "select t.waiting = 0 and t.returned = '{}' and t.claim_id is null",
        "select t.claim_id is null",
    ),
    "a parked key is free": (
        "sluice._sort_events(sluice.share_group,integer,text[],boolean,sluice.claim,pgq.event_template[])",
        "where f.is_parked or not (f.is_idle",
        "where not (f.is_idle",
    ),
    "a key is claimed past an event of another member": (
        "sluice._sort_events(sluice.share_group,integer,text[],boolean,sluice.claim,pgq.event_template[])",
        "when bool_or(e.is_other) over (partition by e.key order by e.position) then 'wait'",
        "when e.is_other then 'wait'",
    ),
    "the ledgers lose left events": (
        "sluice._maintain_ledgers(bigint)",
        "l.waiting_id > (t.state ->> ''upto'')::bigint",
        "l.waiting_id > (t.state ->> ''upto'')::bigint + 1",
    ),
}


# Machines that find a bug in an early run with any seed; with all rules it takes hundreds of runs.
QUICK_MACHINES = {
    "a parked key is free": ParkedKeyMachine,
    "a key is claimed past an event of another member": TypedKeyMachine,
    "the ledgers lose left events": TypedKeyMachine,
}

# Runs of a bug, if not 500: their number decides how Hypothesis begins, and so which run finds the bug.
RUNS = {"a key is claimed past an event of another member": 60}

# Bugs that an early run finds with the seed in tests/seeds.toml. Other bugs take minutes with any seed.
QUICK = seeds.cases(__file__, "test_a_planted_bug_is_found")


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, marks=() if bug in QUICK and bug not in RUNS else pytest.mark.long)
        for bug in PLANTED
    ],
)
def test_a_planted_bug_is_found(database_18, seed, bug):
    with database_18.connect() as connection:
        replace_in(connection, *PLANTED[bug])

    with pytest.raises((AssertionError, psycopg.Error)):
        run(
            database_18,
            seed,
            base=QUICK_MACHINES.get(bug, ShareKeyMachine),
            max_examples=RUNS.get(bug, 500),
            phases=[Phase.generate],
            report_multiple_bugs=False,
        )
