"""sluice.queue_identity: tells a queue from one of its name that was created again."""

import psycopg
import pytest

from support import value


def test_a_queue_that_is_created_again_has_another_identity(orders):
    identity = value(orders, "select sluice.queue_identity('orders')")

    assert value(orders, "select sluice.queue_identity('orders', %s)", identity) == identity
    orders.execute("select pgmq.drop_queue('orders'), pgmq.create('orders')")
    assert value(orders, "select sluice.queue_identity('orders')") != identity
    with pytest.raises(psycopg.Error, match="dropped and created again") as caught:
        orders.execute("select sluice.queue_identity('orders', %s)", [identity])
    assert caught.value.sqlstate == "QU005"
