"""sluice.begin_attempts, fail and release together: counted attempts and dead letters."""

import itertools

import pytest

from support import rows, value

# Cases of how a claim ends
LOST = "its reply was lost, or its process crashed before the handler started"
CRASHED = "its process crashed in the handler"
FAILED = "its handler failed"
RELEASED = "it was released"
STARTED_RELEASED = "its handler started, and it was released"
CASES = (LOST, CRASHED, FAILED, RELEASED, STARTED_RELEASED)
STARTS = (CRASHED, FAILED, STARTED_RELEASED)


def model(history, attempts_max):
    """Return the number of starts, and the counted attempts of a dead-lettered message or None."""
    counted = starts = 0
    for number, case in enumerate(history, 1):
        # The first start is recorded only as the last attempt; otherwise its claim always counts.
        is_noted = number > 1 or attempts_max == 1
        if case in STARTS:
            if is_noted and counted >= attempts_max:
                return starts, counted
            starts += 1
        counted += case in (CRASHED, FAILED) or (not is_noted and case == LOST)
        if case == FAILED and counted >= attempts_max:
            return starts, counted
    return starts, None


def run(connection, history, attempts_max):
    """Apply the cases to a message of the empty queue `q`; return the same as `model`."""
    connection.execute("select pgmq.send('q', '1')")
    starts = 0
    for case in history:
        claimed = rows(connection, "select msg_id, read_ct from pgmq.read('q', 0, 1)")
        if not claimed:
            break
        claim = tuple([part] for part in claimed[0])
        if case in STARTS:
            if claim[1] > [1] or attempts_max == 1:
                outcome = value(
                    connection,
                    "select outcome from sluice.begin_attempts('q', %s, %s, 'w', %s)",
                    *(*claim, attempts_max),
                )
                if outcome == "dead":
                    break
                assert outcome == "begun"
            starts += 1
        if case == FAILED:
            connection.execute(
                "select sluice.fail('q', jsonb_build_array(jsonb_build_object('msg_id', %s::bigint, 'read_ct', %s::integer, "
                "'delay', 0)), 'w', jsonb_build_object('max_attempts', %s::integer))",
                [claim[0][0], claim[1][0], attempts_max],
            )
        elif case in (RELEASED, STARTED_RELEASED):
            connection.execute("select sluice.release('q', %s, %s, is_attempt => false)", claim)
    dead = rows(connection, "delete from sluice.dead_letter returning attempts")
    assert len(dead) + len(rows(connection, "delete from pgmq.q_q returning 1")) == 1
    return starts, dead[0][0] if dead else None


@pytest.mark.slow
@pytest.mark.parametrize("attempts_max", [1, 2, 3])
def test_message_is_dead_lettered_after_the_attempts_of_the_model(connection, attempts_max):
    connection.execute("select pgmq.create('q')")
    wrong = []
    with connection.transaction():
        for history in itertools.product(CASES, repeat=3):
            # Three more claims, so that every message reaches its last attempt or exceeds it.
            history_and_end = (*history, CRASHED, LOST, CRASHED)
            expected = model(history_and_end, attempts_max)
            if run(connection, history_and_end, attempts_max) != expected:
                wrong.append((history_and_end, expected))

    assert not wrong


BEGIN = "select * from sluice.begin_attempts('orders', %s::bigint[], %s::integer[], %s, 2)"


def test_repeated_start_of_a_claim_changes_nothing(connection, claimed):
    assert rows(connection, BEGIN, [1], [1], "v") == [(1, 1, "begun")]
    before = rows(connection, "select to_jsonb(a) from sluice.attempt as a")

    assert rows(connection, BEGIN, [1, 1], [1, 1], "w") == [(1, 1, "begun"), (1, 1, "begun")]

    assert rows(connection, "select to_jsonb(a) from sluice.attempt as a") == before


def test_unsettled_message_is_dead_lettered_with_its_last_worker_and_time(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    first = value(connection, "select last_read_at from pgmq.read('orders', 0, 1)")
    connection.execute(BEGIN, [[1], [2], "v"])
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert rows(connection, BEGIN, [1], [3], "w") == [(1, 2, "dead")]

    assert rows(
        connection,
        "select reason, attempts, worker, first_failed_at, read_ct, message from sluice.dead_letter",
    ) == [("delivered too often without an outcome", 2, "v", first, 3, {"n": 1})]
    assert value(connection, "select count(*) from pgmq.q_orders") == 0
    assert rows(connection, BEGIN, [1], [3], "w") == [(1, None, "lost")]


def test_each_claim_has_its_outcome_in_their_order(connection, claimed):
    connection.execute("select pgmq.send_batch('orders', array['2', '3']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 2)")

    assert rows(connection, BEGIN, [3, 9, 2, 1], [1, 1, 7, 1], "w") == [
        (3, 1, "begun"), (9, None, "lost"), (2, None, "lost"), (1, 1, "begun"),
    ]  # fmt: skip
    assert rows(connection, BEGIN, [], [], "w") == []


def test_after_the_policy_became_stricter_what_has_had_its_attempts_is_dead(connection, claimed):
    for read_ct in (1, 2, 3):
        connection.execute(
            "select sluice.fail('orders', jsonb_build_array(jsonb_build_object('msg_id', 1, 'read_ct', %s::integer, 'delay', 0)))",
            [read_ct],
        )
        connection.execute("select pgmq.read('orders', 0, 1)")

    assert rows(connection, BEGIN, [1], [4], "w") == [(1, 3, "dead")]

    assert value(connection, "select reason from sluice.dead_letter") == "too many attempts"
