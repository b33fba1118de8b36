"""sluice.fail, with _tried_messages, _settle_tried and _retry_settings."""

import json

import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

VT = "select round(extract(epoch from vt - clock_timestamp())) from pgmq.q_orders where msg_id = %s"


def fail(connection, *failures, worker="w", **policy):
    """Call sluice.fail for failures as (msg_id, read_ct) or as objects; return the outcomes."""
    listed = [
        failure
        if isinstance(failure, dict)
        else dict(zip(("msg_id", "read_ct"), failure, strict=True))
        for failure in failures
    ]
    return rows(
        connection,
        "select msg_id, outcome, attempt from sluice.fail('orders', %s, %s, %s)",
        *(json.dumps(listed), worker, json.dumps(policy) if policy else None),
    )


def claim_again(connection, msg_id=1):
    connection.execute("select pgmq.set_vt('orders', %s::bigint, 0)", [msg_id])
    return value(connection, "select read_ct from pgmq.read('orders', 30, 1)")


def begin(connection, read_ct, attempts_max=5, msg_id=1):
    return rows(
        connection,
        "select attempt, outcome from sluice.begin_attempts('orders', array[%s::bigint], array[%s::integer], 'w', %s)",
        *(msg_id, read_ct, attempts_max),
    )[0]


def noted(connection):
    return rows(
        connection, "select msg_id, read_ct, state, attempts from sluice.attempt order by 1"
    )


def test_failed_message_waits_with_its_error(connection, claimed):
    why = {"error_type": "ValueError", "error": "no", "trace": "at 1", "reason": "odd"}

    assert fail(connection, {"msg_id": 1, "read_ct": 1, "delay": 60, **why}) == [(1, "retry", 1)]

    assert value(connection, VT, 1) == 60
    # last_read_at is null while no consumer holds the message.
    assert value(connection, "select last_read_at from pgmq.q_orders") is None
    ((*kept, times),) = rows(
        connection,
        "select queue_name, msg_id, read_ct, state, attempts, error_type, error, trace, worker, "
        "first_failed_at = last_failed_at and first_failed_at > enqueued_at from sluice.attempt",
    )
    assert kept == ["orders", 1, 1, "failed", 1, "ValueError", "no", "at 1", "w"]
    assert times


def test_after_its_last_attempt_it_is_a_dead_letter_with_all_that_is_known(connection, claimed):
    assert fail(connection, (1, 1), max_attempts=2) == [(1, "retry", 1)]
    first_failed_at = value(connection, "select first_failed_at from sluice.attempt")
    assert claim_again(connection) == 2
    why = {"error_type": "KeyError", "error": "k", "trace": "at 2"}

    outcome = fail(connection, {"msg_id": 1, "read_ct": 2, **why}, worker="v", max_attempts=2)

    assert outcome == [(1, "dead", 2)]
    assert rows(
        connection,
        "select queue_name, msg_id, read_ct, message, headers, reason, error_type, error, trace, attempts, worker, "
        "first_failed_at from sluice.dead_letter",
    ) == [
        ("orders", 1, 2, {"n": 1}, {"h": 2}, "too many attempts", "KeyError", "k", "at 2", 2, "v", first_failed_at)
    ]  # fmt: skip
    assert value(connection, "select count(*) from pgmq.q_orders") == 0
    assert noted(connection) == []


def test_a_rejected_message_is_dead_at_once(connection, claimed):
    rejected = {"msg_id": 1, "read_ct": 1, "reject": True, "reason": "bad shape"}

    assert fail(connection, rejected) == [(1, "dead", 1)]

    letter = rows(connection, "select reason, error, attempts from sluice.dead_letter")
    assert letter == [("bad shape", None, 1)]


@pytest.mark.parametrize("attempts_max", [2, 1], ids=["retry", "dead"])
def test_repeated_failure_after_a_lost_reply_changes_nothing(connection, claimed, attempts_max):
    first = fail(connection, {"msg_id": 1, "read_ct": 1, "delay": 60}, max_attempts=attempts_max)
    tables = [
        f"select to_jsonb(t) from {t} as t"
        for t in ("pgmq.q_orders", "sluice.attempt", "sluice.dead_letter")
    ]
    before = [rows(connection, table) for table in tables]

    again = fail(connection, {"msg_id": 1, "read_ct": 1, "delay": 0}, max_attempts=attempts_max)

    assert again == first == [(1, "retry" if attempts_max == 2 else "dead", 1)]
    assert [rows(connection, table) for table in tables] == before


def test_a_claim_that_is_over_changes_nothing(connection, claimed):
    claim_again(connection)
    before = rows(connection, "select * from pgmq.q_orders")

    assert fail(connection, (1, 1), (9, 1), max_attempts=1) == [
        (1, "stale", None),
        (9, "gone", None),
    ]

    assert rows(connection, "select * from pgmq.q_orders") == before
    assert noted(connection) == []


def test_a_message_with_another_enqueued_at_is_gone(connection, claimed):
    """Of a queue that was created again; also when a message of that number was dead-lettered."""
    sent = value(connection, "select to_jsonb(enqueued_at)::text from pgmq.q_orders")
    claim = {"msg_id": 1, "read_ct": 1}
    own, other = {**claim, "enqueued_at": json.loads(sent)}, {**claim, "enqueued_at": "infinity"}
    times = "enqueued_ats => '{infinity}'"
    before = rows(connection, "select * from pgmq.q_orders")

    assert fail(connection, other, max_attempts=1) == [(1, "gone", None)]
    assert rows(
        connection,
        f"select outcome from sluice.release('orders', '{{1}}', '{{1}}', {times}, is_attempt => false)",
    ) == [("gone",)]
    assert rows(
        connection,
        f"select attempt, outcome from sluice.begin_attempts('orders', '{{1}}', '{{1}}', 'w', 1, {times})",
    ) == [(None, "lost")]
    assert rows(connection, "select * from pgmq.q_orders") == before
    assert noted(connection) == []

    assert fail(connection, other, own, max_attempts=1) == [(1, "gone", None), (1, "dead", 1)]
    repeated = fail(connection, other, own, claim, max_attempts=1)
    assert repeated == [(1, "gone", None), (1, "dead", 1), (1, "dead", 1)]


def test_released_message_cannot_fail(connection, claimed):
    connection.execute("select sluice.release('orders', '{1}', '{1}', is_attempt => false)")

    assert fail(connection, (1, 1)) == [(1, "stale", None)]
    assert noted(connection) == [(1, 1, "released", 0)]


def test_each_failure_has_its_outcome_in_their_order_also_repeated(connection, claimed):
    connection.execute("select pgmq.send_batch('orders', array['2', '3']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 2)")
    reject = {"msg_id": 3, "read_ct": 1, "reject": True}

    outcomes = fail(connection, reject, (1, 1), (9, 1), (2, 7), (1, 1), {"msg_id": None}, reject)

    assert outcomes == [
        (3, "dead", 1), (1, "retry", 1), (9, "gone", None), (2, "stale", None), (1, "retry", 1), (None, "gone", None),
        (3, "dead", 1),
    ]  # fmt: skip
    assert value(connection, "select count(*) from sluice.dead_letter") == 1
    assert fail(connection) == []


@pytest.mark.parametrize(
    ("policy", "pauses"),
    [
        ({"backoff": "constant"}, [2, 2, 2, 2]),
        ({"backoff": "linear"}, [2, 4, 6, 8]),
        ({"backoff": "exponential"}, [2, 4, 8, 16]),
        ({"backoff": "exponential", "backoff_max": 5}, [2, 4, 5, 5]),
        ({"backoff": "exponential", "backoff_factor": 3}, [2, 6, 18, 54]),
        ({"backoff": "exponential", "backoff_factor": 1}, [2, 2, 2, 2]),
        ({"backoff": "exponential", "backoff_factor": 1e300, "backoff_max": 7}, [2, 7, 7, 7]),
        ({"backoff_factor": 1e300, "backoff_base": 0}, [0, 0, 0, 0]),
        ({"backoff_base": "1 minute", "backoff_max": "90 s"}, [60, 90, 90, 90]),
    ],
)
def test_the_pauses_follow_the_policy(connection, claimed, policy, pauses):
    read_ct = 1
    found = []
    for _ in pauses:
        fail(connection, (1, read_ct), **{"backoff_base": 2, "backoff_jitter": False, **policy})
        found.append(value(connection, VT, 1))
        read_ct = claim_again(connection)

    assert found == pauses


def test_back_off_is_returned_in_seconds_from_its_start(connection, claimed):
    reject = {"msg_id": 1, "read_ct": 2, "reject": True}
    policy = json.dumps({"backoff_base": 40, "backoff_jitter": False})
    query = "select outcome, round(delay::numeric, 3) from sluice.fail('orders', %s, null, %s)"

    (begun,) = rows(connection, query, '[{"msg_id": 1, "read_ct": 1}]', policy)
    again = rows(connection, query, '[{"msg_id": 1, "read_ct": 1}]', policy)
    claim_again(connection)
    dead = rows(connection, query, json.dumps([reject]), policy)

    assert (begun, again, dead) == (("retry", 40), [("retry", None)], [("dead", None)])


def test_with_jitter_a_pause_is_between_half_of_it_and_all_of_it(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "select pgmq.send_batch('orders', array_agg('1'::jsonb)) from generate_series(1, 50)"
    )
    connection.execute("select pgmq.read('orders', 30, 50)")

    fail(connection, *[(msg_id, 1) for msg_id in range(1, 51)], backoff_base=1000, backoff_max=1000)

    pauses = [value(connection, VT, msg_id) for msg_id in range(1, 51)]
    assert 495 <= min(pauses) < 650
    assert 850 < max(pauses) <= 1000


def test_the_policy_of_the_queue_counts_by_any_spelling_and_the_one_given_comes_first(
    connection, claimed
):
    set_queue_options(connection, "orders", max_attempts=1)
    as_written = "select outcome from sluice.fail('ORDERS', '[{\"msg_id\": 1, \"read_ct\": 1}]'%s)"

    with connection.transaction(force_rollback=True):
        assert value(connection, as_written % "") == "dead"
    assert (
        value(connection, as_written % ', policy => \'{"max_attempts": 2, "backoff": null}\'')
        == "retry"
    )


def test_a_failure_of_a_claim_that_was_begun_counts_once(connection, claimed):
    claim_again(connection)
    assert begin(connection, 2) == (2, "begun")

    assert fail(connection, (1, 2)) == [(1, "retry", 2)]

    assert noted(connection) == [(1, 2, "failed", 2)]
    assert begin(connection, 2) == (None, "lost")


def test_attempts_count_together_by_any_spelling(connection, claimed):
    connection.execute("select sluice.fail('ORDERS', '[{\"msg_id\": 1, \"read_ct\": 1}]')")
    claim_again(connection)
    begin = "select attempt from sluice.begin_attempts('Orders', '{1}', '{2}', 'w')"
    assert value(connection, begin) == 2

    assert fail(connection, (1, 2), max_attempts=2) == [(1, "dead", 2)]
    assert noted(connection) == []


def test_a_claim_that_was_never_begun_does_not_count_from_the_second_on(connection, claimed):
    fail(connection, (1, 1))
    for _ in range(7):
        read_ct = claim_again(connection)

    assert begin(connection, read_ct, 2) == (2, "begun")
    assert fail(connection, (1, read_ct), max_attempts=2) == [(1, "dead", 2)]


def test_a_row_of_another_message_of_the_same_id_counts_nothing(connection, claimed):
    for read_ct in (1, 2, 3):
        fail(connection, (1, read_ct))
        claim_again(connection)
    connection.execute("truncate pgmq.q_orders restart identity")
    connection.execute("select pg_sleep(0.001)")
    connection.execute("select pgmq.send('orders', '2')")
    connection.execute("select pgmq.read('orders', 0, 1)")
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert begin(connection, 2, 2) == (2, "begun")
    assert fail(connection, (1, 2), max_attempts=2) == [(1, "dead", 2)]


def test_at_the_end_of_the_range_of_read_ct_attempts_still_end(connection, claimed):
    connection.execute("update pgmq.q_orders set read_ct = 2147483646")
    outcomes = []
    for _ in range(4):
        read_ct = claim_again(connection)
        assert read_ct == 2147483647
        outcomes.append(begin(connection, read_ct, 4))

    assert outcomes == [(2, "begun"), (3, "begun"), (4, "begun"), (4, "dead")]


def test_a_queue_in_partitions_and_an_unlogged_one_are_as_any_other(connection):
    for create in ("create_partitioned('orders', '2', '10')", "create_unlogged('orders')", "create_partitioned('orders', '1 day', '10 days')"):  # fmt: skip
        connection.execute(f"select pgmq.{create}")
        connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
        connection.execute("select pgmq.read('orders', 0, 3)")
        connection.execute("select pgmq.read('orders', 30, 3)")

        assert begin(connection, 2, 2, msg_id=3) == (2, "begun")
        assert fail(connection, (3, 2), (2, 2), (1, 2), max_attempts=3) == [
            (3, "retry", 2), (2, "retry", 2), (1, "retry", 2),
        ]  # fmt: skip
        assert rows(
            connection, "select * from sluice.release('orders', '{3}', '{2}', is_attempt => false)"
        ) == [(3, "stale")]
        assert fail(connection, (3, 2), max_attempts=3) == [(3, "retry", 2)]
        connection.execute("select pgmq.drop_queue('orders')")
        assert noted(connection) == []


@pytest.mark.parametrize(
    ("failures", "policy", "code"),
    [
        ("{}", None, "22023"),
        ("[]", "5", "22023"),
        ("[]", '{"attempts": 5}', "22023"),
        ("[]", '{"max_attempts": 0}', "22023"),
        ("[]", '{"backoff": "fast"}', "22023"),
        ("[]", '{"backoff_base": -1}', "22023"),
        ("[]", '{"backoff_max": "soon"}', "22023"),
    ],
)
def test_invalid_retry_policy_is_refused(connection, claimed, failures, policy, code):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select sluice.fail('orders', %s, null, %s)", [failures, policy])

    assert caught.value.sqlstate == code


def test_a_queue_that_does_not_exist_is_an_undefined_table(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        fail(connection, (1, 1))


def test_a_reader_fails_messages_without_being_superuser_and_a_writer_does_not(
    connection, claimed, as_member
):
    for query in (
        'select outcome from sluice.fail(\'orders\', \'[{"msg_id": 1, "read_ct": 1, "reject": true}]\')',
        "select outcome from sluice.fail('orders', '[{\"msg_id\": 1, \"read_ct\": 1}]')",
        "select outcome from sluice.begin_attempts('orders', '{1}', '{1}', 'w')",
        "select outcome from sluice.release('orders', '{1}', '{1}', is_attempt => false)",
        "select outcome from sluice.lock_messages('orders', '{1}', '{1}')",
    ):
        for member_of in ("sluice_reader", "sluice_admin"):
            assert as_member(member_of, query)[0][0] in ("dead", "retry", "begun", "done")
        for member_of in ("sluice_writer", "sluice_monitor"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, query)


def test_thousands_of_failures_are_found_by_their_key(connection, buffers):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "insert into pgmq.q_orders (vt, read_ct, message) select now(), 1, '1' from generate_series(1, 50000)"
    )
    connection.execute(
        "insert into sluice.attempt (queue_name, msg_id, enqueued_at, read_ct, state, attempts, check_at) "
        "select 'orders', msg_id, enqueued_at, 1, 'begun', 1, now() from pgmq.q_orders"
    )
    connection.execute("analyze pgmq.q_orders, sluice.attempt")
    failures = json.dumps([{"msg_id": msg_id, "read_ct": 1} for msg_id in range(100, 110)])

    assert buffers(f"select * from sluice.fail('orders', '{failures}')") < 600
