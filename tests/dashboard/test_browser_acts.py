"""Each act in a browser: its form fits, is accessible, and is sent with a key; the console stays quiet."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

from dashboard.conftest import serving
from dashboard.test_browser_pages import WIDE, violations
from pgsluice.dashboard import app
from support.dashboard import CASES, KEY, Case
from support.servers import Database


@pytest.fixture(scope="module")
def address(world: Database) -> Iterator[str]:
    with serving(app(world.url, allow_actions=True, key=KEY, refresh_s=0.5)) as address:
        yield address


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_act_is_asked_and_sent(address: str, tab: Page, case: Case):
    tab.goto(f"{address}/?{urlencode({'key': KEY})}")
    assert "key=" not in tab.url
    for scheme, width in (("light", 1280), ("dark", 390)):
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 844})
        tab.goto(f"{address}/act/{case.act}?{urlencode(case.arguments)}")
        assert tab.evaluate(WIDE) == [], f"wider than {width} px"
        assert violations(tab) == [], f"at {width} px"
    for name, value in case.filled.items():
        tab.fill(f"[name={name}]", value)

    tab.locator("form.act button").press("Enter")
    tab.wait_for_url(lambda url: "/act/" not in url)

    tab.wait_for_selector("main [role=status]")
    if "/job" in tab.url:
        tab.wait_for_function("document.querySelector('main').innerText.includes(', ended ')")
    assert violations(tab) == []


@pytest.mark.slow
def test_form_that_is_refused_keeps_what_was_typed(address: str, browser: Browser):
    # Not the fixture `tab`: Chromium reports the status 400 in the console.
    tab = browser.new_page()
    tab.goto(f"{address}/?{urlencode({'key': KEY})}")
    tab.goto(f"{address}/act/send?queue=orders")
    tab.fill("[name=message]", '{"n": 1}')
    tab.fill("[name=delay]", "soon")
    with tab.expect_navigation():
        tab.click("form.act button")

    assert "delay is" in tab.inner_text("[role=alert]")
    assert tab.input_value("[name=message]") == '{"n": 1}'
    assert violations(tab) == []
    tab.close()
