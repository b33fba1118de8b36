import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

QUERY = "select key, reason, msg_id, due_at is not null, waiting from sluice.list_blocked_keys('q') order by key"


@pytest.fixture
def queue(connection):
    """The queue `q`: three messages of key `a`, two of `b`, one of `c` and one without a key."""
    connection.execute("select pgmq.create('q')")
    connection.execute(
        "select pgmq.send_batch('q', array_agg('1'::jsonb), array_agg(jsonb_build_object('x-pgmq-group', key))) "
        "from unnest('{a, a, a, b, b, c, null}'::text[]) as key"
    )
    return connection


def test_a_key_that_is_full_is_listed_when_others_of_it_wait(queue):
    set_queue_options(queue, "q", key_concurrency=1)
    assert rows(queue, QUERY) == []

    queue.execute("select sluice.claim_messages('q', 30, 9)")

    assert rows(queue, QUERY) == [("a", "claimed", 1, True, 2), ("b", "claimed", 4, True, 1)]
    assert value(queue, "select max(since) <= now() from sluice.list_blocked_keys('q')") is True


@pytest.mark.parametrize(
    ("when_waiting", "listed"),
    [
        ("block", [("a", "retrying", 1, True, 2)]),
        ("skip", []),
        ("park", [("a", "parked", 1, False, 2)]),
    ],
)
def test_key_with_a_pending_message_is_listed_by_its_policy(queue, when_waiting, listed):
    set_queue_options(queue, "q", when_waiting=when_waiting)
    queue.execute("select sluice.claim_messages('q', 30, 9)")
    queue.execute("select pgmq.delete('q', array[4, 5])")
    queue.execute("select sluice.release('q', array[1, 6], array[1, 1], 600)")
    queue.execute("select msg_id from sluice.claim_messages('q', 30, 9)")
    queue.execute("select pgmq.delete('q', 3) where %s", (when_waiting == "skip",))

    assert rows(queue, QUERY) == listed


def test_a_queue_without_limits_of_keys_has_no_such_keys(queue):
    assert rows(queue, QUERY) == []
    set_queue_options(queue, "q", fleet_concurrency=1)
    assert rows(queue, QUERY) == []
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist"):
        queue.execute("select * from sluice.list_blocked_keys('missing')")


def test_keys_are_data_and_not_for_those_who_only_watch(queue, as_member):
    set_queue_options(queue, "q", key_concurrency=1)
    assert as_member("sluice_reader", QUERY) == []
    for member_of in ("sluice_monitor", "sluice_writer"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, QUERY)
