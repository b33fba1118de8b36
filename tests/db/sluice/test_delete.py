import pytest

from support import replace_in, rows, value


def test_a_current_claim_deletes_its_message_for_good(connection, claimed):
    assert value(connection, "select sluice.delete('orders', %s, %s)", *claimed) is True
    assert value(connection, "select sluice.delete('orders', %s, %s)", *claimed) is False

    assert value(connection, "select count(*) from pgmq.q_orders") == 0
    assert value(connection, "select count(*) from pgmq.a_orders") == 0


def check_claim_that_is_over(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert value(connection, "select sluice.delete('orders', %s, %s)", *claimed) is False
    assert value(connection, "select count(*) from pgmq.q_orders") == 1


def test_a_claim_that_is_over_deletes_nothing(connection, claimed):
    check_claim_that_is_over(connection, claimed)


def test_expired_claim_is_current_until_claimed_again(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, -5)")

    assert value(connection, "select sluice.delete('orders', %s, %s)", *claimed) is True


def test_several_claims_are_deleted_at_once(connection, claimed):
    connection.execute("select pgmq.send('orders', '2'::jsonb)")
    connection.execute("select pgmq.read('orders', 30, 1)")

    outcomes = rows(connection, "select * from sluice.delete('orders', array[2, 1], array[1, 1])")

    assert outcomes == [(2, "done"), (1, "done")]
    assert value(connection, "select count(*) from pgmq.q_orders") == 0
    assert value(connection, "select count(*) from pgmq.a_orders") == 0


def check_single_claim(connection, _claimed):
    one = "select * from sluice.delete('orders', array[1], array[%s])"

    assert rows(connection, one % 0) == [(1, "stale")]
    assert rows(connection, one % 2) == [(1, "stale")]
    assert rows(connection, one % 1) == [(1, "done")]
    assert rows(connection, one % 1) == [(1, "gone")]
    assert value(connection, "select count(*) from pgmq.a_orders") == 0


def test_a_single_claim_has_the_outcome_that_it_has_among_others(connection, claimed):
    check_single_claim(connection, claimed)


ONE = "sluice.delete(text,bigint,integer,timestamptz)"
SEVERAL = "sluice.delete(text,bigint[],integer[],timestamptz[])"


@pytest.mark.parametrize(
    ("check", "function", "old", "new"),
    [
        # A later claim of the message is no obstacle.
        (check_claim_that_is_over, ONE, " and read_ct = $2", " and read_ct >= $2"),
        (check_single_claim, ONE, " and read_ct = $2", ""),
        # The single claim is not looked up after it has missed.
        (
            check_single_claim,
            SEVERAL,
            "sluice._missed_outcome(queue_name, msg_ids[1], enqueued_ats[1])",
            "'gone'",
        ),
        (
            check_single_claim,
            SEVERAL,
            "sluice._missed_outcome(queue_name, msg_ids[1], enqueued_ats[1])",
            "'stale'",
        ),
    ],
)
def test_a_planted_bug_is_found(connection, claimed, check, function, old, new):
    if function == ONE:  # the statement of queues without a settler
        connection.execute("drop function pgmq.a_orders(bigint, integer, timestamptz, boolean)")
    replace_in(connection, function, old, new)

    with pytest.raises(AssertionError):
        check(connection, claimed)
