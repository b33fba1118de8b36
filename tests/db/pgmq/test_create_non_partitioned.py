import psycopg
import pytest

from support import rows, value

RELATIONS = """
select regexp_replace(relname, 'one|two', 'x') as name, relkind, relpersistence
from pg_class
where relnamespace = 'pgmq'::regnamespace and relname ~ %s
order by 1
"""


def test_it_makes_what_create_makes(connection):
    connection.execute("select pgmq.create('one')")
    connection.execute("select pgmq.create_non_partitioned('two')")

    made = rows(connection, RELATIONS, "one")
    assert len(made) >= 7
    assert made == rows(connection, RELATIONS, "two")
    assert rows(connection, "select is_partitioned, is_unlogged from pgmq.list_queues()") == [
        (False, False),
        (False, False),
    ]


def test_twice_keeps_the_messages(connection, queue):
    connection.execute("select pgmq.send('orders', '{}'::jsonb)")

    connection.execute("select pgmq.create_non_partitioned('orders')")

    assert value(connection, "select count(*) from pgmq.q_orders") == 1


def test_a_name_that_folds_to_another_queues_table_is_refused(connection, queue):
    with pytest.raises(psycopg.Error, match="would share its table with queue 'orders'"):
        connection.execute("select pgmq.create_non_partitioned('Orders')")
