"""sluice.drop_queue_limits, with _remove_limits."""

import psycopg
import pytest

from support import rows, value


def test_a_queue_without_limits_is_read_as_any_other(orders):
    orders.execute("select sluice.set_queue_limits('orders', 1)")
    assert rows(orders, "select msg_id from sluice.claim_messages('orders', 30, 9)") == []

    assert value(orders, "select sluice.drop_queue_limits('Orders')") is True

    assert rows(orders, "select msg_id from sluice.claim_messages('orders', 30, 9)") == [(8,), (9,)]
    assert value(orders, "select sluice.drop_queue_limits('orders')") is False


def test_a_queue_that_is_missing_is_named(connection):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist") as caught:
        connection.execute("select sluice.drop_queue_limits('missing')")

    assert caught.value.sqlstate == "QU005"


def test_limits_set_again_forget_earlier_starts_and_parked_keys(connection):
    connection.execute("select pgmq.create('q')")
    set_limits = "select sluice.set_queue_limits('q', rate => 2, rate_interval => '1 hour', when_waiting => 'park')"
    claim = "select msg_id from sluice.claim_messages('q', 30, 1)"
    connection.execute(set_limits)
    connection.execute(
        "select pgmq.send_batch('q', '{1, 2}', array_fill('{\"x-pgmq-group\": \"k\"}'::jsonb, '{2}'))"
    )
    assert rows(connection, claim) == [(1,)]
    connection.execute("select sluice.release('q', 1, 1, 600)")
    assert rows(connection, claim) == []
    assert value(connection, "select count(*) from sluice.parked_key") == 1

    connection.execute("select sluice.drop_queue_limits('q')")
    assert value(connection, "select count(*) from sluice.parked_key") == 0
    connection.execute(set_limits.replace("park", "skip"))

    assert rows(connection, claim) == [(2,)]
    assert rows(connection, "select started from sluice.list_queue_limits()") == [(1,)]
