from __future__ import annotations

import pytest

from support import value
from support.share_groups import LOG
from support.share_types import GROUP, handle, make_typed, send


@pytest.fixture
def typed(connection):
    return make_typed(connection)


def test_forgotten_type_is_treated_as_unhandled(typed):
    send(typed, "shipped")
    assert handle(typed, 10, "paid") == []
    assert value(typed, "select sluice.forget_types(%s, %s, array['shipped'])", LOG, GROUP) == 1
    assert handle(typed, 10, "paid") == ["shipped"]
