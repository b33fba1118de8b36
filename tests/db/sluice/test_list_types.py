from __future__ import annotations

import pytest

from support.share_groups import LOG
from support.share_types import GROUP, handle, listed, make_typed, send


@pytest.fixture
def typed(connection):
    return make_typed(connection)


def test_list_of_types_tells_what_waits_for_which_handler(typed):
    send(typed, "paid", "shipped", "shipped")
    handle(typed, 10, "paid")
    typed.execute(
        "select sluice.note_unhandled(%s, %s, 'accept', array['new'], array[3::bigint])",
        (LOG, GROUP),
    )

    assert [(t.ev_type, t.handler, t.workers, t.waiting, t.accepted) for t in listed(typed)] == [
        ("new", None, None, 0, 3),
        ("paid", "on_paid", 0, 0, None),
        ("shipped", "on_shipped", 0, 2, None),
    ]
