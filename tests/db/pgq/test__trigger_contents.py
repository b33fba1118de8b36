import pytest

from support import value

TEXTS = [
    "",
    '"',
    '""',
    "\\",
    '\\"',
    "(",
    ")",
    ",",
    "(,)",
    " ",
    "a b",
    "NULL",
    "a",
    '","',
    '"",""',
    "\n",
    "é✓🙂",
]


@pytest.mark.parametrize("first", TEXTS)
def test_a_row_taken_apart_is_what_it_was_made_of(connection, first):
    for second in (*TEXTS, None):
        contents = [first, second, None, first]

        assert (
            value(
                connection,
                "select pgq._trigger_contents(record_out(row(%s::text, %s::text, %s::text, %s::text))::text)",
                *contents,
            )
            == contents
        )


def test_a_row_within_a_row_is_one_column(connection):
    connection.execute("create type pair as (number int, words text)")
    query = "select pgq._trigger_contents(record_out(row(row(1, 'say \"x\"')::pair, 2))::text)"

    assert value(connection, query) == ['(1,"say ""x""")', "2"]


def test_no_row_has_no_contents(connection):
    assert value(connection, "select pgq._trigger_contents(null)") == []
