import psycopg
import pytest

from support import rows, value
from support.queue_options import set_queue_options

CLAIM = "select msg_id, read_ct from sluice.claim_messages('q', 30, 9)"


@pytest.fixture
def parked(connection):
    """The queue `q` with a parked key `k`, which has the messages 1 to 3."""
    connection.execute("select pgmq.create('q')")
    set_queue_options(connection, "q", when_waiting="park")
    connection.execute(
        "select pgmq.send_batch('q', '{1, 2, 3}', array_fill('{\"x-pgmq-group\": \"k\"}'::jsonb, '{3}'))"
    )
    assert rows(connection, CLAIM) == [(1, 1)]
    connection.execute("select sluice.release('q', 1, 1, 600)")
    assert rows(connection, CLAIM) == []
    return connection


def test_messages_of_an_unparked_key_are_claimed_in_order(parked):
    assert value(parked, "select sluice.unpark_key('Q', 'k')") is True

    assert rows(parked, CLAIM) == [(1, 2)]
    parked.execute("select pgmq.delete('q', 1)")
    assert rows(parked, CLAIM) == [(2, 1)]
    assert value(parked, "select sluice.unpark_key('q', 'k')") is False


def test_it_can_be_parked_again(parked):
    parked.execute("select sluice.unpark_key('q', 'k')")
    assert rows(parked, CLAIM) == [(1, 2)]
    parked.execute("select sluice.release('q', 1, 2, 600)")

    assert rows(parked, CLAIM) == []
    assert rows(parked, "select key, reason from sluice.list_blocked_keys('q')") == [
        ("k", "parked")
    ]


def test_a_key_that_is_not_parked_and_a_queue_without_limits_are_not_unparked(parked):
    parked.execute("select pgmq.create('other')")

    assert value(parked, "select sluice.unpark_key('q', 'other')") is False
    assert value(parked, "select sluice.unpark_key('other', 'k')") is False
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist"):
        parked.execute("select sluice.unpark_key('missing', 'k')")


def test_only_an_admin_unparks(parked, as_member):
    query = "select sluice.unpark_key('q', 'k')"

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_reader", query)
    assert as_member("sluice_admin", query) == [(True,)]
