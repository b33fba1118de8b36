"""The settler of a queue: a message is deleted or archived as by the statement that is planned at each call."""

import psycopg
import pytest

from pgsluice import schema
from support import replace_in, rows, value

SETTLER = "pgmq.a_orders(bigint,integer,timestamptz,boolean)"
LEFT = "select msg_id from pgmq.q_orders order by 1"
ARCHIVED = (
    "select msg_id, read_ct, message, headers, last_read_at is null from pgmq.a_orders order by 1"
)


def has_settler(connection, queue="orders"):
    return value(connection, "select pgmq._settler(%s)", queue) is not None


@pytest.fixture(params=["with", "without"])
def settled(connection, queue, request):
    """A queue with or without its settler; its messages 1 and 2 are claimed twice and once, and 3 is not."""
    connection.execute(
        """select pgmq.send('orders', '{"n": 1}'::jsonb, '{"h": 2}'::jsonb), pgmq.send('orders', '{}'),
               pgmq.send('orders', '{}')"""
    )
    connection.execute("select pgmq.read('orders', 0, 1)")
    connection.execute("select pgmq.read('orders', 30, 2)")
    if request.param == "without":
        connection.execute(f"drop function {SETTLER}")
    assert has_settler(connection) == (request.param == "with")


def check_delete(connection):
    delete = "select pgmq.delete('orders', {})"

    assert value(connection, delete.format(1)) is True
    assert value(connection, delete.format(1)) is False
    assert value(connection, delete.format("null::bigint")) is False
    assert rows(connection, LEFT) == [(2,), (3,)]
    assert rows(connection, ARCHIVED) == []


def check_archive(connection):
    archive = "select pgmq.archive('orders', {})"

    assert value(connection, archive.format(1)) is True
    assert value(connection, archive.format(1)) is False
    assert value(connection, archive.format(3)) is True
    assert rows(connection, LEFT) == [(2,)]
    assert rows(connection, ARCHIVED) == [(1, 2, {"n": 1}, {"h": 2}, False), (3, 0, {}, None, True)]


def check_claims(connection, function):
    """A claim is a msg_id and a read_ct; an earlier or a later one is not current, and null is none.

    A message with another enqueued_at is another one; null is any.
    """
    settle = "select sluice.{}('orders', {}, {}, {})"
    times = (
        "'infinity'",
        "(select max(enqueued_at) + interval '1 us' from pgmq.q_orders)",
        "'-infinity'",
    )
    stale = ((1, 1), (1, 3), (1, "null::integer"), ("null::bigint", 2))
    for claim in (*((*claim, "null") for claim in stale), *((1, 2, time) for time in times)):
        assert value(connection, settle.format(function, *claim)) is False, claim
    assert rows(connection, LEFT) == [(1,), (2,), (3,)]

    sent = value(
        connection, "select quote_literal(enqueued_at) from pgmq.q_orders where msg_id = 1"
    )
    assert value(connection, settle.format(function, 1, 2, sent)) is True
    assert value(connection, settle.format(function, 1, 2, sent)) is False
    assert value(connection, settle.format(function, 2, 1, "null")) is True
    assert rows(connection, LEFT) == [(3,)]
    archived = [(1, 2, {"n": 1}, {"h": 2}, False), (2, 1, {}, None, False)]
    assert rows(connection, ARCHIVED) == (archived if function == "archive" else [])


def check_delete_of_claims(connection):
    check_claims(connection, "delete")


def check_archive_of_claims(connection):
    check_claims(connection, "archive")


CHECKS = (check_delete, check_archive, check_delete_of_claims, check_archive_of_claims)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_does_what_the_planned_statement_does(connection, settled, check):
    check(connection)


FENCE = """
              and (queued.read_ct = fence or fence is null)
              and (queued.enqueued_at = enqueued_fence or enqueued_fence is null)
            returning"""
FENCE_OF_DELETE = """
          and (queued.read_ct = fence or fence is null)
          and (queued.enqueued_at = enqueued_fence or enqueued_fence is null);"""
ENQUEUED = "and (queued.enqueued_at = enqueued_fence or enqueued_fence is null)"
# Bug → the check that finds it, a part of the settler, and the bug that replaces it.
PLANTED = {
    "an earlier claim is deleted": (check_delete_of_claims, FENCE_OF_DELETE, ";"),
    "an earlier claim is archived": (check_archive_of_claims, FENCE, "\n            returning"),
    "a later claim is archived": (
        check_archive_of_claims,
        FENCE,
        FENCE.replace("= fence", "<= fence"),
    ),
    "a message of another queue is deleted": (check_delete_of_claims, f"{ENQUEUED};", ";"),
    "a message of another queue is archived": (
        check_archive_of_claims,
        f"{ENQUEUED}\n            returning",
        "returning",
    ),
    "only claims are deleted": (
        check_delete,
        FENCE_OF_DELETE,
        FENCE_OF_DELETE.replace(" or fence is null", ""),
    ),
    "only claims are archived": (check_archive, FENCE, FENCE.replace(" or fence is null", "")),
    "headers are lost": (check_archive, "moved.message, moved.headers", "moved.message, null"),
    "it archives what is deleted": (check_delete, "if remove then", "if not remove then"),
    "it says that all were there": (check_delete, "return found;", "return true;"),
}


@pytest.mark.parametrize("bug", PLANTED)
@pytest.mark.parametrize("settled", ["with"], indirect=True)
def test_a_planted_bug_is_found(connection, settled, bug):
    check, old, new = PLANTED[bug]
    replace_in(connection, SETTLER, old, new)

    with pytest.raises(AssertionError):
        check(connection)


@pytest.mark.parametrize("function", ["delete", "archive"])
def test_a_claim_without_read_ct_is_none(connection, queue, function):
    """For the settler, null is any read_ct."""
    connection.execute("select pgmq.send('orders', '1')")
    one = f"sluice.{function}(text,bigint,integer,timestamptz)"
    replace_in(connection, one, "and read_ct is not null then", "then")

    assert value(connection, f"select sluice.{function}('orders', 1, null)") is True, (
        "the planted bug"
    )


def test_a_role_that_may_not_execute_it_settles_with_its_rights_on_the_tables(connection, queue):
    """As the creator of a queue from before there were settlers."""
    connection.execute("select pgmq.send('orders', '1'), pgmq.send('orders', '2')")
    connection.execute("create role settling")
    connection.execute("grant usage on schema pgmq, sluice to settling")
    connection.execute("grant select, insert, delete on pgmq.q_orders, pgmq.a_orders to settling")
    connection.execute("grant execute on all functions in schema pgmq to settling")
    connection.execute(f"revoke execute on function {SETTLER} from settling")
    try:
        connection.execute("set role settling")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select pgmq.a_orders(1, null, null, true)")

        assert value(connection, "select pgmq.delete('orders', 1)") is True
        assert value(connection, "select pgmq.archive('orders', 2)") is True
    finally:
        connection.execute("reset role")
        connection.execute("drop owned by settling")
        connection.execute("drop role settling")


def test_it_is_no_difference_from_the_release(connection):
    before = schema.fingerprint(connection)

    connection.execute("select pgmq.create('orders')")

    assert has_settler(connection)
    assert schema.fingerprint(connection) == before
    assert schema.verify(connection) == ()


def test_it_is_created_and_dropped_with_its_queue(connection, queue):
    assert has_settler(connection)
    connection.execute("select pgmq.create('Mixed \"case\"')")
    assert has_settler(connection, 'Mixed "case"')

    connection.execute("select pgmq.drop_queue('orders'), pgmq.drop_queue('Mixed \"case\"')")
    left = "select oid::regprocedure::text from pg_proc where pronamespace = 'pgmq'::regnamespace and proname ~ '^a_'"
    assert rows(connection, left) == []


def test_a_partitioned_queue_has_none(connection):
    connection.execute("select pgmq.create_partitioned('parts', '100', '1000')")
    connection.execute("select pgmq.send('parts', '1'), pgmq.send('parts', '2')")

    assert not has_settler(connection, "parts")
    assert value(connection, "select pgmq.delete('parts', 1)") is True
    assert value(connection, "select pgmq.archive('parts', 2)") is True


def test_a_queue_of_another_role_is_complete_without_it(connection, queue):
    """As every partitioned one: services create their queues at each start."""
    connection.execute(f"drop function {SETTLER}")
    connection.execute("create role other")
    try:
        connection.execute("alter table pgmq.q_orders owner to other")

        connection.execute("select pgmq.create('orders')")

        assert not has_settler(connection), "left unchanged"
    finally:
        connection.execute("drop owned by other cascade")
        connection.execute("drop role other")


def test_one_of_an_earlier_form_is_not_called(connection, queue):
    """An installation in several transactions replaces the functions of some queues later than pgmq.delete."""
    connection.execute(f"drop function {SETTLER}")
    connection.execute(
        "create function pgmq.a_orders(bigint, integer, boolean) returns boolean return 1 / 0 > 1"
    )
    connection.execute("select pgmq.send('orders', '1'), pgmq.send('orders', '2')")

    assert not has_settler(connection)
    assert value(connection, "select pgmq.delete('orders', 1)") is True
    assert value(connection, "select sluice.archive('orders', 2, 0)") is True


@pytest.mark.parametrize("by", ["create", "install"])
def test_a_queue_of_an_earlier_release_gets_it(connection, queue, by):
    connection.execute(f"drop function {SETTLER}")
    assert not has_settler(connection)

    if by == "create":
        connection.execute("select pgmq.create('orders')")
    else:
        schema.install(connection)

    assert has_settler(connection)


def test_a_queue_of_that_name_with_the_ending_of_another(connection, queue):
    """Functions of two queues never have the same name: that of the settler is the name of the archive."""
    connection.execute("select pgmq.create('a_orders'), pgmq.create('q_orders')")
    connection.execute(
        "select pgmq.send(name, '1') from unnest(array['orders', 'a_orders', 'q_orders']) as name"
    )

    for name in ("orders", "a_orders", "q_orders"):
        assert value(connection, "select pgmq.archive(%s, 1)", name) is True
        assert value(connection, f"select count(*) from pgmq.a_{name}") == 1
