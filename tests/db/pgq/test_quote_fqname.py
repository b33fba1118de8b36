import pytest

from support import value


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("a.b", "a.b"),
        ("Tab le", 'public."Tab le"'),
        ("A.B.c", '"A"."B.c"'),
        ("", 'public.""'),
        (".x", '"".x'),
        ("user.select", '"user"."select"'),
        ('a"b.c', '"a""b".c'),
        (None, None),
    ],
)
def test_it_quotes_both_parts(connection, name, quoted):
    assert value(connection, "select pgq.quote_fqname(%s)", name) == quoted
