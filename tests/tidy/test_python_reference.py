"""The reference of Python has each public name once, and of a context what handlers use."""

from __future__ import annotations

import re
import sys
from collections import Counter

import pgsluice
from pgsluice import testing
from tidy.test_text import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from python_reference import PAGES, _markdown, python_pages

# Each asynchronous form is described with the other.
PUBLIC = {name for name in pgsluice.__all__ if not name.startswith("Async")}
TESTED = {name for name in testing.__all__ if not name.endswith("_async")}


def test_each_public_name_is_on_one_page():
    listed = Counter(name for page in PAGES.values() for name in page.names)

    assert {name for name, qty in listed.items() if qty > 1} == set()
    assert (PUBLIC | TESTED) - listed.keys() == set()
    assert listed.keys() - PUBLIC - TESTED == {"AsyncListener"}


def test_context_has_its_members_for_handlers_and_none_of_the_engine():
    page = python_pages("")["handlers"]

    for name in ("Context", "SyncContext"):
        [section] = re.findall(rf"^## `{name}`$.*?(?=^## )", page, re.DOTALL | re.MULTILINE)
        members = re.findall(r"^### `(\w+)`$", section, re.MULTILINE)
        assert {"attempt", "headers", "key", "message_id", "sent_at", "deadline_s", "lost"} < {
            *members
        }
        assert {"log", "transaction", "once", "heartbeat", "source", "handler"} < {*members}
        assert not {"run_function", "commit", "roll_back", "abandon", "delivery"} & {*members}
    assert "attempt: int\n```\n\nThe number of this attempt" in page


def test_docstring_is_shown_as_markdown():
    shown = _markdown(
        "First `<line>` with a * and <b>.\n\n    code(1)\n\nArgs:\n    qty: Number,\n        1 or more.\n    **options: Rest.\n\n"
        "Returns:\n    A list.",
        {"qty": "int"},
    )

    assert shown == (
        "First `<line>` with a \\* and \\<b>.\n\n```python\ncode(1)\n```\n\n**Arguments**\n\n"
        "- `qty` (`int`): Number, 1 or more.\n- `**options`: Rest.\n\n**Returns**\n\n- A list.\n"
    )
