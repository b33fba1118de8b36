"""sluice._settle_sql and _require_claims: common behaviour of delete, archive, extend, release."""

import psycopg
import pytest

from support import replace_in, rows, value

EFFECTS = ["delete", "archive", "extend", "release"]


def call(effect, enqueued_ats=None):
    seconds = ", 60" if effect in ("extend", "release") else ""
    times = f", enqueued_ats => {enqueued_ats}::timestamptz[]" if enqueued_ats else ""
    return f"select * from sluice.{effect}('orders', %s::bigint[], %s::integer[]{seconds}{times})"


@pytest.fixture
def three(connection):
    """A queue with three messages, each claimed once."""
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 3)")
    return connection


def claimed_again(connection, msg_id):
    connection.execute("select pgmq.set_vt('orders', %s::bigint, 0)", [msg_id])
    connection.execute("select pgmq.read('orders', 30, 1)")


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_claim_has_its_outcome_in_the_order_of_the_claims(three, effect):
    claimed_again(three, 2)
    three.execute("select pgmq.delete('orders', 1)")

    outcomes = rows(three, call(effect), [3, 2, 9, 1], [1, 1, 1, 1])

    assert outcomes == [(3, "done"), (2, "stale"), (9, "gone"), (1, "gone")]


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_stale_claim_changes_nothing(three, effect):
    claimed_again(three, 2)
    before = rows(three, "select * from pgmq.q_orders where msg_id = 2")

    assert rows(three, call(effect), [2], [1]) == [(2, "stale")]

    assert rows(three, "select * from pgmq.q_orders where msg_id = 2") == before


@pytest.mark.parametrize("effect", EFFECTS)
def test_of_two_claims_of_one_message_the_current_one_counts(three, effect):
    claimed_again(three, 2)

    outcomes = rows(three, call(effect), [2, 2, 2], [1, 2, 2])

    assert outcomes == [(2, "stale"), (2, "done"), (2, "done")]


@pytest.mark.parametrize("effect", ["delete", "archive"])
def test_after_a_lost_reply_the_same_call_says_gone(three, effect):
    assert rows(three, call(effect), [1], [1]) == [(1, "done")]

    assert rows(three, call(effect), [1], [1]) == [(1, "gone")]


@pytest.mark.parametrize("effect", EFFECTS)
def test_no_claims_and_nulls_do_no_harm(three, effect):
    before = rows(three, "select * from pgmq.q_orders order by 1")

    assert rows(three, call(effect), [], []) == []
    assert rows(three, call(effect), None, None) == []
    assert rows(three, call(effect), [None, 1], [1, None]) == [(None, "gone"), (1, "stale")]
    assert rows(three, "select * from pgmq.q_orders order by 1") == before


@pytest.mark.parametrize("effect", EFFECTS)
def test_claims_that_do_not_pair_are_refused(three, effect):
    with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
        three.execute(call(effect), [[1, 2], [1]])

    assert caught.value.diag.message_primary == (
        "read_cts array length (1) must match msg_ids array length (2)"
    )
    assert value(three, "select count(*) from pgmq.q_orders") == 3


@pytest.mark.parametrize("effect", [*EFFECTS, "lock_messages"])
def test_a_message_with_another_enqueued_at_is_gone_and_unchanged(three, effect):
    three.execute("update pgmq.q_orders set enqueued_at = '2026-03-01 12:00:00.000001+00'")
    three.execute("set timezone to 'Asia/Kathmandu'")
    before = rows(three, "select * from pgmq.q_orders order by 1")
    same = "'2026-03-01 17:45:00.000001+05:45'"
    others = ("'2026-03-01 12:00:00.000001'", "'2026-03-01 12:00+00'", "'infinity'", "'-infinity'")

    for other in others:
        one, two = f"array[{other}]", f"array[{other}, {other}]"
        assert rows(three, call(effect, one), [1], [1]) == [(1, "gone")]
        assert rows(three, call(effect, two), [2, 1], [1, 0]) == [(2, "gone"), (1, "gone")]
    assert rows(three, "select * from pgmq.q_orders order by 1") == before

    # Null is not compared; a stale claim of the message is stale, not gone.
    given = f"array[{same}, null, {same}, {others[0]}]"
    outcomes = rows(three, call(effect, given), [1, 2, 3, 2], [1, 1, 0, 1])
    assert outcomes == [(1, "done"), (2, "done"), (3, "stale"), (2, "gone")]
    assert rows(three, call(effect, f"array[{same}]"), [3], [2]) == [(3, "stale")]
    assert rows(three, call(effect, "'[0:0]={infinity}'"), [3], [1]) == [(3, "gone")]
    assert rows(three, call(effect, "array[null]"), [3], [1]) == [(3, "done")]


@pytest.mark.parametrize("effect", [*EFFECTS, "lock_messages"])
def test_times_that_do_not_pair_are_refused(three, effect):
    for times, found in (("'{}'", 0), ("array[now(), now()]", 2)):
        with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
            three.execute(call(effect, times), [[1], [1]])
        assert caught.value.diag.message_primary == (
            f"enqueued_ats array length ({found}) must match msg_ids array length (1)"
        )


@pytest.mark.parametrize("has_settler", [True, False])
@pytest.mark.parametrize("effect", [*EFFECTS, "reject"])
def test_one_message_with_another_enqueued_at_is_unchanged(three, effect, has_settler):
    if not has_settler:
        three.execute("drop function pgmq.a_orders(bigint, integer, timestamptz, boolean)")
    more = {"extend": ", 60", "release": ", 60", "reject": ", 'bad', 'trace'"}.get(effect, "")
    one = f"select sluice.{effect}('orders', 1, 1{more}, %s::timestamptz)"
    before = rows(three, "select * from pgmq.q_orders order by 1")
    ((sent,),) = rows(three, "select enqueued_at::text from pgmq.q_orders where msg_id = 1")

    for other in ("infinity", "-infinity", "2000-01-01"):
        assert value(three, one, other) is False
    assert rows(three, "select * from pgmq.q_orders order by 1") == before
    assert value(three, one, sent) is True


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_queue_that_does_not_exist_is_an_undefined_table(connection, effect):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute(call(effect), [[1], [1]])


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_reader_may_and_a_writer_may_not(three, effect):
    three.execute("set role sluice_reader")
    assert rows(three, call(effect), [1], [1]) == [(1, "done")]

    three.execute("set role sluice_writer")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        three.execute(call(effect), [[2], [1]])


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_partner_of_thousands_is_found_by_its_key(three, effect):
    three.execute(
        "insert into pgmq.q_orders (vt, message) select now(), '1' from generate_series(1, 20000)"
    )
    three.execute("analyze pgmq.q_orders")
    scans = "select seq_scan from pg_stat_user_tables where relname = 'q_orders'"
    three.execute("select pg_stat_force_next_flush()")
    before = value(three, scans)

    assert rows(three, call(effect), [2, 1], [1, 1]) == [(2, "done"), (1, "done")]

    three.execute("select pg_stat_force_next_flush()")
    assert value(three, scans) == before


def test_at_the_end_of_its_range_read_ct_cannot_tell_two_claims_apart(three):
    three.execute("update pgmq.q_orders set read_ct = 2147483646, vt = now() where msg_id = 1")
    (first,) = rows(three, "select msg_id, read_ct from pgmq.read('orders', 0, 1)")
    (second,) = rows(three, "select msg_id, read_ct from pgmq.read('orders', 30, 1)")

    assert first == second == (1, 2147483647)
    assert rows(three, call("delete"), [1], [2147483647]) == [(1, "done")]


# Bug → the function, a part of it, and the bug that replaces it.
CORE = "sluice._settle_sql(text,bigint[],integer[],timestamptz[],text)"
PLANTED = {
    "another message is changed": (CORE, "claim.enqueued_at = held.enqueued_at", "true"),
    "another message is stale": (CORE, " or claim.enqueued_at <> held.enqueued_at", ""),
    "null is another time": (CORE, "claim.enqueued_at is null\n", "false\n"),
    "a time at another place of the array is not compared": (
        "sluice.delete(text,bigint[],integer[],timestamptz[])",
        " and enqueued_ats[1] is not null",
        "",
    ),
    "a single message is stale": (
        "sluice._missed_outcome(text,bigint,timestamptz)",
        "queued.enqueued_at = $2 or $2 is null",
        "true",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_in_the_comparison_of_times_is_found(three, bug):
    replace_in(three, *PLANTED[bug])

    with pytest.raises(AssertionError):
        test_a_message_with_another_enqueued_at_is_gone_and_unchanged(three, "delete")
