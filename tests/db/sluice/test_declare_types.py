"""Also covers _expire_types."""

from __future__ import annotations

import pytest

from support.share_types import handle, listed, make_typed, send


@pytest.fixture
def typed(connection):
    return make_typed(connection)


def test_declaration_ends_a_week_after_its_last_worker_unless_events_wait_for_it(typed):
    send(typed, "shipped")
    handle(typed, 10, "paid")
    typed.execute("update sluice.group_type set noted_at = now() - interval '7 days 1 minute'")

    typed.execute("select * from sluice.maintain_groups()")
    assert [t.ev_type for t in listed(typed)] == ["shipped"]
    assert handle(typed, 10, "paid") == []
    assert handle(typed, 10, "shipped") == ["shipped"]
    typed.execute("select * from sluice.maintain_groups()")
    assert listed(typed) == []
