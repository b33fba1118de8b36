from support import rows, value

NOTED = "select read_ct, state, attempts from sluice.attempt"


def release_without_attempt(connection, msg_ids, read_cts, delay=0):
    return rows(
        connection,
        "select * from sluice.release('orders', %s::bigint[], %s::integer[], %s, is_attempt => false)",
        *(msg_ids, read_cts, delay),
    )


def test_a_message_is_visible_again_after_the_delay_and_keeps_its_count_of_claims(
    connection, claimed
):
    assert release_without_attempt(connection, [1], [1], 0.5) == [(1, "done")]

    waiting = "select vt - clock_timestamp() between '0' and '0.5 s', last_read_at, read_ct from pgmq.q_orders"
    assert rows(connection, waiting) == [(True, None, 1)]
    assert rows(connection, NOTED) == [(1, "released", 0)]
    assert release_without_attempt(connection, [1], [1]) == [(1, "done")]  # a lost reply


def test_release_without_delay_is_visible_immediately(connection, claimed):
    """It keeps last_read_at, as a message without one waits for a retry and would park its key."""
    assert release_without_attempt(connection, [1], [1]) == [(1, "done")]

    assert value(connection, "select last_read_at is not null from pgmq.q_orders")
    assert release_without_attempt(connection, [1], [1]) == [(1, "done")]  # a lost reply
    assert rows(connection, NOTED) == [(1, "released", 0)]


def test_a_later_claim_that_was_not_begun_needs_no_note(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert release_without_attempt(connection, [1], [2]) == [(1, "done")]

    assert rows(connection, NOTED) == []
    # A message without a delay does not wait, so it keeps last_read_at.
    again = "select vt <= clock_timestamp() and last_read_at is not null from pgmq.q_orders"
    assert value(connection, again)


def test_started_attempt_is_not_counted_after_release(connection, claimed):
    begin = "select attempt from sluice.begin_attempts('orders', '{1}', '{1}', 'w', 1)"
    assert value(connection, begin) == 1

    assert release_without_attempt(connection, [1], [1]) == [(1, "done")]

    assert rows(connection, NOTED) == [(1, "released", 0)]
    assert rows(
        connection, "select * from sluice.begin_attempts('orders', '{1}', '{1}', 'w', 1)"
    ) == [(1, None, "lost")]


def test_failed_message_keeps_its_back_off(connection, claimed):
    connection.execute(
        'select sluice.fail(\'orders\', \'[{"msg_id": 1, "read_ct": 1, "delay": 600}]\')'
    )

    assert release_without_attempt(connection, [1], [1]) == [(1, "stale")]

    assert value(connection, "select vt > now() + '500 s' from pgmq.q_orders")
    assert rows(connection, NOTED) == [(1, "failed", 1)]


def test_each_claim_has_its_outcome_in_their_order(connection, claimed):
    connection.execute("select pgmq.send_batch('orders', array['2', '3']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 2)")

    outcomes = release_without_attempt(connection, [3, 9, 2, 1, 3], [1, 1, 5, 1, 1])

    assert outcomes == [(3, "done"), (9, "gone"), (2, "stale"), (1, "done"), (3, "done")]
    assert release_without_attempt(connection, [], []) == []
