import psycopg
import pytest

from support import rows, value

INDEXES = """
select i.relname, a.amname
from pg_class as i
join pg_am as a on a.oid = i.relam
where i.relname ~ 'fifo' and i.relkind = 'i'
order by 1
"""


def test_a_second_call_changes_nothing(connection, queue):
    connection.execute("select pgmq.create_fifo_index('orders')")
    connection.execute("select pgmq.create_fifo_index('Orders')")

    assert rows(connection, INDEXES) == [
        ("q_orders_fifo_idx", "btree"),
        ("q_orders_fifo_read_idx", "btree"),
    ]
    assert value(connection, "select pgmq._has_fifo_index('q_orders')")


def test_pgmqs_own_index_which_no_query_can_use_is_replaced(connection, queue):
    connection.execute("create index q_orders_fifo_idx on pgmq.q_orders using gin (headers)")
    assert not value(connection, "select pgmq._has_fifo_index('q_orders')")

    connection.execute("select pgmq.create_fifo_index('orders')")

    assert rows(connection, INDEXES)[0] == ("q_orders_fifo_idx", "btree")
    assert value(connection, "select pgmq._has_fifo_index('q_orders')")


def test_the_longest_name_has_indexes_of_its_own(connection):
    for last in "ab":
        name = "n" * 46 + last
        connection.execute("select pgmq.create(%s)", [name])
        connection.execute("select pgmq.create_fifo_index(%s)", [name])
        assert value(connection, "select pgmq._has_fifo_index('q_' || %s)", name)

    assert len(rows(connection, INDEXES)) == 4


def test_a_queue_that_does_not_exist_is_an_error(connection):
    with pytest.raises(psycopg.errors.UndefinedTable, match=r'relation "pgmq\.q_nope" does not'):
        connection.execute("select pgmq.create_fifo_index('nope')")
