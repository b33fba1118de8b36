import psycopg
import pytest

from support import rows, value


def test_the_reader_has_the_name_of_the_table(connection, queue):
    assert value(connection, "select pgmq._reader('ORDERS')") == "q_orders"


def test_a_queue_that_does_not_exist_is_a_missing_table(connection):
    with pytest.raises(psycopg.errors.UndefinedTable) as caught:
        connection.execute("select pgmq._reader('nope')")

    assert caught.value.diag.message_primary == 'relation "pgmq.q_nope" does not exist'


def test_a_table_without_a_reader_gets_one_from_create(connection, queue):
    connection.execute("create table pgmq.q_stray (like pgmq.q_orders including all)")
    connection.execute(
        "insert into pgmq.q_stray (vt, message) overriding system value values (now(), '1')"
    )

    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from pgmq.read('stray', 30, 1)")
    assert caught.value.sqlstate == "QU003"
    assert caught.value.diag.message_hint.startswith("call pgmq.create('stray')")

    with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
        connection.execute("select pgmq.create('stray')")
    connection.execute(refused.value.diag.message_hint)
    connection.execute("select pgmq.create('stray')")
    assert len(rows(connection, "select * from pgmq.read('stray', 30, 1)")) == 1
