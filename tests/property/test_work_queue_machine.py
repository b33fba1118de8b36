"""Random sequences of calls to a work queue, also in transactions, against a model."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support import replace_in, rows

LATER_S = 100_000  # no timeout expires during a test
_queue_numbers = itertools.count(1)


@dataclass
class Held:
    """A message in the model's queue."""

    body: object
    visible: bool
    read_ct: int = 0
    was_read: bool = False  # since its last release


@dataclass
class Model:
    """The location of every message; ids in none of the three are deleted."""

    queue: dict[int, Held] = field(default_factory=dict)
    archive: dict[int, int] = field(default_factory=dict)  # msg_id → read_ct
    dead: dict[int, int] = field(default_factory=dict)

    def visible(self, body=None):
        return [
            msg_id
            for msg_id, held in sorted(self.queue.items())
            if held.visible and (body is None or held.body == body)
        ]


# Indexes into the queue, modulo its length; beyond PRESENT, ids that do not exist.
PRESENT = 7
ONE = st.integers(0, PRESENT + 2)
SOME = st.lists(ONE, max_size=6)
BODIES = st.sampled_from(["a", "b"])
DELAYS = st.sampled_from([0, -5, LATER_S])
TIMES = st.sampled_from([0, LATER_S])
QUANTITIES = st.sampled_from([0, 1, 2, 3, 50])


class WorkQueueMachine(RuleBasedStateMachine):
    connection = None

    @initialize()
    def create(self):
        self.name = f"machine_{next(_queue_numbers)}"
        self.model = Model()
        self.next_id = 1
        self.before = None
        self.call("create")

    def teardown(self):
        self.connection.execute("rollback")

    def call(self, function, *arguments):
        """Return the rows of a `pgmq` function, or of another by its full name, for this queue."""
        schema, _, bare = ("pgmq." + function if "." not in function else function).rpartition(".")
        casts = [
            "::bigint[]"
            if isinstance(argument, list)
            else "::jsonb"
            if isinstance(argument, str)
            else ""
            for argument in arguments
        ]
        if schema == "sluice" and bare == "reject":
            casts[2] = "::text"
        places = ", ".join(["%s", *["%s" + cast for cast in casts]])
        return rows(
            self.connection, f"select * from {schema}.{bare}({places})", self.name, *arguments
        )

    def took(self, sent):
        assert sent == [(self.next_id + n,) for n in range(len(sent))]
        self.next_id += len(sent)

    def picked(self, place):
        present = sorted(self.model.queue)
        if place > PRESENT or not present:
            return self.next_id + place - PRESENT - 2
        return present[place % len(present)]

    # Sending

    @rule(body=BODIES, delay=DELAYS)
    def send(self, body, delay):
        self.model.queue[self.next_id] = Held(body, visible=delay <= 0)
        self.took(self.call("send", f'"{body}"', delay))

    @rule(bodies=st.lists(BODIES, min_size=1, max_size=6), delay=DELAYS)
    def send_batch(self, bodies, delay):
        for n, body in enumerate(bodies):
            self.model.queue[self.next_id + n] = Held(body, visible=delay <= 0)
        query = "select * from pgmq.send_batch(%s, %s::jsonb[], %s)"
        self.took(rows(self.connection, query, self.name, [f'"{body}"' for body in bodies], delay))

    # Reading

    @rule(vt=TIMES, qty=QUANTITIES, body=st.none() | BODIES)
    def read(self, vt, qty, body):
        expected = self.model.visible(body)[:qty]
        for msg_id in expected:
            self.model.queue[msg_id].read_ct += 1
            self.model.queue[msg_id].was_read = True
            self.model.queue[msg_id].visible = vt == 0

        found = self.call("read", vt, qty, *([] if body is None else [f'"{body}"']))

        assert [row[0] for row in found] == expected
        self.are_as_in_the_model(found)

    @rule(qty=QUANTITIES)
    def pop(self, qty):
        expected = self.model.visible()[:qty]
        held = {msg_id: self.model.queue.pop(msg_id) for msg_id in expected}

        found = self.call("pop", qty)

        assert [row[:2] for row in found] == [(i, held[i].read_ct) for i in expected]

    # Changing the time

    @rule(place=ONE, vt=TIMES)
    def set_vt_of_one(self, place, vt):
        msg_id = self.picked(place)
        self.changed_vt([msg_id], vt, self.call("set_vt", msg_id, vt))

    @rule(places=SOME, vt=TIMES)
    def set_vt_of_some(self, places, vt):
        msg_ids = [self.picked(place) for place in places]
        self.changed_vt(msg_ids, vt, self.call("set_vt", msg_ids, vt))

    @rule(places=SOME, vt=TIMES, exact=st.booleans())
    def update_vt_by_hand(self, places, vt, exact):
        """Update vt directly, as PGMQ's users do; `exact` is the border of visible and delayed."""
        msg_ids = [self.picked(place) for place in places]
        moment = "clock_timestamp() + make_interval(secs => %s)"
        if exact and vt == 0:
            moment = "enqueued_at + make_interval(secs => %s)"
        found = rows(
            self.connection,
            f"update pgmq.q_{self.name} set vt = {moment} where msg_id = any (%s) "
            "returning msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers",
            vt,
            msg_ids,
        )
        self.changed_vt(msg_ids, vt, sorted(found))

    def changed_vt(self, msg_ids, vt, found):
        expected = sorted(set(msg_ids) & self.model.queue.keys())
        for msg_id in expected:
            self.model.queue[msg_id].visible = vt == 0
        assert [row[0] for row in found] == expected
        self.are_as_in_the_model(found)

    def are_as_in_the_model(self, found):
        for msg_id, read_ct, _, last_read_at, _, message, _ in found:
            held = self.model.queue[msg_id]
            assert (read_ct, message) == (held.read_ct, held.body)
            assert (last_read_at is not None) == held.was_read

    # Finishing

    @rule(place=ONE)
    def delete_one(self, place):
        msg_id = self.picked(place)
        was_there = self.model.queue.pop(msg_id, None) is not None
        assert self.call("delete", msg_id) == [(was_there,)]

    @rule(places=SOME)
    def delete_some(self, places):
        msg_ids = [self.picked(place) for place in places]
        expected = sorted(set(msg_ids) & self.model.queue.keys())
        for msg_id in expected:
            del self.model.queue[msg_id]
        assert self.call("delete", msg_ids) == [(msg_id,) for msg_id in expected]

    @rule(place=ONE)
    def archive_one(self, place):
        msg_id = self.picked(place)
        held = self.model.queue.pop(msg_id, None)
        if held is not None:
            self.model.archive[msg_id] = held.read_ct
        assert self.call("archive", msg_id) == [(held is not None,)]

    @rule(places=SOME)
    def archive_some(self, places):
        msg_ids = [self.picked(place) for place in places]
        expected = sorted(set(msg_ids) & self.model.queue.keys())
        for msg_id in expected:
            self.model.archive[msg_id] = self.model.queue.pop(msg_id).read_ct
        assert self.call("archive", msg_ids) == [(msg_id,) for msg_id in expected]

    @rule(place=ONE, stale=st.booleans(), delay=TIMES)
    def release(self, place, stale, delay):
        msg_id = self.picked(place)
        held = self.model.queue.get(msg_id)
        read_ct = 1 if held is None else held.read_ct - stale
        current = held is not None and not stale
        if current:
            held.visible = delay == 0
            held.was_read &= delay == 0
        assert self.call("sluice.release", msg_id, read_ct, delay) == [(current,)]

    @rule(place=ONE, stale=st.booleans())
    def reject(self, place, stale):
        msg_id = self.picked(place)
        held = self.model.queue.get(msg_id)
        read_ct = 1 if held is None else held.read_ct - stale
        current = held is not None and not stale
        if current:
            self.model.dead[msg_id] = self.model.queue.pop(msg_id).read_ct
        assert self.call("sluice.reject", msg_id, read_ct, "broken") == [(current,)]

    @precondition(lambda self: self.next_id % 7 == 0)
    @rule()
    def purge(self):
        assert self.call("purge_queue") == [(len(self.model.queue),)]
        self.model.queue.clear()

    # Transactions

    @precondition(lambda self: self.before is None)
    @rule()
    def begin(self):
        self.before = copy.deepcopy(self.model)
        self.connection.execute("begin")

    @precondition(lambda self: self.before is not None)
    @rule()
    def commit(self):
        self.before = None
        self.connection.execute("commit")

    @precondition(lambda self: self.before is not None)
    @rule()
    def roll_back(self):
        """Roll back; only the consumed ids stay used."""
        self.model, self.before = self.before, None
        self.connection.execute("rollback")

    # Invariants

    @invariant()
    def every_message_is_in_one_place_and_that_is_the_models(self):
        found = rows(
            self.connection,
            f"""
            select 'queue', msg_id, read_ct from pgmq.q_{self.name}
            union all select 'archive', msg_id, read_ct from pgmq.a_{self.name}
            union all select 'dead', msg_id, read_ct from sluice.dead_letter where queue_name = %s
            order by msg_id
            """,
            self.name,
        )
        expected = [
            *[("queue", msg_id, held.read_ct) for msg_id, held in self.model.queue.items()],
            *[("archive", *archived) for archived in self.model.archive.items()],
            *[("dead", *dead) for dead in self.model.dead.items()],
        ]
        assert found == sorted(expected, key=lambda place: place[1])
        assert len({msg_id for _, msg_id, _ in found}) == len(found)

    @invariant()
    def metrics_are_the_models(self):
        # In a transaction, metrics are those of its start.
        if self.before is not None:
            return
        ((name, length, newest_s, oldest_s, total, _, visible, _),) = self.call("metrics")
        assert (name, length) == (self.name, len(self.model.queue))
        assert (total, visible) == (self.next_id - 1, len(self.model.visible()))
        assert (newest_s is None, oldest_s is None) == (length == 0,) * 2


def run(database, seed, **options):
    with database.connect() as connection:
        machine = with_seed(seed)(type("Machine", (WorkQueueMachine,), {"connection": connection}))
        run_state_machine_as_test(
            machine,
            settings=settings(
                **{
                    "max_examples": 80,
                    "stateful_step_count": 40,
                    "suppress_health_check": list(HealthCheck),
                    **options,
                }
            ),
        )


def test_a_queue_does_what_its_model_does(database_18, seed):
    run(database_18, seed)


READERS = "pgmq._outdated_readers(text[])"
# Bug → function, a part of its source, and the bug that replaces it.
PLANTED = {
    "a stale claim is released": (
        "sluice.release(text,bigint,integer,integer,timestamptz)",
        "read_ct = $3",
        "read_ct >= $3",
    ),
    "a stale claim is rejected": (
        "sluice.reject(text,bigint,integer,text,text,timestamptz)",
        "read_ct = $2",
        "read_ct >= $2",
    ),
    "the times of other messages change": (
        "pgmq.set_vt(text,bigint[],timestamptz)",
        "msg_id = any ($2)",
        "msg_id <= any ($2)",
    ),
    "only two messages are archived": (
        "pgmq.archive(text,bigint[])",
        "from moved",
        "from moved limit 2",
    ),
    "an invisible message is not deleted": (
        READERS,
        "and (queued.enqueued_at = enqueued_fence or enqueued_fence is null);",
        "and (queued.enqueued_at = enqueued_fence or enqueued_fence is null) and queued.vt <= clock_timestamp();",
    ),
    "a time is a second late": ("pgmq.set_vt(text,bigint,integer)", "secs => vt", "secs => vt + 1"),
    # The one statement of a read without due messages.
    "due messages come after all ready ones": (
        READERS,
        "where deferred.vt > deferred.enqueued_at\n                      and deferred.vt >= v_first_vt\n"
        "                      and deferred.vt <= due_by",
        "where false",
    ),
    "messages in flight are ready": (
        READERS,
        "where ready.vt <= ready.enqueued_at\n                  and ready.vt <= due_by",
        "where true",
    ),
    "a condition is ignored": (READERS, "if v_contained is null and (", "if ("),
    "ready messages in any order": (
        READERS,
        "order by ready.msg_id\n",
        "order by ready.msg_id desc\n",
    ),
    "a batch is sent in another order": (
        "pgmq.send_batch(text,jsonb[],integer)",
        "select $1, unnest($2), null returning",
        "select $1, m, null from unnest($2) as m order by m returning",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(database_18, seed, bug):
    with database_18.connect() as connection:
        replace_in(connection, *PLANTED[bug])

    # After a slow read, a queue is read in another way, where the bug may not be. Hypothesis then finds that a sequence
    # that it repeats fails at another step.
    with pytest.raises((AssertionError, Flaky)):
        run(
            database_18,
            seed,
            max_examples=1000,
            phases=[Phase.generate],
            report_multiple_bugs=False,
        )
