"""Durations as text."""

from __future__ import annotations

import pytest

from pgsluice.durations import EXAMPLES, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("0", 0),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("5m", 300),
        ("2 h", 7200),
        (" 1d ", 86_400),
        ("1w", 604_800),
        ("0.0004ms", 0),
    ],
)
def test_duration_is_seconds_or_a_number_with_a_unit(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "-5", "5x", "1y", "1 minute", "1e3", "٣s", "5  m", "s", "1.s", ".5s"]
)
def test_other_text_is_no_duration(text):
    assert parse_duration(text) is None


def test_every_example_is_a_duration():
    assert None not in [parse_duration(example) for example in EXAMPLES.split(", ")]
