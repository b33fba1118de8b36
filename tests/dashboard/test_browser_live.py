"""Refresh, keyboard, copying and colours, as a person uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette

from dashboard.conftest import serving
from pgsluice.client import WorkQueue
from pgsluice.dashboard import app
from support import wait_until
from support.dashboard import KEY
from support.object_store import free_port
from support.servers import Database

pytestmark = pytest.mark.slow
HIDE = """(isHidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture
def dashboard(database_18: Database) -> Starlette:
    return app(database_18.url, allow_actions=True, key=KEY, refresh_s=0.2)


@pytest.fixture
def address(dashboard: Starlette) -> Iterator[str]:
    """Name it before `tab` in a test: a page that outlives its server reports refused connections."""
    with serving(dashboard) as address:
        yield address


@pytest.fixture
def many(work: WorkQueue) -> WorkQueue:
    """Forty queues without samples: their figures are read directly."""
    for number in range(40):
        work.create(f"queue{number:02}")
    return work


def streams(dashboard: Starlette) -> int:
    """Return the number of open pages that are told to refresh."""
    return len(dashboard.state.dashboard.streams)


def ready(tab: Page, queue: str):
    """Return the cell with the number of ready messages."""
    return tab.locator("tbody tr", has_text=queue).locator("td.number").first


def test_sent_message_appears_while_focus_and_scrolling_stay(address: str, many, tab: Page):
    tab.set_viewport_size({"width": 1000, "height": 500})
    tab.goto(f"{address}/queues")
    expect(ready(tab, "queue30")).to_have_text("0")
    tab.locator("a", has_text="queue30").focus()
    tab.evaluate(
        "scrollTo(0, 700); window.loaded = 'once'; document.querySelector('.scroll').scrollLeft = 3"
    )
    before = tab.evaluate("[scrollY, document.querySelector('.scroll').scrollLeft]")

    many.send_batch("queue30", [1, 2, 3])

    expect(ready(tab, "queue30")).to_have_text("3")
    assert tab.evaluate("[scrollY, document.querySelector('.scroll').scrollLeft]") == before
    assert before[0] == 700
    assert tab.evaluate("document.activeElement.textContent") == "queue30"
    assert tab.evaluate("window.loaded") == "once"


def test_button_pauses_the_refresh(address: str, dashboard: Starlette, many, tab: Page):
    tab.goto(f"{address}/queues")
    live = tab.locator("[data-act=live]")
    expect(live).to_have_text("live")
    wait_until(lambda: streams(dashboard) == 1, "the stream of the page")

    live.click()
    expect(live).to_have_text("paused")
    wait_until(lambda: streams(dashboard) == 0, "the end of the stream")
    many.send("queue01", 1)
    expect(ready(tab, "queue01")).to_have_text("0")

    live.click()
    expect(ready(tab, "queue01")).to_have_text("1")
    expect(live).to_have_text("live")


def test_hidden_tab_closes_its_stream(address: str, dashboard: Starlette, tab: Page):
    tab.goto(address)
    wait_until(lambda: streams(dashboard) == 1, "the stream of the page")

    tab.evaluate(HIDE, True)
    wait_until(lambda: streams(dashboard) == 0, "the end of the stream")

    tab.evaluate(HIDE, False)
    wait_until(lambda: streams(dashboard) == 1, "the next stream")


def test_stopped_dashboard_is_not_reachable_until_it_is_back(
    database_18: Database, many, browser: Browser
):
    port = free_port()
    tab = browser.new_page()  # its console reports the refused connections
    live = tab.locator("[data-act=live]")
    with ExitStack() as stack:
        with serving(app(database_18.url, refresh_s=0.2), port) as address:
            tab.goto(f"{address}/queues")
            expect(live).to_have_text("live")
        expect(live).to_have_text("not reachable", timeout=15_000)
        many.send("queue02", 1)

        stack.enter_context(serving(app(database_18.url, refresh_s=0.2), port))

        expect(live).to_have_text("live", timeout=15_000)
        expect(ready(tab, "queue02")).to_have_text("1")
        tab.close()


def test_keys_search_move_open_and_go(address: str, many, tab: Page):
    tab.goto(address)
    tab.keyboard.press("g")
    tab.keyboard.press("q")
    tab.wait_for_url("**/queues")

    tab.keyboard.press("/")
    tab.keyboard.type("queue1")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/queues?search=queue1&order=name")
    for key in "jjjk":
        tab.keyboard.press(key)
    expect(tab.locator("tr.current")).to_have_count(1)
    expect(tab.locator("tr.current")).to_contain_text("queue11")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/queue?name=queue11")

    tab.keyboard.press("?")
    expect(tab.locator("#help")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.locator("#help")).not_to_be_visible()


def test_key_of_a_shortcut_is_typed_into_a_field(address: str, many, tab: Page):
    tab.goto(f"{address}/queues")

    tab.keyboard.press("/")
    tab.keyboard.type("gqj?")

    assert tab.input_value("main [type=search]") == "gqj?"
    tab.keyboard.press("Escape")
    assert tab.evaluate("document.activeElement === document.body")


def test_refresh_that_was_asked_for_before_keeps_what_is_typed(address: str, many, tab: Page):
    tab.goto(f"{address}/queues")
    held = []
    tab.route("**/queues", lambda route: held.append(route))
    tab.wait_for_event("request", lambda request: request.resource_type == "fetch")

    tab.keyboard.press("/")
    tab.keyboard.type("queue1")
    with tab.expect_event("requestfinished"):
        held[0].continue_()
    tab.evaluate("new Promise((done) => setTimeout(done, 50))")  # the merge, if there is one

    assert tab.input_value("main [type=search]") == "queue1"


def test_click_copies_the_whole_text(address: str, tab: Page):
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.goto(f"{address}/queues")

    tab.locator(".copyable").click()

    expect(tab.locator(".copyable")).to_have_class(re.compile("copied"))
    assert tab.evaluate("navigator.clipboard.readText()") == "pgsluice queue create orders"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chosen_colours_stay_over_pages(address: str, tab: Page, scheme: str):
    other = {"light": "dark", "dark": "light"}[scheme]
    tab.emulate_media(color_scheme=scheme)
    tab.goto(address)
    background = "getComputedStyle(document.documentElement).backgroundColor"
    before = tab.evaluate(background)

    tab.click("[data-act=theme]")

    assert tab.evaluate("document.documentElement.dataset.theme") == other
    expect(tab.locator("html")).to_have_attribute("data-theme", other)
    tab.goto(f"{address}/queues")
    assert tab.evaluate("document.documentElement.dataset.theme") == other
    assert tab.evaluate(background) != before


def test_queue_is_paused_and_resumed_from_its_page(address: str, work: WorkQueue, tab: Page):
    work.create("orders")
    tab.goto(f"{address}/?{urlencode({'key': KEY})}")
    tab.goto(f"{address}/queue?name=orders")
    tab.get_by_role("button", name="Pause").click()
    tab.fill("[name=reason]", "deploy")
    tab.locator("form.act button").click()
    tab.wait_for_url("**/queue?name=orders&done=*")
    assert work.queue_options("orders").paused_at is not None
    assert work.queue_options("orders").pause_reason == "deploy"

    tab.get_by_role("button", name="Resume").click()
    tab.locator("form.act button").click()
    expect(tab.get_by_role("button", name="Pause")).to_be_visible()

    assert work.queue_options("orders").paused_at is None
