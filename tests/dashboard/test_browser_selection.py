"""Rows that are selected for an action, as a person does: with and without JavaScript, while the page refreshes."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.conftest import serving, tab_of
from dashboard.test_acts_bulk import fail
from dashboard.test_browser_pages import violations
from pgsluice.client import DeadLetters, WorkQueue
from pgsluice.dashboard import app
from support import wait_until
from support.dashboard import KEY
from support.servers import Database

pytestmark = pytest.mark.slow
# Counts the times at which all pages of the dashboard are told to refresh.
COUNT = """() => {
    window.turns = 0;
    const source = new EventSource(document.documentElement.dataset.live);
    source.addEventListener("refresh", () => { window.turns += 1; });
    window.end = () => source.close();
}"""


@pytest.fixture
def address(database_18: Database) -> Iterator[str]:
    """Name it before `tab` in a test: a page that outlives its server reports refused connections."""
    with serving(app(database_18.url, allow_actions=True, key=KEY, refresh_s=0.2)) as address:
        yield address


def sign_in(tab: Page, address: str) -> None:
    tab.goto(f"{address}/?{urlencode({'key': KEY})}")


def test_selected_dead_letters_are_redriven(
    address: str, tab: Page, connection: psycopg.Connection, work: WorkQueue
):
    work.create("orders")
    fail(connection, "orders", 4)
    sign_in(tab, address)
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{address}/dead-letters?queue=orders")
    redrive = tab.get_by_role("button", name="Redrive selected")
    expect(redrive).to_be_disabled()

    for number in (2, 3):
        tab.get_by_label(f"Select {number}", exact=True).check()
    expect(tab.locator("#bulk output")).to_have_text("2 selected")
    assert violations(tab) == []
    redrive.click()
    expect(tab.locator("main")).to_contain_text("Redrive 2 dead letters of queue orders")
    fail(connection, "orders", 1)
    tab.locator("form.act button").click()

    expect(tab.locator("main")).to_contain_text("2 of 2 redriven")
    assert [each.dead_letter_id for each in DeadLetters(connection, "orders").browse()] == [1, 4, 5]


def test_selected_messages_are_archived_without_javascript(
    address: str, browser: Browser, work: WorkQueue
):
    work.create("orders")
    work.send_batch("orders", [1, 2, 3])
    with tab_of(browser, java_script_enabled=False) as tab:
        sign_in(tab, address)
        tab.goto(f"{address}/messages?queue=orders")
        for number in (1, 3):
            tab.get_by_label(f"Select {number}", exact=True).check()
        tab.get_by_role("button", name="Archive selected").click()
        tab.locator("form.act button").click()
        expect(tab.locator("[role=status]")).to_contain_text(
            "2 of 2 messages of queue orders are archived"
        )

    assert [each.msg_id for each in work.browse("orders")] == [2]


def test_all_rows_of_the_page_are_selected_and_none(address: str, tab: Page, work: WorkQueue):
    work.create("orders")
    work.send_batch("orders", [1, 2, 3])
    tab.goto(f"{address}/messages?queue=orders")
    every, number = tab.get_by_label("All on this page"), tab.locator("#bulk output")

    every.check()
    expect(number).to_have_text("3 selected")
    tab.get_by_label("Select 2", exact=True).uncheck()
    expect(number).to_have_text("2 selected")
    assert every.evaluate("(all) => all.indeterminate && !all.checked")
    every.check()
    every.uncheck()

    expect(number).to_have_text("")
    expect(tab.get_by_role("button", name="Delete selected")).to_be_disabled()


def test_page_does_not_refresh_while_a_row_is_selected(address: str, tab: Page, work: WorkQueue):
    work.create("orders")
    work.send_batch("orders", [1, 2])
    tab.goto(f"{address}/messages?queue=orders")
    live, rows, second = (
        tab.locator("[data-act=live]"), tab.locator("main tbody tr"), tab.get_by_label("Select 2", exact=True)
    )  # fmt: skip
    expect(live).to_have_text("live")

    second.check()
    expect(live).to_have_text("waiting")
    work.send("orders", 3)
    tab.evaluate(COUNT)
    wait_until(lambda: tab.evaluate("window.turns") >= 3, "three refreshes of other pages")
    tab.evaluate("window.end()")
    expect(rows).to_have_count(2)
    expect(second).to_be_checked()
    second.uncheck()

    expect(rows).to_have_count(3)
    expect(live).to_have_text("live")
    expect(tab.get_by_label("All on this page")).to_be_visible()
    expect(tab.get_by_role("button", name="Retry selected")).to_be_disabled()
