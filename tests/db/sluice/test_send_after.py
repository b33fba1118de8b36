"""sluice.send_after: a message becomes visible when those it waits for are done.

Covers _await_predecessors, _finish_predecessors.
"""

from __future__ import annotations

import random
import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock
from support.explaining import explain, sentences

AFTER = "select sluice.send_after('{}', %s::jsonb, %s, %s, after_failure => %s)"
# Each way in which message 1 of queue `first` leaves it and counts as done.
DONE = {
    "archive": "select sluice.archive('first', 1, 1)",
    "archive many": "select sluice.archive('first', array[1], array[1])",
    "delete": "select sluice.delete('first', 1, 1)",
    "finish": "select sluice.finish('first', '{1}', '{1}', '[1]', '1 hour')",
    "pgmq.archive": "select pgmq.archive('first', 1)",
    "pgmq.delete": "select pgmq.delete('first', 1)",
    "pop": "select pgmq.set_vt('first', 1, 0), pgmq.pop('first')",
    "purge": "select pgmq.purge_queue('first')",
    "purge messages": "select sluice.purge_messages('first', 1)",
    "drop": "select pgmq.drop_queue('first')",
    "by hand": "delete from pgmq.q_first where msg_id = 1",
}
FAILED = {
    "reject": "select sluice.reject('first', 1, 1, 'bad address')",
    "fail": """select * from sluice.fail('first', '[{"msg_id": 1, "read_ct": 1, "reject": true, "reason": "bad address"}]')""",
}


@pytest.fixture
def queues(connection):
    """The queues `first`, whose messages 1 to 3 are claimed, and `then`."""
    for name in ("first", "then"):
        connection.execute(f"select pgmq.create('{name}'), sluice.enable_successors('{name}')")
    connection.execute("select pgmq.send_batch('first', array['1', '2', '3']::jsonb[])")
    connection.execute("select pgmq.read('first', 600, 3)")
    return connection


def send_after(connection, *msg_ids, queue="then", after="first", failure="fail"):
    places = [after] * len(msg_ids)
    return value(connection, AFTER.format(queue), "{}", places, list(msg_ids), failure)


def state(connection, msg_id=1, queue="then"):
    return value(connection, "select state from sluice.get_result(%s, %s)", queue, msg_id)


def is_visible(connection, msg_id=1):
    query = "select vt <= clock_timestamp() from pgmq.q_then where msg_id = %s"
    return rows(connection, query, msg_id) == [(True,)]


def nothing_waits(connection):
    tables = (
        "select (select count(*) from sluice.successor) + (select count(*) from sluice.predecessor)"
    )
    return value(connection, tables) == 0


@pytest.mark.parametrize("way", DONE)
def test_a_message_becomes_visible_when_the_one_before_leaves_its_queue(queues, way):
    send_after(queues, 1)
    assert rows(queues, "select * from pgmq.read('then', 0, 10)") == []

    queues.execute(DONE[way])

    assert is_visible(queues)
    assert nothing_waits(queues)


@pytest.mark.parametrize("way", DONE)
def test_a_message_sent_when_the_one_before_is_done_is_visible(queues, way):
    queues.execute(DONE[way])
    if way == "drop":
        with pytest.raises(psycopg.errors.UndefinedTable):
            send_after(queues, 1)
        return

    send_after(queues, 1)

    assert is_visible(queues)
    assert nothing_waits(queues)


def test_a_message_waits_for_the_last_of_several_in_several_queues(queues):
    queues.execute("select pgmq.send('then', '0'::jsonb)")
    call = AFTER.format("then")
    msg_id = value(queues, call, "{}", ["first", "First", "then", "first"], [1, 2, 1, 2], "fail")
    for done in ("first', 1", "then', 1"):
        queues.execute(f"select pgmq.delete('{done})")
        assert not is_visible(queues, msg_id)

    queues.execute("select pgmq.archive('first', 2)")

    assert is_visible(queues, msg_id)
    assert nothing_waits(queues)


def test_rolled_back_acknowledgement_releases_nothing(queues, database):
    send_after(queues, 1)
    with database.connect(autocommit=False) as worker:
        worker.execute(DONE["archive"])
        assert is_visible(worker)
        worker.rollback()

    assert not is_visible(queues)
    queues.execute(DONE["archive"])
    assert is_visible(queues)


@pytest.mark.parametrize("is_before", [False, True], ids=["sent before", "sent after"])
@pytest.mark.parametrize("way", FAILED)
def test_a_dead_letter_dead_letters_the_chain_behind_it_with_the_reason(queues, way, is_before):
    if is_before:
        queues.execute(FAILED[way])
    send_after(queues, 1)
    send_after(queues, 1, after="then")
    if not is_before:
        queues.execute(FAILED[way])

    letters = "select msg_id, reason, error from sluice.dead_letter where queue_name = 'then' order by msg_id"
    assert rows(queues, letters) == [
        (1, "predecessor failed", "message 1 of queue first was dead-lettered: bad address"),
        (2, "predecessor failed", "message 1 of queue then was dead-lettered: predecessor failed"),
    ]  # fmt: skip
    assert value(queues, "select count(*) from pgmq.q_then") == 0
    assert nothing_waits(queues)


def test_a_long_chain_is_dead_lettered_at_once(queues):
    send_after(queues, 1)
    for msg_id in range(1, 400):
        send_after(queues, msg_id, after="then")

    queues.execute(FAILED["reject"])

    assert value(queues, "select count(*) from sluice.dead_letter where queue_name = 'then'") == 400
    assert nothing_waits(queues)


def test_with_continue_a_message_runs_when_the_others_are_done(queues):
    send_after(queues, 1, 2, failure="continue")
    queues.execute(FAILED["reject"])
    assert not is_visible(queues)

    queues.execute("select pgmq.delete('first', 2)")

    assert is_visible(queues)


def test_with_fail_a_message_does_not_wait_for_the_others(queues):
    send_after(queues, 1, 2)
    queues.execute(FAILED["reject"])
    assert state(queues) == "dead"

    queues.execute("select pgmq.delete('first', 2)")
    assert nothing_waits(queues)


def test_a_failed_attempt_that_is_retried_releases_nothing(queues):
    send_after(queues, 1)
    queues.execute(
        """select * from sluice.fail('first', '[{"msg_id": 1, "read_ct": 1, "delay": 0}]')"""
    )

    assert not is_visible(queues)


def test_a_delay_counts_from_the_send(queues):
    send = "select sluice.send_after('then', '1', '{first}', '{1}', delay => %s::timestamptz)"
    queues.execute(send, ["2100-01-01"])
    queues.execute(send, ["2000-01-01"])
    queues.execute(DONE["delete"])

    late = "select vt = '2100-01-01' from pgmq.q_then where msg_id = 1"
    assert value(queues, late) is True
    assert is_visible(queues, 2)


@pytest.mark.parametrize("first", ["first one", "second one"])
def test_of_two_transactions_that_finish_the_last_two_the_later_releases(queues, database, first):
    send_after(queues, 1, 2)
    with (
        database.connect(autocommit=False) as one,
        database.connect(autocommit=False) as two,
    ):
        one.execute("select pgmq.delete('first', 1)")
        waiting = threading.Thread(target=two.execute, args=["select pgmq.delete('first', 2)"])
        waiting.start()
        wait_for_lock(queues, two)
        one.commit() if first == "first one" else one.rollback()
        waiting.join(30)
        two.commit()

    assert is_visible(queues) is (first == "first one")
    assert value(queues, "select coalesce(sum(remaining), 0) from sluice.successor") == int(
        first == "second one"
    )


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_sender_waits_for_the_transaction_that_finishes_a_message(queues, database, end):
    with database.connect(autocommit=False) as worker, database.connect() as sender:
        worker.execute(DONE["archive"])
        sending = threading.Thread(target=send_after, args=[sender, 1])
        sending.start()
        wait_for_lock(queues, sender)
        getattr(worker, end)()
        sending.join(30)

    assert is_visible(queues) is (end == "commit")


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_acknowledgement_waits_for_the_sender_and_then_releases(queues, database, end):
    with database.connect(autocommit=False) as sender, database.connect() as worker:
        send_after(sender, 1)
        working = threading.Thread(target=worker.execute, args=[DONE["archive"]])
        working.start()
        wait_for_lock(queues, worker)
        getattr(sender, end)()
        working.join(30)

    assert is_visible(queues) is (end == "commit")
    assert nothing_waits(queues)


def test_a_message_made_visible_by_hand_is_left_alone(queues):
    send_after(queues, 1, failure="fail")
    queues.execute("select pgmq.set_vt('then', 1, 600)")

    queues.execute(FAILED["reject"])

    assert state(queues) != "dead"
    assert nothing_waits(queues)


def test_a_redriven_message_waits_for_nothing(queues):
    send_after(queues, 1)
    queues.execute(FAILED["reject"])

    queues.execute("select * from sluice.redrive('then')")

    assert is_visible(queues, 2)


@pytest.mark.parametrize(
    ("msg_ids", "problem"),
    [
        ([99], "queue first never had message 99"),
        ([1, 0], "queue first never had message 0"),
        ([None], "got 1 queues for 1 msg_ids"),
    ],
)
def test_an_id_that_was_never_used_is_refused(queues, msg_ids, problem):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=problem):
        send_after(queues, *msg_ids)
    assert value(queues, "select count(*) from pgmq.q_then") == 0
    assert nothing_waits(queues)


def test_an_unknown_policy_is_refused(queues):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="after_failure is 'stop'"):
        send_after(queues, 1, failure="stop")


def test_a_queue_that_was_not_enabled_is_refused_with_the_remedy(queues):
    queues.execute("select pgmq.create('other'), pgmq.send('other', '1'::jsonb)")

    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
        send_after(queues, 1, after="other")
    assert "sluice.enable_successors('other')" in refused.value.diag.message_hint


def test_no_predecessor_is_a_plain_send(queues):
    send_after(queues)

    assert is_visible(queues)


def test_a_writer_may_send_and_a_role_without_rights_may_not(database, queues, role):
    with database.connect(user=role) as session:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            send_after(session, 1)
        queues.execute(f"grant sluice_writer to {role}")
        send_after(session, 1)
    queues.execute(DONE["archive"])

    assert is_visible(queues)


def test_a_waiting_message_names_those_that_it_waits_for(queues):
    send_after(queues, 1, 3)
    facts = explain(queues, "explain_message", "then", 1)
    assert sentences(facts, "reason") == ["It waits for messages 1, 3 of queue first"]
    assert sentences(facts, "next") == [
        "It becomes visible when they are done, or is dead-lettered when one of them is"
    ]

    queues.execute(DONE["archive"])
    facts = explain(queues, "explain_message", "then", 1)
    assert sentences(facts, "reason") == ["It waits for message 3 of queue first"]


def test_random_chains_match_a_model(queues, seed):
    """Messages with random predecessors end in a random order, done or failed; a model predicts which run."""
    random_ = random.Random(seed)
    waits, failing = {}, {}
    for msg_id in range(1, 41):
        known = list(waits)
        before = random_.sample(known, random_.randint(0, min(3, len(known))))
        failing[msg_id] = random_.random() < 0.6
        policy = "fail" if failing[msg_id] else "continue"
        assert send_after(queues, *before, after="then", failure=policy) == msg_id
        waits[msg_id] = set(before)
    ready, dead, ended = set(), set(), set()

    def settle():
        changed = True
        while changed:
            changed = False
            for msg_id, before in waits.items():
                if msg_id in ended or msg_id in dead or msg_id in ready:
                    continue
                if failing[msg_id] and before & dead:
                    dead.add(msg_id)
                elif before <= ended | dead:
                    ready.add(msg_id)
                else:
                    continue
                changed = True

    settle()
    while ready:
        visible = rows(
            queues, "select msg_id from pgmq.q_then where vt <= clock_timestamp() order by 1"
        )
        assert {msg_id for (msg_id,) in visible} == ready
        msg_id = random_.choice(sorted(ready))
        ready.discard(msg_id)
        if random_.random() < 0.3:
            queues.execute("select sluice.reject('then', %s, 0, 'bad')", [msg_id])
            dead.add(msg_id)
        else:
            queues.execute("select pgmq.delete('then', %s::bigint)", [msg_id])
            ended.add(msg_id)
        settle()
    letters = rows(
        queues, "select msg_id from sluice.dead_letter where queue_name = 'then' order by 1"
    )
    assert [msg_id for (msg_id,) in letters] == sorted(dead)
    assert value(queues, "select count(*) from pgmq.q_then") == 0
    assert nothing_waits(queues)


def test_dead_letter_of_a_dropped_queue_is_no_failure_in_a_queue_created_again(queues):
    queues.execute(FAILED["reject"])
    queues.execute("select pgmq.drop_queue('first')")
    queues.execute("select pgmq.create('first'), sluice.enable_successors('first')")
    queues.execute("select pgmq.send('first', '1'), pgmq.read('first', 600, 1)")
    send_after(queues, 1)

    queues.execute(DONE["archive"])

    assert is_visible(queues)
