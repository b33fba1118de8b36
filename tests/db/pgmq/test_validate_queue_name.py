import psycopg
import pytest

from support import value


@pytest.mark.parametrize(
    ("name", "sqlstate", "message"),
    [
        ("", "QU001", "queue name is empty"),
        ("a\nb", "QU001", "queue name 'a\nb' contains control characters"),
        ("x" * 48, "P0001", "queue name is too long, maximum length is 47 characters"),
        ("キ" * 16, "P0001", "queue name is too long, maximum length is 47 characters"),
        ("a;b", "P0001", "queue name contains invalid characters: $, ;, --, or \\'"),
        (None, "22004", "null values cannot be formatted as an SQL identifier"),
    ],
)
def test_a_name_that_could_do_harm_is_refused(connection, name, sqlstate, message):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgmq.create(%s::text)", (name,))

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (sqlstate, message)
    assert value(connection, "select count(*) from pgmq.meta") == 0


def test_length_is_counted_in_bytes_so_no_two_names_are_cut_to_one_table(connection):
    connection.execute("select pgmq.create(%s)", ("キ" * 15 + "ab",))  # 47 bytes

    names = value(
        connection,
        "select array_agg(relname::text) from pg_class where relname like 'q\\_%%' and relkind = 'r'",
    )
    assert names == ["q_" + "キ" * 15 + "ab"]


def test_a_name_of_its_own_is_valid(connection):
    connection.execute("select pgmq.create('orders')")

    assert value(connection, "select pgmq.validate_queue_name('orders')") == ""
