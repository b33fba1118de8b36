"""Readiness: decisions of a notifier on simulated queues and clocks."""

from __future__ import annotations

import pytest

from pgsluice.client.calls.listeners import Ends, Pulse, QueueIds, QueuePoll
from pgsluice.worker.wakeups.readiness import QueueToPoll, Readiness

EPOCH_S = 1_800_000_000.0
ROUND_S = 0.05


class Queues:
    """Simulated queues of a server, and the rounds of a notifier that checks them."""

    def __init__(self, *names):
        self.names = names
        self.readiness = Readiness()
        self.now_s = 1000.0
        self.last_ids = dict.fromkeys(names)
        self.ready = {name: [] for name in names}  # msg_ids
        self.deferred = {name: [] for name in names}  # vt, seconds since EPOCH_S
        self.cost_s = dict.fromkeys(names, 0.0001)
        self.locked = set()
        self.polls = []
        self.readiness.follow(names, self.now_s)

    @property
    def server_s(self):
        return EPOCH_S + self.now_s

    def send(self, name, *msg_ids):
        self.begin(name, *msg_ids)
        self.ready[name] += msg_ids

    def begin(self, name, *msg_ids):
        """Allocate ids without committing."""
        self.last_ids[name] = max(msg_ids)

    def poll(self, want):
        if want.queue_name in self.locked:
            return None
        ready = sorted(i for i in self.ready[want.queue_name] if i > (want.ready_after or 0))
        vts = sorted(v for v in self.deferred[want.queue_name] if v > (want.due_after_s or 0))
        due = [v for v in vts if v <= self.server_s]
        future = [v for v in vts if v > self.server_s]
        first, last = (ready[0], ready[-1]) if ready else (None, None)
        first_due, last_due = (due[0], due[-1]) if due else (None, None)
        cost_s = self.cost_s[want.queue_name] if want.is_whole else 0.0001
        return QueuePoll(
            want.queue_name,
            Ends(first, last, first_due, last_due),
            future[0] if future and want.is_whole else None,
            cost_s,
        )

    def round(self, *, ids_are_known=True):
        """Run one round; return the queues that it announces."""
        self.now_s += ROUND_S
        ids = [self.last_ids[name] for name in self.names] if ids_are_known else None
        due = self.readiness.due(self.names, Pulse(True, self.server_s, ids), self.now_s)
        self.polls += due
        return [
            want.queue_name
            for want in due
            if self.readiness.found(want, self.poll(want), self.now_s)
        ]

    def await_b(self, first, last):
        """Run one round in which the server announces messages of `b`; return the queues announced besides."""
        self.now_s += ROUND_S
        ends = [[None, id_, None] for id_ in (first, last)]
        pulse = Pulse(True, self.server_s, [self.last_ids[name] for name in self.names], *ends)
        due = self.readiness.due(self.names, pulse, self.now_s)
        assert self.readiness.announced(self.names, pulse, self.now_s)
        return [
            want.queue_name
            for want in due
            if self.readiness.found(want, self.poll(want), self.now_s)
        ]

    def watch(self, name):
        (watch,) = self.readiness.watches([QueueIds(name, 1)], self.now_s)
        return watch.known_id, watch.seen_id, watch.is_pending

    def seconds_until_announced(self, at_most_s):
        begin_s = self.now_s
        while self.now_s - begin_s < at_most_s:
            if self.round():
                return self.now_s - begin_s
        raise AssertionError(f"no queue was announced within {at_most_s} s")

    def rounds(self, seconds):
        """Run rounds for some seconds; return the announced queues."""
        return [name for _ in range(round(seconds / ROUND_S)) for name in self.round()]


@pytest.fixture
def queues():
    """Three queues that have been empty for a minute."""
    queues = Queues("a", "b", "c")
    assert queues.rounds(60) == []
    queues.polls.clear()
    return queues


def test_messages_present_at_the_first_check_are_announced():
    queues = Queues("a", "b")
    queues.send("a", 1)

    assert queues.round() == ["a"]


def test_a_message_is_announced_in_the_next_round_and_once(queues):
    queues.send("b", 1)

    assert queues.round() == ["b"]
    assert queues.rounds(0.9) == []


def test_a_message_sent_between_the_pulse_and_the_poll_is_announced_once(queues):
    pulse = Pulse(True, queues.server_s, [None, 4, None])
    (want,) = queues.readiness.due(queues.names, pulse, queues.now_s)
    queues.send("b", 5)
    assert queues.readiness.found(want, queues.poll(want), queues.now_s)
    queues.readiness._queues["b"].whole_cost_s = 0.1  # the next poll begins at its bounds

    assert queues.rounds(0.9) == []


def test_a_message_found_beyond_the_bounds_is_announced_once(queues):
    queues.cost_s["b"] = 0.02
    queues.send("b", 1)
    assert queues.round() == ["b"]
    queues.ready["b"].clear()
    queues.rounds(0.1)
    queues.send("b", 2)
    assert queues.round() == ["b"]

    assert queues.rounds(0.9) == []
    assert {want.is_whole for want in queues.polls if want.queue_name == "b"} == {True, False}


def test_many_messages_of_one_round_are_one_announcement(queues):
    queues.send("b", *range(1, 1000))

    assert queues.round() == ["b"]


def test_a_send_that_has_not_committed_is_not_announced_and_then_it_is(queues):
    queues.begin("b", 1)
    assert queues.rounds(2) == []
    queues.ready["b"].append(1)

    assert queues.seconds_until_announced(at_most_s=0.3)


@pytest.mark.parametrize(("open_s", "late_s"), [(0.5, 0.15), (5, 0.6), (60, 1.1)])
def test_the_longer_a_sender_was_open_the_later_its_commit_may_be_seen(queues, open_s, late_s):
    queues.begin("b", 1)
    queues.rounds(open_s)
    queues.ready["b"].append(1)

    assert queues.seconds_until_announced(at_most_s=late_s)


def test_a_late_commit_behind_others_is_announced(queues):
    queues.begin("b", 5)
    queues.send("b", 6)
    assert queues.round() == ["b"]
    queues.ready["b"] = [5]

    assert queues.round() == ["b"]


def test_late_commit_between_two_locked_messages_is_announced(queues):
    queues.send("b", 4, 6)
    queues.begin("b", 6)
    assert queues.round() == ["b"]
    queues.ready["b"] = [5, 6]

    assert queues.round() == ["b"]


@pytest.mark.parametrize("after_s", [0.2, 3, 40, 400])
def test_message_that_becomes_due_is_announced_within_one_cycle(queues, after_s):
    queues.send("a", 1)
    queues.round()
    queues.ready["a"].clear()
    queues.deferred["a"].append(queues.server_s + after_s)
    assert queues.rounds(after_s - 2 * ROUND_S) == []

    assert queues.seconds_until_announced(at_most_s=4 * ROUND_S)


def test_a_queue_at_rest_is_looked_at_once_in_a_second_and_its_sequence_each_round(queues):
    queues.rounds(10)

    assert 20 <= len(queues.polls) <= 33


def test_message_released_early_in_an_idle_queue_is_found_within_about_a_second(queues):
    queues.deferred["c"].append(queues.server_s - 1)

    assert queues.seconds_until_announced(at_most_s=1.1)


def test_unread_message_is_announced_again_with_increasing_interval(queues):
    queues.send("a", 1)

    assert len(queues.rounds(0.5)) == 1
    assert len(queues.rounds(60)) in (5, 6)
    assert 15 <= len(queues.rounds(600)) <= 21


def test_a_backlog_that_is_being_read_is_announced_at_most_once_a_round(queues):
    queues.send("a", *range(1, 101))
    announced = []
    for _ in range(100):
        queues.ready["a"].pop(0)
        announced.append(queues.round())

    assert all(names in ([], ["a"]) for names in announced)
    assert announced[-1] == []


def test_an_expensive_queue_is_looked_at_from_its_bounds_on_and_announced_all_the_same(queues):
    queues.cost_s["a"] = 0.1  # dead index entries before the first message
    queues.rounds(1.2)
    queues.polls.clear()
    for msg_id in range(1, 101):
        queues.send("a", msg_id)
        assert queues.round() == ["a"]
        queues.ready["a"].clear()
        queues.rounds(0.1)

    polls = [want for want in queues.polls if want.queue_name == "a"]
    seconds = 100 * (ROUND_S + 0.1)
    assert sum(want.is_whole for want in polls) <= seconds / (0.1 / 0.05) + 6, (
        "some more until the average knows"
    )
    assert any(not want.is_whole for want in polls)


def test_message_before_the_checked_range_is_found_by_the_next_full_check(queues):
    queues.cost_s["a"] = 0.1
    queues.rounds(1.2)
    queues.begin("a", 7)
    queues.rounds(3)
    queues.send("a", 8)
    queues.seconds_until_announced(at_most_s=0.6)
    queues.ready["a"] = [7]

    assert queues.seconds_until_announced(at_most_s=2.2)


def test_many_expensive_queues_at_rest_are_looked_at_less_often():
    names = [f"q{n}" for n in range(30)]
    queues = Queues(*names)
    queues.cost_s = dict.fromkeys(names, 0.01)
    queues.rounds(2)
    queues.readiness.follow(names, queues.now_s)
    queues.polls.clear()

    queues.rounds(30)

    assert 100 <= len(queues.polls) <= 420


def test_of_a_thousand_queues_at_rest_a_round_looks_at_a_few_and_at_each_in_its_turn():
    names = [f"q{n}" for n in range(1000)]
    queues = Queues(*names)
    queues.round()  # all are new
    queues.polls.clear()

    for _ in range(80):
        before = len(queues.polls)
        queues.round()
        assert len(queues.polls) - before <= 20

    assert {want.queue_name for want in queues.polls[:1000]} == set(names)


def test_a_message_need_not_wait_for_the_looks_at_queues_at_rest():
    names = [f"q{n}" for n in range(1000)]
    queues = Queues(*names)
    queues.rounds(3)
    queues.send("q700", 1)

    assert queues.round() == ["q700"]


def test_a_locked_queue_is_asked_again_and_announced_when_it_is_free(queues):
    queues.locked.add("a")
    queues.send("a", 1)
    assert queues.rounds(5) == []
    assert len([want for want in queues.polls if want.queue_name == "a"]) < 30
    queues.locked.clear()

    assert queues.seconds_until_announced(at_most_s=1.1)


def test_without_the_ids_the_next_looks_find_what_was_sent(queues):
    queues.send("a", 1)
    announced = [name for _ in range(25) for name in queues.round(ids_are_known=False)]

    assert announced == ["a"]


def test_a_queue_that_is_gone_is_forgotten_and_new_when_it_comes_back(queues):
    queues.send("a", 1)
    assert queues.round() == ["a"]
    queues.readiness.follow(["b", "c"], queues.now_s)
    queues.readiness.follow(["a", "b", "c"], queues.now_s)

    assert queues.round() == ["a"]


def test_the_first_look_is_at_all_of_a_queue():
    queues = Queues("a")
    queues.round()

    assert queues.polls == [QueueToPoll("a", None, None, True)]


def test_messages_announced_by_the_server_are_not_announced_again(queues):
    queues.send("b", 1, 2)
    assert queues.await_b(1, 2) == []
    assert queues.rounds(0.9) == []

    queues.ready["b"] = []  # claimed
    assert queues.rounds(1) == []
    queues.send("b", 3)
    assert queues.await_b(3, 3) == []


def test_messages_announced_by_the_server_are_announced_again_if_not_claimed(queues):
    queues.send("b", 1)
    queues.await_b(1, 1)

    assert 0.9 < queues.seconds_until_announced(at_most_s=5) < 1.5


def test_late_commit_of_a_lower_id_is_announced_after_one_by_the_server(queues):
    queues.begin("b", 5)
    queues.send("b", 6)
    queues.await_b(6, 6)
    queues.ready["b"] = [5]

    assert queues.round() == ["b"]


def test_a_queue_is_pending_for_a_second_after_its_sequence_has_moved(queues):
    queues.begin("b", 1)
    assert queues.watch("b") == (None, 0, False)
    queues.round()
    assert queues.watch("b") == (1, 0, True)
    queues.rounds(1.1)
    assert queues.watch("b") == (1, 0, False)


def test_ids_above_those_seen_are_awaited(queues):
    queues.send("b", 1, 2)
    queues.round()
    assert queues.watch("b") == (2, 2, True)
    queues.send("b", 3)
    queues.await_b(3, 3)
    assert queues.watch("b") == (3, 3, True)


def test_consumption_of_a_backlog_is_announced_ever_more_rarely(queues):
    queues.send("b", *range(1, 1001))
    announced = queues.round()
    for _ in range(200):  # ten seconds
        del queues.ready["b"][:4]
        announced += queues.round()

    assert len(announced) < 40


def test_ids_of_a_new_queue_with_an_old_name_are_awaited_from_its_first(queues):
    queues.send("b", 100)
    queues.round()
    queues.ready["b"] = []
    queues.send("b", 1)
    queues.round()

    assert queues.watch("b") == (1, 1, True)
