"""sluice._error_without_expiry: the error of an event without the text of expired leases."""

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
def test_text_of_an_expired_lease_is_removed_from_the_error(connection, error, before):
    assert value(connection, "select sluice._error_without_expiry(%s)", error) == before
