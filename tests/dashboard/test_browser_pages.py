"""Every page in a browser: width, contrast and labels, silence of console and CSP, without JavaScript, printed."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Error, Page

from dashboard.conftest import serving, tab_of
from pgsluice.dashboard import app
from pgsluice.dashboard.pages import ROUTES
from support.lively import QUERIES

DOWNLOADS = ("message_payload", "dead_letters_export")
PATHS = {route.name: route.path for route in ROUTES if "{" not in route.path}
PAGES = [
    name for name in PATHS if name not in (*DOWNLOADS, "job")
]  # test_browser_acts.py opens a job
# Elements that reach beyond the window, outside of those that scroll.
WIDE = """() => {
    const width = document.documentElement.clientWidth;
    const scrolls = (e) => e && (getComputedStyle(e).overflowX !== "visible" || scrolls(e.parentElement));
    const wide = [...document.querySelectorAll("body *")].filter((e) =>
        e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement) && !e.closest(".skip"));
    return document.documentElement.scrollWidth > width ? wide.map((e) => e.outerHTML.slice(0, 200)) : [];
}"""
# Elements of the page that reach beyond the window, or whose contents must be scrolled sideways.
CUT = """() => [...document.querySelectorAll("main *")].filter((e) => {
    const box = e.getBoundingClientRect();
    const isScrolled = getComputedStyle(e).overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1;
    return e.checkVisibility() && (box.left < 0 || box.right > innerWidth + 1 || isScrolled && !e.matches("svg *, input"));
}).map((e) => e.outerHTML.slice(0, 200))"""
# What a person acts with, and the cells of tables, as far as they are in the window.
SHOWN = """() => [...document.querySelectorAll("main a, main button, main [type=checkbox], main td")].filter((e) => {
    const box = e.getBoundingClientRect();
    const isEmpty = e.matches("td") && !e.textContent.trim() && !e.children.length;
    return !isEmpty && e.checkVisibility() && box.width && box.left >= 0 && box.right <= innerWidth + 1;
}).map((e) => e.outerHTML)"""
LINES = """() => {
    const boxes = [...document.querySelectorAll("header nav > *, header nav li")]
        .map((e) => e.getBoundingClientRect()).filter((box) => box.height);
    return {
        isOne: Math.max(...boxes.map((box) => box.top)) < Math.min(...boxes.map((box) => box.bottom)),
        right: Math.max(...boxes.map((box) => box.right)),
    };
}"""


@pytest.fixture(scope="module")
def address(lively: str) -> Iterator[str]:
    """The address of a dashboard that shows every page, with actions."""
    with serving(app(lively, allow_actions=True, title="shop", refresh_s=3600)) as address:
        yield address


def url_of(address: str, name: str) -> str:
    return f"{address}{PATHS[name]}?{urlencode(QUERIES.get(name, {}))}"


def open_page(tab: Page, address: str, name: str) -> None:
    response = tab.goto(url_of(address, name))
    assert response is not None
    assert response.status == 200, (
        f"{response.url}: {tab.inner_text('main')}; add a query to support/lively.py"
    )


def violations(tab: Page) -> list[str]:
    result = Axe().run(tab).response
    # Text in the colour of its background is not a violation for axe, but incomplete.
    hidden = [each for each in result["incomplete"] if "equalRatio" in str(each)]
    found = [*result["violations"], *hidden]
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]} {node['any'][:1]}"
        for each in found
        for node in each["nodes"]
    ]


def test_overview_is_quiet_and_accessible(address: str, tab: Page):
    open_page(tab, address, "overview")

    assert tab.inner_text("h1") == "Overview"
    assert violations(tab) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_page_fits_and_is_accessible(address: str, tab: Page, name: str):
    for width in (1440, 390):
        tab.set_viewport_size({"width": width, "height": 844})
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            open_page(tab, address, name)  # again: colours change slowly on an open page

            assert tab.evaluate(WIDE) == [], f"wider than {width} px"
            assert violations(tab) == [], f"{scheme} at {width} px"


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_narrow_page_has_all_numbers_and_buttons_of_a_wide_one(address: str, tab: Page, name: str):
    tab.set_viewport_size({"width": 1440, "height": 844})
    open_page(tab, address, name)
    wide = tab.evaluate(SHOWN)

    tab.set_viewport_size({"width": 390, "height": 844})

    assert tab.evaluate(CUT) == []
    assert tab.evaluate(SHOWN) == wide


@pytest.mark.slow
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_head_is_one_line_and_its_menu_is_reached_by_keyboard(
    lively: str, browser: Browser, has_script: bool
):
    with (
        serving(app(lively, title="shop, production in Europe", refresh_s=3600)) as address,
        tab_of(browser, java_script_enabled=has_script) as tab,
    ):
        open_page(tab, address, "queues")
        # Playwright evaluates also where the page runs no script.
        for width in (1440, 1101, 1100, 800, 390):
            tab.set_viewport_size({"width": width, "height": 844})
            lines = tab.evaluate(LINES)
            assert lines["isOne"], f"at {width} px"
            assert lines["right"] <= width, f"at {width} px"
        links = tab.locator("#menu a")
        assert not links.first.is_visible()

        tab.locator("header .menu").press("Enter")
        tab.keyboard.press("Tab")

        assert links.count() == 8
        assert all(link.is_visible() for link in links.all())
        assert tab.evaluate("document.activeElement.textContent") == "Overview"
        if has_script:
            assert violations(tab) == []
        tab.keyboard.press("Escape")
        assert not links.first.is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("name", DOWNLOADS)
def test_download_is_a_file(address: str, tab: Page, name: str):
    with tab.expect_download() as begun, pytest.raises(Error, match="Download is starting"):
        tab.goto(url_of(address, name))

    path = begun.value.path()
    assert path.stat().st_size > 10


@pytest.mark.slow
def test_pages_are_read_without_javascript(address: str, browser: Browser):
    with tab_of(browser, java_script_enabled=False) as tab:
        for name in PAGES:
            open_page(tab, address, name)
            assert tab.inner_text("h1")
            for control in tab.locator(".tool").all():
                assert not control.is_visible()
        open_page(tab, address, "queues")
        tab.fill("main [type=search]", "orders")
        tab.press("main [type=search]", "Enter")
        assert tab.locator("main tbody tr").count() == 1
        tab.click("main tbody a")
        assert tab.url == f"{address}/queue?name=orders"


@pytest.mark.slow
def test_printed_page_has_no_controls(address: str, tab: Page):
    tab.emulate_media(media="print")
    open_page(tab, address, "queues")

    assert not tab.locator("header nav").is_visible()
    assert tab.locator("main table").is_visible()
    assert tab.pdf().startswith(b"%PDF")
