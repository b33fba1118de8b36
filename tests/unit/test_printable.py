"""printable: what a terminal would act upon is escaped, and texts of all languages stay."""

from __future__ import annotations

import json
import logging

import pytest

from pgsluice.printable import (
    PrintableFormatter,
    printable,
    printable_block,
    printable_json,
    printable_metrics,
)

HARMFUL = [
    *(chr(code) for code in (*range(32), *range(0x7F, 0xA0))),
    *"\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\U000e0041\ud800",
]


def test_control_and_format_characters_become_escapes():
    for char in HARMFUL:
        assert printable(char) == char.encode("unicode_escape").decode()
    assert printable("\x1b[31mred\n") == "\\x1b[31mred\\n"
    assert printable("a\nb\tc", keep="\n") == "a\nb\\tc"


@pytest.mark.parametrize("text", ["Zürich", "длинное имя", "日本\u3000語", "नमस्ते", "🎉", "a\u00a0b", "\ue000", ""])  # fmt: skip
def test_texts_stay_as_they_are(text):
    assert printable(text) == text
    assert printable_json(text) == f'"{text}"'


def test_json_stays_json_and_is_plain_text():
    value = {"".join(HARMFUL): [*HARMFUL, "Zürich \U0001f389"]}

    text = printable_json(value)

    assert json.loads(text) == value
    assert text.isprintable()
    assert "Zürich \U0001f389" in text
    assert printable_json({1: {2}}, list) == '{"1": [2]}'


def test_further_lines_of_a_block_are_indented():
    assert (
        printable_block("error\nok   all\x1b[0m\n\tcode")
        == "error\n    ok   all\\x1b[0m\n    \tcode"
    )


def test_metrics_keep_their_lines_and_stay_valid():
    assert printable_metrics('a{b="x\x1by"} 1\n') == 'a{b="x\\\\x1by"} 1\n'


def test_a_log_line_cannot_forge_another():
    record = logging.makeLogRecord({"msg": "queue %s\nok", "args": ("\x1b[2J",)})

    assert PrintableFormatter().format(record) == "queue \\x1b[2J\n    ok"
