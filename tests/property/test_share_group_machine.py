"""Random sequences of calls to share groups of a log, against a model of events and claims.

One session claims and acknowledges, also in transactions. Two others send, so that events are
committed late, out of order or never. The clock of the ledgers advances in hours, so the seconds
that a test takes do not matter.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support import replace_in, rows, seeds, value
from support.share_groups import (
    acknowledge,
    claim,
    create_group,
    dead,
    info,
    let_pass,
    make_log,
    open_claims,
    renew,
    rotate,
)

LEASE_H = 2
MINUTE = timedelta(minutes=1)
_log_numbers = itertools.count(1)


@dataclass
class Event:
    """A sent event, identified by its data `text`."""

    text: str
    ev_id: int
    ev_txid: int
    sent: int  # logical time
    committed: int | None = None


@dataclass
class Redelivery:
    """An event that waits for its redelivery."""

    due: int  # hours
    attempts: int
    deliveries: int
    readable: bool  # by a claim; outcomes of an open transaction are not readable by its own claims


@dataclass
class Claim:
    """A claim; `events` maps text to (earlier attempts, deliveries including this one)."""

    events: dict[str, tuple[int, int]]
    lease_end: int
    look_at: int  # when a claim checks the lease; at the earliest its original end
    heard_of: bool = False
    expired: bool = False
    settled: dict[str, str] = field(default_factory=dict)
    whole: bool = False  # settled as a whole, without event ids
    forgotten: bool = False  # possibly, as the ledgers were truncated after it was settled

    def unsettled(self) -> list[str]:
        return [] if self.expired else [text for text in self.events if text not in self.settled]


@dataclass
class Group:
    """State of a group; an event that is not in it is new to the group."""

    max_attempts: int
    max_deliveries: int
    before: set[str]  # committed before the start of the group
    claims: dict[int, Claim] = field(default_factory=dict)
    redeliveries: dict[str, Redelivery] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    dead: dict[str, tuple[int, int]] = field(default_factory=dict)

    def met(self) -> set[str]:
        claimed = {text for each in self.claims.values() for text in each.events}
        return self.before | claimed

    def redeliver(self, text: str, due: int, attempts: int, deliveries: int, **how) -> None:
        if attempts >= self.max_attempts or deliveries >= self.max_deliveries:
            self.dead[text] = (attempts, deliveries)
        else:
            self.redeliveries[text] = Redelivery(due, attempts, deliveries, **how)

    def expire(self, now: int) -> None:
        """Redeliver unacknowledged events, as a claim does first."""
        for each in self.claims.values():
            if each.look_at > now or not each.unsettled():
                continue
            if each.lease_end > now:
                each.look_at = each.lease_end
            else:
                for text in each.unsettled():
                    attempts, deliveries = each.events[text]
                    self.redeliver(text, now, attempts + each.heard_of, deliveries, readable=True)
                each.expired = True


PLACE = st.integers(0, 7)  # index into a list, modulo its length
HOURS = st.sampled_from([0, 1, 3])
QUANTITIES = st.sampled_from([1, 1, 2, 3, 50])
WHO = st.sampled_from(["main", "first", "second"])
WHICH = st.sampled_from(["one", "two"])
SOME = st.none() | st.sets(PLACE, min_size=1, max_size=3)


def interval(hours: int | None) -> str | None:
    return None if hours is None else f"{hours} hours"


class ShareGroupMachine(RuleBasedStateMachine):
    sessions: ClassVar[dict[str, psycopg.Connection]] = {}

    # Setup and teardown

    @initialize(
        max_attempts=st.integers(1, 3),
        max_deliveries=st.integers(1, 4),
        backoff=st.sampled_from(["constant", "linear", "exponential"]),
    )
    def begin_all(self, max_attempts, max_deliveries, backoff):
        self.log = f"machine_{next(_log_numbers)}"
        self.main = self.sessions["main"]
        self.backoff = backoff
        self.moment = 0
        self.now = 0
        self.sent: dict[str, Event] = {}
        self.groups: dict[str, Group] = {}
        self.saved: dict[str, Group] | None = None
        self.ticks: dict[int, set[str]] = {}
        self.read: list[str] = []  # by the plain consumer
        self.repeated: list[str] = []
        self.emptied = False

        make_log(self.main, self.log)
        self.main.execute("select pgq.register_consumer(%s, 'plain')", (self.log,))
        self.make("one", "earliest", max_attempts, max_deliveries, set())

    def make(self, name, start, max_attempts, max_deliveries, before):
        made = create_group(
            self.main,
            name,
            log=self.log,
            start=start,
            lease=interval(LEASE_H),
            max_attempts=max_attempts,
            max_deliveries=max_deliveries,
            backoff=self.backoff,
            backoff_base="1 hour",
            backoff_max="3 hours",
            backoff_jitter=False,
        )
        assert made
        self.groups[name] = Group(max_attempts, max_deliveries, before)

    def teardown(self):
        for session in self.sessions.values():
            session.execute("rollback")
        if hasattr(self, "log"):
            self.main.execute("select pgq.drop_queue(%s, true)", (self.log,))
            # Rows of dropped groups would remain until the next truncation and slow down clock
            # changes.
            self.main.execute("truncate sluice.claim, sluice.outcome, sluice.redelivery")

    @precondition(lambda self: self.saved is None and "two" not in self.groups)
    @rule(start=st.sampled_from(["latest", "tick"]), place=PLACE)
    def a_second_group(self, start, place):
        if start == "latest":
            self.make("two", "latest", 2, 3, self.committed())
            return
        kept = [tick for (tick,) in rows(self.main, "select tick_id from pgq.tick order by 1")]
        known = [tick for tick in kept if tick in self.ticks]
        if known:
            tick = known[place % len(known)]
            self.make("two", {"tick": tick}, 2, 3, self.ticks[tick])

    @precondition(lambda self: self.saved is None and "two" in self.groups)
    @rule()
    def drop_the_second(self):
        del self.groups["two"]
        assert value(self.main, "select sluice.drop_group(%s, 'two')", self.log)
        self.main.execute("delete from sluice.dead_letter where consumer_name = 'two'")

    def committed(self):
        return {event.text for event in self.sent.values() if event.committed is not None}

    # Sending

    @rule(who=WHO, count=st.integers(1, 4))
    def send(self, who, count):
        for _ in range(count):
            text = f"e{len(self.sent) + 1}"
            (ev_id,) = (
                self.sessions[who]
                .execute(
                    "select pgq.insert_event(%s, 'kind', %s, 'x1', null, '', 'x4')",
                    (self.log, text),
                )
                .fetchone()
            )
            self.was_sent(who, text, ev_id)

    @rule(who=WHO, far=st.sampled_from([-1000, 1000, 10**9, 2**62]), back=st.booleans())
    def send_with_a_number_of_its_own(self, who, far, back):
        text = f"e{len(self.sent) + 1}"
        number = far + (-len(self.sent) if back else len(self.sent))
        self.sessions[who].execute(
            "select pgq.insert_event_raw(%s, %s, now(), null, null, 'kind', %s, 'x1', null, '', 'x4')",
            (self.log, number, text),
        )
        self.was_sent(who, text, number)

    def was_sent(self, who, text, ev_id):
        session = self.sessions[who]
        self.moment += 1
        in_transaction = session.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        (txid,) = session.execute(
            f"select ev_txid::text::bigint from pgq.event_{self.queue_id()} where ev_data = %s",
            (text,),
        ).fetchone()
        self.sent[text] = Event(text, ev_id, txid, self.moment)
        if not in_transaction:
            self.moment += 1
            self.sent[text].committed = self.moment

    def queue_id(self):
        return value(self.main, "select queue_id from pgq.queue where queue_name = %s", self.log)

    def open_transaction(self, who):
        return self.sessions[who].info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    @rule(who=st.sampled_from(["first", "second"]), commit=st.booleans())
    def a_sender_begins_or_ends(self, who, commit):
        if not self.open_transaction(who):
            self.sessions[who].execute("begin")
            # Assign the transaction id now, so that it is old at the commit.
            self.senders_id(who)
            return
        self.ended(self.senders_id(who), commit)
        self.sessions[who].execute("commit" if commit else "rollback")

    @precondition(lambda self: not self.open_transaction("first"))
    @rule(name=WHICH)
    def an_event_is_committed_when_later_ones_are_claimed(self, name):
        """Force a late commit, which is rare by chance and the reason for claim windows."""
        self.a_sender_begins_or_ends("first", True)
        self.send("first", 1)
        self.send("main", 1)
        self.claim(name, 50, None)
        self.a_sender_begins_or_ends("first", True)

    def senders_id(self, who):
        return value(self.sessions[who], "select pg_current_xact_id()::text::bigint")

    def ended(self, txid, commit):
        self.moment += 1
        for event in list(self.sent.values()):
            if event.ev_txid == txid and event.committed is None:
                if commit:
                    event.committed = self.moment
                else:
                    # The name is not reused.
                    event.committed = None
                    event.ev_txid = 0

    # The session that claims

    @precondition(lambda self: self.saved is None)
    @rule(number_first=st.booleans())
    def begin(self, number_first):
        self.saved = copy.deepcopy(self.groups)
        self.main.execute("begin")
        if number_first:
            self.senders_id("main")

    @precondition(lambda self: self.saved is not None)
    @rule(commit=st.booleans())
    def end(self, commit):
        """End the transaction; a rollback undoes its claims and acknowledgements."""
        self.ended(self.senders_id("main"), commit)
        self.main.execute("commit" if commit else "rollback")
        if not commit:
            self.groups = self.saved
        self.saved = None
        for group in self.groups.values():
            for again in group.redeliveries.values():
                again.readable = True

    @rule(name=WHICH, qty=QUANTITIES, lease=st.none() | st.sampled_from([1, 3]))
    def claim(self, name, qty, lease):
        if name not in self.groups:
            return
        group = self.groups[name]
        group.expire(self.now)

        with self.main.transaction():
            found = claim(self.main, qty, interval(lease), group=name, log=self.log)

        self.was_claimed(group, qty, LEASE_H if lease is None else lease, found)

    def was_claimed(self, group, qty, lease, found):
        due = {t for t, a in group.redeliveries.items() if a.readable and a.due <= self.now}
        new = self.committed() - group.met()
        texts = [event.ev_data for event in found]
        assert len(set(texts)) == len(texts) <= qty
        assert set(texts) <= due | new
        assert bool(texts) == bool(due | new)

        first_new = len([text for text in texts if text in due])
        assert set(texts[:first_new]) <= due, "redeliveries must precede new events"
        if len(texts) > first_new or len(texts) < qty:
            assert due <= set(texts)
        left = due - set(texts)
        if left and first_new:
            latest = max(group.redeliveries[text].due for text in texts[:first_new])
            assert latest <= min(group.redeliveries[text].due for text in left)
        self.is_in_order(texts[first_new:], new - set(texts))
        if not found:
            return

        (claim_id,) = {event.claim_id for event in found}
        assert claim_id > max(group.claims, default=0)
        handed_out = {}
        for event in found:
            sent, before = self.sent[event.ev_data], group.redeliveries.pop(event.ev_data, None)
            attempts = 0 if before is None else before.attempts
            deliveries = 1 + (0 if before is None else before.deliveries)
            assert (event.attempt, event.deliveries) == (attempts + 1, deliveries)
            assert (event.ev_id, int(event.ev_txid)) == (sent.ev_id, sent.ev_txid)
            assert event.redriven == 0
            assert event[-7:] == ("kind", sent.text, "x1", None, "", "x4", None)
            handed_out[event.ev_data] = (attempts, deliveries)
        (lease_until,) = {event.lease_until for event in found}
        now = value(self.main, "select clock_timestamp()")
        assert abs(lease_until - now - timedelta(hours=lease)) < MINUTE
        group.claims[claim_id] = Claim(handed_out, self.now + lease, self.now + lease)

    def is_in_order(self, texts, left):
        """Check that no event precedes one with a smaller id committed before it was sent."""
        later = left | set(texts)
        for text in texts:
            later.discard(text)
            event = self.sent[text]
            for other in (self.sent[each] for each in later):
                overtaken = other.committed < event.sent and other.ev_id < event.ev_id
                assert not overtaken, f"{event} came before {other}"

    # Acknowledgements

    def picked(self, name, place):
        """Return a claim id of a group, newest first, or None if there is none."""
        claims = sorted(self.groups[name].claims, reverse=True) if name in self.groups else []
        return claims[place % len(claims)] if claims else None

    def refusal_of(self, call):
        """Return the SQLSTATE of a call's error, or None; an open transaction stays usable."""
        try:
            with self.main.transaction():
                call()
        except psycopg.DatabaseError as error:
            return error.sqlstate
        return None

    def expect(self, sqlstate, call):
        assert self.refusal_of(call) == sqlstate

    @rule(
        name=WHICH,
        place=PLACE,
        outcome=st.sampled_from(["accept", "release", "retry", "reject"]),
        delay=st.none() | HOURS,
        some=SOME,
    )
    def acknowledge(self, name, place, outcome, delay, some):
        claim_id = self.picked(name, place)
        if claim_id is None:
            return
        group = self.groups[name]
        held = group.claims[claim_id]
        all_texts = list(held.events)
        requested = (
            all_texts
            if some is None
            else list(dict.fromkeys(all_texts[n % len(all_texts)] for n in some))
        )
        delay = delay if outcome == "retry" else None
        error = "broken" if outcome in ("retry", "reject") else None

        def call():
            return acknowledge(
                self.main,
                claim_id,
                outcome,
                None if some is None else [self.sent[text].ev_id for text in requested],
                delay=interval(delay),
                error=error,
                group=name,
                log=self.log,
            )

        open_ones = [text for text in requested if text in held.unsettled()]
        others = {held.settled[text] for text in requested if text in held.settled} - {outcome}
        same = {outcome, "reject"} if outcome == "retry" else {outcome}
        is_repeated = not held.whole and bool(same & set(held.settled.values()))
        if some is None and (open_ones or is_repeated):
            others = set()
        if outcome == "retry":
            others.discard("reject")
        lost = held.expired and (
            some is None or any(text not in held.settled for text in requested)
        )
        if held.forgotten and not (lost or others):
            # Truncated outcomes may be unknown, so a repetition may be refused.
            results = []
            assert self.refusal_of(lambda: results.append(call())) in (None, "SG002")
            assert results in ([], [0])
            return
        if lost or others:
            self.expect("SG002", call)
            return
        with self.main.transaction():
            assert call() == len(open_ones)
        held.whole |= some is None and not held.settled and outcome != "retry"
        for text in open_ones:
            held.settled[text] = outcome
            self.settle(group, text, held, outcome, delay)
            if text in group.dead:
                held.settled[text] = "reject"
        held.heard_of = held.heard_of or bool(open_ones)

    def settle(self, group, text, held, outcome, delay):
        attempts, deliveries = held.events[text]
        readable = self.saved is None
        if outcome == "accept":
            group.done.add(text)
        elif outcome == "release":
            group.redeliveries[text] = Redelivery(self.now, attempts, deliveries - 1, readable)
        elif outcome == "reject":
            group.dead[text] = (attempts + 1, deliveries)
        else:
            attempts += 1
            if delay is None:
                delay = {"constant": 1, "linear": attempts, "exponential": 2 ** (attempts - 1)}
                delay = min(delay[self.backoff], 3)
            group.redeliver(text, self.now + delay, attempts, deliveries, readable=readable)

    @rule(name=WHICH, place=PLACE, lease=st.none() | st.sampled_from([1, 3]))
    def renew(self, name, place, lease):
        claim_id = self.picked(name, place)
        if claim_id is None:
            return
        held = self.groups[name].claims[claim_id]

        def call():
            return renew(self.main, claim_id, interval(lease), group=name, log=self.log)

        if not held.unsettled():
            self.expect("SG002", call)
            return
        with self.main.transaction():
            until = call()
        held.lease_end = max(held.lease_end, self.now + (LEASE_H if lease is None else lease))
        held.heard_of = True
        now = value(self.main, "select clock_timestamp()")
        assert abs(until - now - timedelta(hours=held.lease_end - self.now)) < MINUTE

    # Time and maintenance

    @precondition(lambda self: self.saved is None)
    @rule(hours=st.integers(1, 3))
    def time_passes(self, hours):
        let_pass(self.main, f"{hours} hours")
        self.now += hours

    @precondition(lambda self: self.saved is None)
    @rule()
    def tick(self):
        tick = value(self.main, "select pgq.ticker(%s)", self.log)
        if tick is not None:
            self.ticks[tick] = self.committed()

    @precondition(lambda self: self.saved is None)
    @rule()
    def rotate(self):
        rotate(self.main, self.log)
        self.was_maintained()

    @precondition(lambda self: self.saved is None)
    @rule()
    def maintain(self):
        self.main.execute("select sluice.maintain_groups(%s)", (self.log,))
        self.was_maintained()
        # As if the ledgers were large. Open transactions of other sessions may prevent the
        # truncation.
        self.main.execute("select sluice._maintain_ledgers(0)")
        for group in self.groups.values():
            for each in group.claims.values():
                each.forgotten = not each.unsettled()

    def was_maintained(self):
        """Update the model: maintenance expires leases as a claim does."""
        for group in self.groups.values():
            group.expire(self.now)

    @precondition(lambda self: self.saved is None)
    @rule()
    def read_as_a_plain_consumer(self):
        while batch := value(self.main, "select pgq.next_batch(%s, 'plain')", self.log):
            events = rows(
                self.main, "select ev_id, ev_data, ev_retry from pgq.get_batch_events(%s)", batch
            )
            self.read += [text for _, text, again in events if again is None]
            if events and events[0][2] is None:
                self.main.execute("select pgq.event_retry(%s, %s, 0)", (batch, events[0][0]))
                self.repeated.append(events[0][1])
            assert value(self.main, "select pgq.finish_batch(%s)", batch) == 1
        # Retried events are inserted into the log again, for this consumer only.
        self.main.execute("select pgq.maint_retry_events()")
        newest = max(self.ticks, default=None)
        assert len(set(self.read)) == len(self.read)
        assert newest is None or self.ticks[newest] <= set(self.read)

    @precondition(lambda self: self.saved is None and self.moment > 20)
    @rule()
    def drain(self):
        """Check that every committed event reaches a final outcome."""
        self.time_passes(20)
        for name, group in self.groups.items():
            for _ in range(1000):
                group.expire(self.now)
                found = claim(self.main, 50, group=name, log=self.log)
                self.was_claimed(group, 50, LEASE_H, found)
                if not found:
                    break
                claim_id = found[0].claim_id
                done = acknowledge(self.main, claim_id, group=name, log=self.log)
                assert done == len(found)
                held = group.claims[claim_id]
                held.settled = dict.fromkeys(held.events, "accept")
                held.whole = True
                group.done |= set(held.events)
            ended = group.before | group.done | set(group.dead)
            assert ended == self.committed() | group.before
            assert not group.redeliveries

    # Invariants

    @invariant()
    def every_event_is_in_one_place(self):
        for group in getattr(self, "groups", {}).values():
            places = [text for each in group.claims.values() for text in each.unsettled()]
            places += [*group.redeliveries, *group.done, *group.dead]
            assert sorted(places) == sorted(group.met() - group.before)

    @invariant()
    def the_dead_are_the_models(self):
        for name, group in getattr(self, "groups", {}).items():
            found = sorted(
                (ev_id, attempts, deliveries)
                for ev_id, _, _, attempts, deliveries in dead(self.main, name, log=self.log)
            )
            assert found == sorted(
                (self.sent[text].ev_id, *counts) for text, counts in group.dead.items()
            )

    @invariant()
    def the_open_claims_are_the_models(self):
        for name, group in getattr(self, "groups", {}).items():
            found = open_claims(self.main, name, log=self.log)
            expected = {n: c for n, c in group.claims.items() if c.unsettled()}
            assert {n: (c.events, c.settled) for n, c in found.items()} == {
                n: (len(c.events), len(c.settled)) for n, c in expected.items()
            }

    @invariant()
    def the_sums_are_the_models(self):
        for name, group in getattr(self, "groups", {}).items():
            found = info(self.main, name, log=self.log)
            leased = sum(len(each.unsettled()) for each in group.claims.values())
            assert (found.leased, found.dead) == (leased, len(group.dead))
            assert found.retrying == len(group.redeliveries)


def run(database, seed, **options):
    with (
        database.connect() as main,
        database.connect() as first,
        database.connect() as second,
    ):
        sessions = {"main": main, "first": first, "second": second}
        machine = with_seed(seed)(type("Machine", (ShareGroupMachine,), {"sessions": sessions}))
        run_state_machine_as_test(
            machine,
            settings=settings(
                **{
                    "max_examples": 40,
                    "stateful_step_count": 40,
                    "suppress_health_check": list(HealthCheck),
                    **options,
                }
            ),
        )


def test_share_groups_do_what_their_model_does(database_18, seed):
    run(database_18, seed)


LOG_FUNCTIONS = "pgq._outdated_functions(integer[])"
CLAIM = "sluice.claim(text,text,integer,interval,boolean,text[],boolean)"
LEASE = "sluice._expire_lease(sluice.share_group,sluice.claim,bigint,integer)"
# Bug → function, a part of its source, and the bug that replaces it.
PLANTED = {
    "a late commit is skipped": (
        LOG_FUNCTIONS,
        "where pg_visible_in_snapshot(late.txid, i_upto)\n        ) as e\n        order by",
        "where false\n        ) as e\n        order by",
    ),
    "numbers before the window are skipped": (
        LOG_FUNCTIONS,
        "if i_after_ev_id is null or i_after_ev_id < i_after_seq and v_from > i_after_ev_id then",
        "if false then",
    ),
    "numbers behind the window are skipped": (
        LOG_FUNCTIONS,
        "if cardinality(v_events) < i_qty and i_after_ev_id is distinct from 9223372036854775807 then",
        "if false then",
    ),
    "the last event of a claim is claimed again": (
        LOG_FUNCTIONS,
        "e.ev_id > v_from",
        "e.ev_id >= v_from",
    ),
    "the repeated events of another consumer are claimed": (
        CLAIM,
        "v_group.owner, v_left",
        "v_group.owner - 1, v_left",
    ),
    "the own transaction counts as committed": (
        "sluice._next_window(sluice.share_group,sluice.claim,integer)",
        "claim.upto_snapshot := pgq._others_snapshot();",
        "claim.upto_snapshot := pg_current_snapshot();",
    ),
    "outcomes of the own transaction are not read": (
        "sluice._read_outcomes(sluice.share_group,sluice.claim)",
        "from pg_snapshot_xip(claim.backlog_snapshot)",
        "from pg_snapshot_xip('1:1:')",
    ),
    "a release counts": (
        "sluice._redeliver(sluice.share_group,sluice.claim,sluice.outcome)",
        "v_delivery := 0;",
        "v_delivery := 1;",
    ),
    "an expired lease without a renewal is an attempt": (
        "sluice._redeliver(sluice.share_group,sluice.claim,sluice.outcome)",
        "found::integer",
        "1",
    ),
    "the next check of leases is too late": (
        "sluice._next_look(sluice.claim,boolean)",
        "least(v_lease_until, v_due_at)",
        "greatest(v_lease_until, v_due_at)",
    ),
    "a back-off is not kept": (
        "sluice._take_redeliveries(sluice.share_group,integer,sluice.claim)",
        "and r.due_at <= claim.claimed_at",
        "and true",
    ),
    "settled events expire": (LEASE, "e.ev_id <> all (v_settled)", "true"),
    "a renewal is forgotten": (LEASE, "if v_renewal > i_renewal and", "if false and"),
    "the end of a renewal is forgotten": (
        LEASE,
        "v_redelivery.attempts := v_renewal;",
        "return 0;",
    ),
    "what was claimed again is acknowledged": (
        "sluice._unsettled(sluice.share_group,sluice.claim,text,bigint[])",
        "if v_lost <> '{}' then",
        "if false then",
    ),
    "one attempt too many": (
        "sluice._settle(sluice.share_group,bigint,text,bigint[],interval,text,text,jsonb)",
        "sluice._is_last(c.attempts + 1,",
        "sluice._is_last(c.attempts,",
    ),
    "rotation does not wait for open claims": (
        "sluice._move_group(sluice.share_group,sluice.claim)",
        "v_is_found := v_claim.is_open;",
        "v_is_found := false;",
    ),
    "the end is the last tick": (
        "sluice._group_start(integer,jsonb)",
        "v_tick.tick_snapshot := pgq._others_snapshot();",
        "",
    ),
}


# Bugs that an early run finds with the seed in tests/seeds.toml. Other bugs take minutes with any seed.
QUICK = seeds.cases(__file__, "test_a_planted_bug_is_found")


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=() if bug in QUICK else pytest.mark.long) for bug in PLANTED],
)
def test_a_planted_bug_is_found(database_18, seed, bug):
    with database_18.connect() as connection:
        replace_in(connection, *PLANTED[bug])

    with pytest.raises((AssertionError, psycopg.Error)):
        run(
            database_18,
            seed,
            max_examples=1000,
            stateful_step_count=60,
            phases=[Phase.generate],
            report_multiple_bugs=False,
        )
