"""Dead letters of queues, share groups and consumers, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import DeadLetter, DeadLetterGroup, FailedEvent, FoundDeadLetters, NewEvent, Redriven
from pgsluice.errors import (
    ArgumentError,
    BatchNotFoundError,
    GroupNotFoundError,
    LogNotFoundError,
    LogStateError,
    PayloadError,
    QueueNotFoundError,
)

TOMORROW = datetime.now(UTC) + timedelta(days=1)


class DeadOfQueue:
    """Four dead letters of a queue, numbered from 1; `read` returns the numbers of what was redriven."""

    consumer_name = None
    missing_error = QueueNotFoundError

    def __init__(self, clients, queue_name):
        self.clients, self.queue_name = clients, queue_name
        clients.queue.send_batch(
            queue_name,
            [{"n": n, "kind": kind} for n, kind in enumerate("abab", start=1)],
            headers=[{"h": n} for n in range(1, 5)],
        )
        for message in clients.queue.read(queue_name, 60, 4):
            error = f"row {message.msg_id}"
            clients.queue.reject(queue_name, message.msg_id, message.read_ct, "bad", error)
        self.letters = clients.dead_letters(queue_name)

    def read(self):
        return [m.message["n"] for m in self.clients.queue.read(self.queue_name, 60, 10)]

    def drop(self):
        self.clients.queue.drop_queue(self.queue_name)


class DeadOfGroup:
    """Four dead letters of a share group."""

    consumer_name = "g"
    missing_error = GroupNotFoundError

    def __init__(self, clients, queue_name):
        self.clients, self.queue_name = clients, queue_name
        self.group = clients.share_group(queue_name, "g")
        self.group.create()
        clients.log.insert_many(
            queue_name, [NewEvent(kind, str(n)) for n, kind in enumerate("abab", start=1)]
        )
        for event in self.group.claim(4):
            self.group.reject(event, reason="bad", error=f"row {event.ev_id}")
        self.letters = clients.dead_letters(queue_name, "g")

    def read(self):
        return [int(event.ev_data) for event in self.group.claim(10)]

    def drop(self):
        self.group.drop()


class DeadOfConsumer:
    """Four dead letters of a consumer."""

    consumer_name = "c"
    missing_error = GroupNotFoundError

    def __init__(self, clients, queue_name):
        self.clients, self.queue_name = clients, queue_name
        clients.log.register_consumer(queue_name, "c")
        clients.log.insert_many(
            queue_name, [NewEvent(kind, str(n)) for n, kind in enumerate("abab", start=1)]
        )
        self.batch_id, events = self.open_batch()
        failures = [
            FailedEvent(e.ev_id, "bad", "KeyError", f"row {e.ev_id}", "at 1") for e in events
        ]
        assert clients.log.reject_events(self.batch_id, failures, worker="w") == 4
        clients.log.finish_batch(self.batch_id)
        self.letters = clients.dead_letters(queue_name, "c")

    def open_batch(self):
        """Tick, open the next batch and return its id and events."""
        self.clients.log.ticker(self.queue_name)
        batch_id = self.clients.log.next_batch(self.queue_name, "c")
        return batch_id, self.clients.log.get_batch_events(batch_id) if batch_id else []

    def read(self):
        return [int(event.ev_data) for event in self.open_batch()[1]]

    def drop(self):
        self.clients.log.unregister_consumer(self.queue_name, "c")


KINDS = {"queue": DeadOfQueue, "group": DeadOfGroup, "consumer": DeadOfConsumer}


def dead_of(*kinds):
    """Run a test for the dead letters of each kind only."""
    return pytest.mark.parametrize("dead", kinds, indirect=True)


@pytest.fixture(params=KINDS)
def dead(request, clients):
    """Four dead letters, alternately of kind a and b, of a queue, a share group and a consumer."""
    name = request.getfixturevalue("queue_name" if request.param == "queue" else "log_name")
    return KINDS[request.param](clients, name)


def ids(letters):
    return [letter.dead_letter_id for letter in letters]


def test_they_are_browsed_by_pages_with_all_fields(dead):
    first, second = dead.letters.browse(qty=2)

    assert type(first) is DeadLetter
    assert (first.queue_name, first.consumer_name) == (dead.queue_name, dead.consumer_name)
    assert (first.msg_id, first.read_ct, first.reason, first.error) == (1, 1, "bad", "row 1")
    assert first.redriven == 0
    if dead.consumer_name is None:
        assert (first.message, first.headers) == ({"n": 1, "kind": "a"}, {"h": 1})
        assert (first.ev_txid, first.ev_type, first.ev_data) == (None, None, None)
    else:
        assert (first.message, first.headers, first.attempts) == (None, None, 1)
        assert (first.ev_type, first.ev_data, type(first.ev_txid)) == ("a", "1", int)
    if dead.consumer_name == "c":
        assert (first.error_type, first.trace, first.worker) == ("KeyError", "at 1", "w")
    behind = dead.letters.browse(after_dead_letter_id=second.dead_letter_id)
    assert [letter.msg_id for letter in behind] == [3, 4]
    listed = dead.letters.browse(
        after_dead_letter_id=first.dead_letter_id, qty=2, with_contents=False
    )
    assert ids(listed) == [second.dead_letter_id, behind[0].dead_letter_id]
    assert {(each.message, each.ev_data, each.trace) for each in listed} == {(None, None, None)}


@pytest.mark.parametrize(
    ("matching", "wanted"),
    [
        ({}, [1, 2, 3, 4]),
        ({"msg_ids": [3, 99]}, [3]),
        ({"reason": "bad"}, [1, 2, 3, 4]),
        ({"reason": "other"}, []),
        ({"error": "row 2"}, [2]),
        ({"error": "row #", "until": TOMORROW}, [1, 2, 3, 4]),
        ({"error_type": "KeyError"}, {"queue": [], "group": [], "consumer": [1, 2, 3, 4]}),
        ({"since": TOMORROW}, []),
        ({"ev_type": "b"}, {"queue": [], "group": [2, 4], "consumer": [2, 4]}),
        ({"conditional": {"kind": "a"}}, {"queue": [1, 3], "group": [], "consumer": []}),
        ({"conditional_headers": {"h": 4}}, {"queue": [4], "group": [], "consumer": []}),
    ],
)
def test_filter_selects_dead_letters_for_every_method(dead, matching, wanted, request):
    if isinstance(wanted, dict):
        wanted = wanted[request.node.callspec.params["dead"]]

    chosen = dead.letters.browse(**matching)
    assert [letter.msg_id for letter in chosen] == wanted
    assert dead.letters.count(**matching) == len(wanted)
    assert ids(dead.letters.search(**matching).letters) == ids(chosen)[::-1]
    assert [r.dead_letter_id for r in dead.letters.redrive_matching(**matching)] == ids(chosen)
    assert dead.read() == wanted
    assert dead.letters.count() == 4 - len(wanted)


def test_dead_letters_are_found_by_their_ids_and_the_other_filters(dead):
    first, second, third, _ = ids(dead.letters.browse())

    assert ids(dead.letters.browse(dead_letter_ids=[third, first])) == [first, third]
    assert ids(dead.letters.browse(dead_letter_ids=[first, third], error="row 1")) == [first]
    assert ids(
        dead.letters.browse(dead_letter_ids=[first, second], after_dead_letter_id=first)
    ) == [second]
    assert dead.letters.count(dead_letter_ids=[first, third]) == 2


@pytest.mark.parametrize("method", ["browse", "count", "search", "redrive_matching"])
def test_unknown_filter_is_named(clients, method):
    with pytest.raises(ArgumentError, match="have no filter 'ev_ids'; use msg_ids, "):
        getattr(clients.dead_letters("orders"), method)(ev_ids=[1])


def test_a_filter_that_is_none_is_no_condition(dead):
    assert dead.letters.count(reason=None, msg_ids=None, conditional=None, since=None) == 4


def test_they_are_redriven_by_id_once_each(dead):
    first, _, third, _ = ids(dead.letters.browse())

    assert dead.letters.redrive([third, first, 0]) == [Redriven(first, 5), Redriven(third, 6)]
    assert dead.letters.redrive([third, first]) == []

    assert dead.read() == [1, 3]
    assert dead.letters.count() == 2


@dead_of("queue")
def test_redriven_message_has_its_headers_and_its_origin(clients, dead):
    (letter,) = dead.letters.browse(qty=1)
    dead.letters.redrive([letter.dead_letter_id])

    (message,) = clients.queue.read(dead.queue_name, 60)
    origin = message.headers.pop("x-pgmq-replayed-from")
    assert message.headers == {"h": 1}
    assert (origin["queue"], origin["msg_id"], origin["reason"]) == (dead.queue_name, 1, "bad")


@dead_of("group")
def test_event_redriven_to_a_group_counts_its_redrives_and_its_attempts_from_1(dead):
    dead.letters.redrive_matching(ev_type="b")

    claimed = dead.group.claim(10)
    assert [(e.ev_id, e.ev_data, e.redriven, e.attempt) for e in claimed] == [(5, "2", 1, 1), (6, "4", 1, 1)]  # fmt: skip
    dead.group.reject(claimed[0], reason="again")
    assert [letter.redriven for letter in dead.letters.browse(reason="again")] == [1]


@dead_of("consumer")
def test_event_redriven_to_a_consumer_counts_its_attempts_from_1_and_is_its_own(clients, dead):
    clients.log.register_consumer(dead.queue_name, "other")
    dead.letters.redrive_matching(msg_ids=[2])

    batch_id, (event,) = dead.open_batch()
    assert (event.ev_id, event.ev_type, event.ev_data, event.ev_retry) == (5, "b", "2", None)
    others = clients.log.next_batch(dead.queue_name, "other")
    assert clients.log.get_batch_events(others) == []
    clients.log.reject_events(batch_id, [FailedEvent(5, "again")])
    assert [letter.attempts for letter in dead.letters.browse(reason="again")] == [1]


def test_steps_go_on_behind_the_last(dead):
    first = dead.letters.redrive_matching(qty=3)
    rest = dead.letters.redrive_matching(after_dead_letter_id=first[-1].dead_letter_id)

    assert ([each.msg_id for each in first], [each.msg_id for each in rest]) == ([5, 6, 7], [8])
    assert dead.letters.redrive_matching() == []


def test_they_go_into_another_queue_also_after_what_they_came_from_is_dropped(clients, dead):
    other = f"{dead.queue_name}_other"
    clients.queue.create(other)
    dead.drop()
    (letter,) = dead.letters.browse(qty=1)

    (redriven,) = dead.letters.redrive([letter.dead_letter_id], target_queue_name=other)
    assert redriven == Redriven(letter.dead_letter_id, 1)
    assert len(dead.letters.redrive_matching(target_queue_name=other, qty=2)) == 2

    message, *rest = clients.queue.read(other, 60, 10)
    assert len(rest) == 2
    origin = message.headers["x-pgmq-replayed-from"]
    assert (origin["dead_letter_id"], origin["reason"]) == (letter.dead_letter_id, "bad")
    if dead.consumer_name is None:
        assert (message.message, message.headers["h"]) == ({"n": 1, "kind": "a"}, 1)
        assert (origin["queue"], origin["msg_id"]) == (dead.queue_name, 1)
    else:
        assert (message.message["ev_data"], message.message["ev_txid"]) == ("1", letter.ev_txid)
        assert (origin["log"], origin["consumer"], origin["ev_id"], origin["redriven"]) == (
            dead.queue_name, dead.consumer_name, 1, 1,
        )  # fmt: skip


def test_they_outlive_what_they_came_from(dead):
    chosen = ids(dead.letters.browse())
    with pytest.raises(QueueNotFoundError, match="'missing' does not exist"):
        dead.letters.redrive(chosen, target_queue_name="missing")
    dead.drop()
    with pytest.raises(dead.missing_error):
        dead.letters.redrive(chosen)
    with pytest.raises(dead.missing_error):
        dead.letters.redrive_matching()

    assert ids(dead.letters.browse()) == chosen
    assert dead.letters.purge(dead_letter_ids=chosen) == 4


@dead_of("group", "consumer")
def test_they_stay_if_their_log_takes_no_events(clients, dead, observer):
    observer.execute(
        "update pgq.queue set queue_disable_insert = true where queue_name = %s", [dead.queue_name]
    )
    with pytest.raises(LogStateError):
        dead.letters.redrive_matching()
    clients.log.drop(dead.queue_name, force=True)
    with pytest.raises(LogNotFoundError):
        dead.letters.redrive_matching()

    assert dead.letters.count() == 4


def test_they_are_purged_by_age_or_by_id(dead):
    chosen = ids(dead.letters.browse())

    assert dead.letters.purge(dead_letter_ids=chosen[:1]) == 1
    assert dead.letters.purge(older_than=timedelta(hours=1)) == 0
    assert dead.letters.purge(older_than=timedelta(), qty=2) == 2
    assert ids(dead.letters.browse()) == chosen[3:]


def test_they_are_grouped_and_searched(dead):
    (group,) = dead.letters.group_by_error()
    assert type(group) is DeadLetterGroup
    error_type = "KeyError" if dead.consumer_name == "c" else ""
    assert (group.reason, group.error_type, group.error, group.letters) == (
        "bad", error_type, "row #", 4,
    )  # fmt: skip
    assert group.example_error == "row 4"
    assert [each.letters for each in dead.letters.group_by_error(qty=3)] == [3]

    found = dead.letters.search(qty=3, error=group.error)
    assert type(found) is FoundDeadLetters
    assert [letter.msg_id for letter in found.letters] == [4, 3, 2]
    rest = dead.letters.search(before_dead_letter_id=found.searched_dead_letter_id)
    assert ([each.msg_id for each in rest.letters], rest.searched_dead_letter_id) == ([1], None)
    short = dead.letters.search(scan=2, error="row 1")
    assert short.letters == []
    rest = dead.letters.search(before_dead_letter_id=short.searched_dead_letter_id, error="row 1")
    assert [letter.msg_id for letter in rest.letters] == [1]
    bare = dead.letters.search(qty=1, with_contents=False).letters[0]
    assert (bare.message, bare.headers, bare.ev_data, bare.trace) == (None, None, None, None)
    assert bare.error == "row 4"


@dead_of("consumer")
def test_event_of_a_batch_is_rejected_once(clients, dead):
    clients.log.insert_event(dead.queue_name, "t", "5")
    batch_id, (event,) = dead.open_batch()

    failure = FailedEvent(event.ev_id, "bad", error="k\x00\ud83d")
    assert clients.log.reject_events(batch_id, [failure]) == 1
    assert clients.log.reject_events(batch_id, [FailedEvent(event.ev_id, "again")]) == 0
    with pytest.raises(ArgumentError, match="event not found"):
        clients.log.reject_events(batch_id, [FailedEvent(99)])
    clients.log.finish_batch(batch_id)
    with pytest.raises(BatchNotFoundError):
        clients.log.reject_events(batch_id, [failure])

    (letter,) = dead.letters.browse(msg_ids=[event.ev_id])
    assert (letter.reason, letter.error, letter.worker) == ("bad", "k\\x00\\ud83d", None)
    assert dead.read() == []


def test_in_the_callers_transaction_nothing_is_redriven_before_it_commits(
    caller, queue_name, observer
):
    observer.execute("select pgmq.send(%s, '1'), pgmq.read(%s, 60, 1)", [queue_name, queue_name])
    observer.execute("select sluice.reject(%s, 1, 1, 'bad')", [queue_name])
    letters = caller.dead_letters(queue_name)
    assert len(letters.redrive_matching()) == 1

    left = "select count(*) from sluice.dead_letter where queue_name = %s"
    assert observer.execute(left, [queue_name]).fetchone() == (1,)
    caller.source.commit()
    assert observer.execute(left, [queue_name]).fetchone() == (0,)


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("browse", {"qty": 0}, ArgumentError),
        ("browse", {"after_dead_letter_id": "1"}, ArgumentError),
        ("browse", {"msg_ids": [True]}, ArgumentError),
        ("browse", {"conditional": {"a": float("nan")}}, PayloadError),
        ("count", {"since": TOMORROW.replace(tzinfo=None)}, ArgumentError),
        ("search", {"until": TOMORROW.replace(tzinfo=None)}, ArgumentError),
        ("search", {"scan": 0}, ArgumentError),
        ("group_by_error", {"qty": 0}, ArgumentError),
        ("redrive", {"dead_letter_ids": [2**63]}, ArgumentError),
        ("redrive_matching", {"qty": 2**31}, ArgumentError),
        ("redrive_matching", {"conditional_headers": {"a": float("nan")}}, PayloadError),
        ("purge", {}, ArgumentError),
        ("purge", {"older_than": timedelta(), "dead_letter_ids": [1]}, ArgumentError),
        ("purge", {"older_than": timedelta(), "qty": 0}, ArgumentError),
    ],
)
@dead_of("queue", "group")
def test_invalid_arguments_are_refused(dead, method, arguments, error):
    with pytest.raises(error):
        getattr(dead.letters, method)(**arguments)

    assert dead.letters.count() == 4
