"""_shell_word, compared with the words that a shell reads."""

from __future__ import annotations

import shlex

import pytest

from support import value


@pytest.mark.parametrize(
    "text", ["orders", "a b", "a'b", "$(x)", "-x", "", "a;b", "ä", "a\nb", "`x`"]
)
def test_shell_reads_the_text_as_one_word(connection, text):
    assert shlex.split(value(connection, "select sluice._shell_word(%s)", text)) == [text]
