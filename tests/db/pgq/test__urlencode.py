import urllib.parse

import pytest

from support import value


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("", ""),
        ("plain_1.-", "plain_1.-"),
        ("a b", "a+b"),
        ("a+b", "a%2bb"),
        ("%20", "%2520"),
        ("é", "%c3%a9"),
        ("~", "%7e"),
        (" ", "+"),
    ],
)
def test_it_writes_a_text_as_pgq_does(connection, text, encoded):
    assert value(connection, "select pgq._urlencode(%s::text)", text) == encoded


def test_every_character_comes_back(connection):
    text = "".join(map(chr, (*range(1, 0x300), *range(0x2600, 0x2700), *range(0x1F600, 0x1F640))))

    encoded = value(connection, "select pgq._urlencode(%s::text)", text)
    assert urllib.parse.unquote_plus(str(encoded)) == text


def test_null_stays_null(connection):
    assert value(connection, "select pgq._urlencode(null)") is None
