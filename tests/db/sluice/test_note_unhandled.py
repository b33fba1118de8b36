from __future__ import annotations

import pytest

from support.share_groups import LOG
from support.share_types import GROUP, listed, make_typed


@pytest.fixture
def typed(connection):
    return make_typed(connection)


def test_events_without_a_handler_are_counted_by_type_and_outcome(typed):
    note = "select sluice.note_unhandled(%s, %s, %s, array['new', null], array[%s, 1::bigint])"
    typed.execute(note, (LOG, GROUP, "accept", 3))
    typed.execute(note, (LOG, GROUP, "accept", 2))
    typed.execute(note, (LOG, GROUP, "dead-letter", 7))

    found = [each for each in listed(typed) if each.handler is None]
    assert [(each.ev_type, each.accepted, each.dead_lettered) for each in found] == [
        ("new", 5, 7),
        (None, 2, 1),
    ]
