import psycopg
import pytest

from support import value


def test_the_table_is_the_prefix_and_the_name_in_lower_case(connection):
    assert value(connection, "select pgmq.format_table_name('My Queue', 'q')") == "q_my queue"
    assert value(connection, "select pgmq.format_table_name(null, 'q')") is None


@pytest.mark.parametrize("name", ["a$b", "a;b", "a--b", "a'b"])
def test_characters_that_could_end_an_identifier_are_refused(connection, name):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgmq.format_table_name(%s, 'q')", (name,))

    assert caught.value.sqlstate == "P0001"
    assert (
        caught.value.diag.message_primary
        == "queue name contains invalid characters: $, ;, --, or \\'"
    )
