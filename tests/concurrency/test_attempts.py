"""Attempts of messages, counted by concurrent sessions."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter

import psycopg
import pytest

from support import replace_in, rows, value, wait_for_lock

BEGIN = "select * from sluice.begin_attempts('orders', '{1}', '{2}', 'w', 3)"
FAIL = 'select msg_id, outcome, attempt from sluice.fail(\'orders\', \'[{"msg_id": 1, "read_ct": 2, "delay": 600}]\')'
HAND_BACK = "select * from sluice.release('orders', '{1}', '{2}', 600, is_attempt => false)"


@pytest.fixture
def claimed(database_18):
    """A connection; message 1 of `orders` has been claimed twice and is visible."""
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.send('orders', '1')")
        connection.execute("select pgmq.read('orders', 0, 1)")
        connection.execute("select pgmq.read('orders', 0, 1)")
        yield connection


def while_open(database, observer, first, second):
    """Return the rows of a query that waits for the open transaction of another."""
    with database.connect(autocommit=False) as holder, database.connect() as waiter:
        holder.execute(first)
        found = []
        thread = threading.Thread(target=lambda: found.append(rows(waiter, second)))
        thread.start()
        wait_for_lock(observer, waiter)
        holder.commit()
        thread.join(30)
    return found[0]


def test_an_attempt_that_two_begin_at_once_counts_once(database_18, claimed):
    assert while_open(database_18, claimed, BEGIN, BEGIN) == [(1, 2, "begun")]

    assert rows(claimed, "select read_ct, attempts from sluice.attempt") == [(2, 2)]


def test_a_failure_that_two_report_at_once_counts_once(database_18, claimed):
    assert while_open(database_18, claimed, FAIL, FAIL) == [(1, "retry", 2)]

    assert rows(claimed, "select read_ct, attempts from sluice.attempt") == [(2, 2)]


def test_above_read_committed_the_second_gets_a_serialization_failure_and_counts_nothing(
    database_18, claimed
):
    with database_18.connect(autocommit=False) as waiter:
        waiter.execute("set transaction isolation level repeatable read")
        waiter.execute("select 1 from pgmq.q_orders")
        claimed.execute(BEGIN)

        with pytest.raises(psycopg.errors.SerializationFailure):
            waiter.execute(BEGIN)

        waiter.rollback()
        assert rows(waiter, BEGIN) == [(1, 2, "begun")]


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (FAIL, HAND_BACK, (1, "stale")),
        (HAND_BACK, FAIL, (1, "retry", 2)),  # of the second claim, which was not started
        (f"{BEGIN}; {HAND_BACK}", FAIL, (1, "stale", None)),
        (FAIL, BEGIN, (1, None, "lost")),
    ],
    ids=["failed", "released", "begun and released", "failed, then begun"],
)
def test_a_claim_is_settled_by_the_first(database_18, claimed, first, second, outcome):
    assert while_open(database_18, claimed, first, second) == [outcome]


@pytest.mark.parametrize(
    ("settle", "outcome"),
    [(BEGIN, (1, None, "lost")), (FAIL, (1, "stale", None)), (HAND_BACK, (1, "stale"))],
    ids=["begin", "fail", "hand back"],
)
def test_message_claimed_concurrently_belongs_to_that_claim(database_18, claimed, settle, outcome):
    claim = "select * from pgmq.read('orders', 30, 1)"

    assert while_open(database_18, claimed, claim, settle) == [outcome]

    assert value(claimed, "select vt < clock_timestamp() + '31 s' from pgmq.q_orders")
    assert rows(claimed, "select * from sluice.attempt") == []


@pytest.mark.parametrize("settle", ["archive", "delete"])
def test_a_message_that_is_done_at_this_moment_does_not_become_a_dead_letter(
    database_18, claimed, settle
):
    last = BEGIN.replace("3)", "1)")
    claimed.execute(last)
    assert value(claimed, "select read_ct from pgmq.read('orders', 0, 1)") == 3
    last = last.replace("{2}", "{3}")

    done = f"select sluice.{settle}('orders', 1, 3)"
    assert while_open(database_18, claimed, done, last) == [(1, None, "lost")]

    assert rows(claimed, "select * from sluice.dead_letter") == []


def test_without_the_lock_its_time_would_be_overwritten(database_18, claimed):
    replace_in(
        claimed,
        "sluice._tried_messages(text,bigint[],integer[],timestamptz[],integer)",
        "             for update\n",
        "",
    )

    while_open(database_18, claimed, "select * from pgmq.read('orders', 30, 1)", FAIL)

    assert value(claimed, "select vt > clock_timestamp() + '500 s' from pgmq.q_orders")


def test_workers_whose_claims_overlap_start_no_message_too_often_and_none_is_left(
    database_18, seed
):
    attempts_max, messages = 3, 30
    with database_18.connect() as connection:
        connection.execute("select pgmq.create('orders')")
        connection.execute(
            "select pgmq.send_batch('orders', array_agg('1'::jsonb)) from generate_series(1, %s)",
            [messages],
        )
    starts: Counter[int] = Counter()
    counting = threading.Lock()
    errors = []

    def work(number):
        chance = random.Random(f"{seed}/{number}")
        try:
            with database_18.connect() as connection:
                while value(connection, "select count(*) from pgmq.q_orders"):
                    one_round(connection, chance)
        except Exception as error:
            errors.append(error)

    def one_round(connection, chance):
        # Claims expire immediately, so two workers hold the same message.
        claimed = rows(connection, "select msg_id, read_ct from pgmq.read('orders', 0, 5)")
        chance.shuffle(claimed)
        back = [claim for claim in claimed if chance.random() < 0.3]
        claimed = [claim for claim in claimed if claim not in back]
        if back:
            ids, counts = map(list, zip(*back, strict=True))
            connection.execute(
                "select sluice.release('orders', %s, %s, is_attempt => false)", [ids, counts]
            )
        later = [claim for claim in claimed if claim[1] > 1]
        begun = {claim[0] for claim in claimed if claim[1] == 1}
        if later:
            ids, counts = map(list, zip(*later, strict=True))
            begun |= {
                msg_id
                for msg_id, _, outcome in rows(
                    connection,
                    "select * from sluice.begin_attempts('orders', %s, %s, 'w', %s)",
                    *(ids, counts, attempts_max),
                )
                if outcome == "begun"
            }
        with counting:
            starts.update(begun)
        # Half of the workers crash.
        failures = [
            {"msg_id": msg_id, "read_ct": read_ct, "delay": 0}
            for msg_id, read_ct in claimed
            if msg_id in begun and chance.random() < 0.5
        ]
        connection.execute(
            "select sluice.fail('orders', %s, 'w', %s)",
            [json.dumps(failures), json.dumps({"max_attempts": attempts_max})],
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert errors == []
    assert max(starts.values()) <= attempts_max
    with database_18.connect() as connection:
        letters = rows(connection, "select msg_id, attempts from sluice.dead_letter order by 1")
        assert letters == [(n, attempts_max) for n in range(1, messages + 1)]
        assert rows(connection, "select * from sluice.attempt") == []
