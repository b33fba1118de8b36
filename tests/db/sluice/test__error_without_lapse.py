"""sluice._error_without_lapse: what failed before a lease ended."""

from __future__ import annotations

import pytest

from support import value


@pytest.mark.parametrize(
    ("error", "before"),
    [
        (None, None),
        ("trace", "trace"),
        ("its lease ended", None),
        ("its lease ended; before that: trace", "trace"),
        ("trace: its lease ended", "trace: its lease ended"),
    ],
)
def test_what_a_lapse_said_is_taken_off(connection, error, before):
    assert value(connection, "select sluice._error_without_lapse(%s)", error) == before
