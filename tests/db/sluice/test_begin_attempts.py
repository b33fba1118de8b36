"""sluice.begin_attempts, fail and hand_back together: which claims count as attempts, and when a message is dead."""

import itertools

import pytest

from support import rows, value

# What can become of a claim.
LOST = "its reply was lost, or its process died before the handler started"
DIED = "its process died in the handler"
FAILED = "its handler failed"
BACK = "it was handed back"
STARTED_BACK = "its handler started, and it was handed back"
FATES = (LOST, DIED, FAILED, BACK, STARTED_BACK)
STARTS = (DIED, FAILED, STARTED_BACK)


def model(fates, attempts_max):
    """The starts, and the attempts that count when it is dead, or None where it lives: the rule in a few lines."""
    counted = starts = 0
    for number, fate in enumerate(fates, 1):
        # The first start is noted only where there is no second one: else its claim counts, whatever became of it.
        is_noted = number > 1 or attempts_max == 1
        if fate in STARTS:
            if is_noted and counted >= attempts_max:
                return starts, counted
            starts += 1
        counted += fate in (DIED, FAILED) or (not is_noted and fate == LOST)
        if fate == FAILED and counted >= attempts_max:
            return starts, counted
    return starts, None


def play(connection, fates, attempts_max):
    """The same against the queue `q`, which is empty; a message that is dead is not claimed again."""
    connection.execute("select pgmq.send('q', '1')")
    starts = 0
    for fate in fates:
        claimed = rows(connection, "select msg_id, read_ct from pgmq.read('q', 0, 1)")
        if not claimed:
            break
        claim = tuple([part] for part in claimed[0])
        if fate in STARTS:
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
        if fate == FAILED:
            connection.execute(
                "select sluice.fail('q', jsonb_build_array(jsonb_build_object('msg_id', %s::bigint, 'read_ct', %s::integer, "
                "'delay', 0)), 'w', jsonb_build_object('max_attempts', %s::integer))",
                [claim[0][0], claim[1][0], attempts_max],
            )
        elif fate in (BACK, STARTED_BACK):
            connection.execute("select sluice.hand_back('q', %s, %s)", claim)
    dead = rows(connection, "delete from sluice.dead_letter returning attempts")
    assert len(dead) + len(rows(connection, "delete from pgmq.q_q returning 1")) == 1
    return starts, dead[0][0] if dead else None


@pytest.mark.slow
@pytest.mark.parametrize("attempts_max", [1, 2, 3])
def test_a_message_is_dead_after_as_many_attempts_as_the_model_counts(connection, attempts_max):
    connection.execute("select pgmq.create('q')")
    wrong = []
    with connection.transaction():
        for fates in itertools.product(FATES, repeat=3):
            # Long enough for what is alive after three to die, or to show that it does not.
            story = (*fates, DIED, LOST, DIED)
            expected = model(story, attempts_max)
            if play(connection, story, attempts_max) != expected:
                wrong.append((story, expected))

    assert not wrong


BEGIN = "select * from sluice.begin_attempts('orders', %s::bigint[], %s::integer[], %s, 2)"


def test_said_again_of_the_same_claim_it_changes_nothing_and_says_the_same(connection, claimed):
    assert rows(connection, BEGIN, [1], [1], "v") == [(1, 1, "begun")]
    before = rows(connection, "select to_jsonb(a) from sluice.attempt as a")

    assert rows(connection, BEGIN, [1, 1], [1, 1], "w") == [(1, 1, "begun"), (1, 1, "begun")]

    assert rows(connection, "select to_jsonb(a) from sluice.attempt as a") == before


def test_one_that_nobody_answered_for_is_dead_with_who_had_it_and_since_when(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    first = value(connection, "select last_read_at from pgmq.read('orders', 0, 1)")
    connection.execute(BEGIN, [[1], [2], "v"])
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert rows(connection, BEGIN, [1], [3], "w") == [(1, 2, "dead")]

    assert rows(
        connection,
        "select reason, attempts, worker, first_failed_at, read_ct, message from sluice.dead_letter",
    ) == [("delivered too often without an answer", 2, "v", first, 3, {"n": 1})]
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
