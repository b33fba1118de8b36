"""Five tasks of someone on call, by clicks from the overview page: their number, and the truth of what is shown.

The numbers are those in docs/guides/dashboard-compared.md. To see the seconds: `pytest -m '' -s` and this file.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Locator, Page

from dashboard.conftest import filled, serving
from pgsluice import FailedMessage, Operations, WorkQueue
from pgsluice.client import EventLog
from pgsluice.dashboard import app
from pgsluice.dashboard.rendering import number, size
from pgsluice.embedded import EmbeddedServer
from support.dashboard import KEY

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "dashboard-compared.md"
# The first column of the table names the task, the second is ours.
COUNTED = re.compile(r"^\| (\d)\. [^|]+ \| (\d+) clicks?(?: and (\d+) fields?)?, ", re.MULTILINE)
CUSTOMER = "c-1007"
REASON = "payment provider is down"


@pytest.fixture(scope="module")
def address(server_18: EmbeddedServer) -> Iterator[tuple[str, str]]:
    """The addresses of a dashboard with actions, and of its database."""
    with filled(server_18, "on_call") as url, serving(app(url, allow_actions=True, key=KEY)) as at:
        yield at, url


@pytest.fixture
def shop(address: tuple[str, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(address[1], autocommit=True) as connection:
        yield connection


class Operator:
    """Clicks and types in a tab, and counts it; Enter in a field belongs to the field."""

    def __init__(self, tab: Page, address: str) -> None:
        self.tab = tab
        self.clicks = self.fields = 0
        self._address = address
        self._began_at_s = 0.0

    def open(self) -> None:
        """Open the overview page."""
        self._began_at_s = time.monotonic()
        self.tab.goto(self._address)
        self.tab.locator("h1", has_text="Overview").wait_for()

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def fill(self, target: Locator, text: str, *, sends: bool = False) -> None:
        target.fill(text)
        if sends:
            target.press("Enter")
        self.fields += 1

    def arrive(self, heading: str) -> None:
        """Wait for a page."""
        self.tab.get_by_role("heading", name=heading, exact=True).wait_for()

    def done(self, task: int) -> None:
        """Compare the counts with the table of the page, and print the seconds."""
        took_s = time.monotonic() - self._began_at_s
        print(f"task {task}: {self.clicks} clicks, {self.fields} fields, {took_s:.1f} s")
        assert (self.clicks, self.fields) == counts_of_page()[task], f"task {task} of {PAGE.name}"


def counts_of_page() -> dict[int, tuple[int, int]]:
    """Return our clicks and fields of each task, as the page has them."""
    text = PAGE.read_text(encoding="utf-8")
    return {int(task): (int(a), int(b or 0)) for task, a, b in COUNTED.findall(text)}


@pytest.fixture
def operator(tab: Page, address: tuple[str, str]) -> Operator:
    tab.goto(f"{address[0]}/?key={KEY}")  # as the start of the dashboard prints it
    return Operator(tab, address[0])


# Each finds something by what a person sees: text, labels and heads of columns.


def row(within: Page | Locator, text: str) -> Locator:
    """Return the first row of a table that has a link with this text."""
    link = (within.page if isinstance(within, Locator) else within).get_by_role(
        "link", name=text, exact=True
    )
    return within.locator("tbody tr").filter(has=link).first


def cells(found: Locator) -> dict[str, str]:
    """Return the texts of a row by the heads of its columns."""
    return found.evaluate(
        "(row) => Object.fromEntries([...row.closest('table').querySelectorAll('thead th')]"
        ".map((head, at) => [head.textContent.trim(), row.cells[at]?.textContent.trim()]))"
    )


def table(tab: Page, name: str) -> Locator:
    return tab.get_by_role("region", name=name, exact=True)


def act(within: Page | Locator, label: str) -> Locator:
    """Return the control that opens the form of an action."""
    return within.get_by_role("button", name=label, exact=True)


def confirm(operator: Operator) -> str:
    """Send the form of an action; return the sentence that it asked with."""
    sentence = operator.tab.locator("main p").first.inner_text()
    operator.click(operator.tab.locator("form.act button"))
    return sentence


def scalar(connection: psycopg.Connection, query: str, *parameters: object) -> object:
    found = connection.execute(query, parameters).fetchone()
    return found and found[0]


def test_page_has_each_task():
    assert sorted(counts_of_page()) == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_stuck_queue_without_worker_is_explained(operator: Operator, shop: psycopg.Connection):
    operator.open()
    shown = cells(row(operator.tab, "thumbnails"))
    operator.click(row(operator.tab, "thumbnails").get_by_role("link", name="thumbnails"))
    reason = operator.tab.get_by_text("No live worker is registered for queue thumbnails").first
    reason.wait_for()
    operator.done(1)

    ready = scalar(shop, "select count(*) from pgmq.q_thumbnails where vt <= clock_timestamp()")
    assert shown["Ready"] == number(ready) != "0"
    assert shown["State"] == "no live worker claims from it"
    assert shown["Workers"] == "0"
    sources = [source for each in Operations(shop).list_workers() for source in each.sources]
    assert sources
    assert "queue thumbnails" not in sources


@pytest.mark.slow
def test_stuck_queue_that_is_paused_is_explained(operator: Operator, shop: psycopg.Connection):
    operator.open()
    shown = cells(row(operator.tab, "invoices"))
    operator.click(row(operator.tab, "invoices").get_by_role("link", name="invoices"))
    reason = operator.tab.locator("main").get_by_text("Workers claim none of its messages").first
    text = reason.inner_text()
    operator.done(1)

    paused = WorkQueue(shop).queue_options("invoices")
    assert paused.paused_at is not None
    assert f"by {paused.paused_by}" in shown["State"]
    assert text.startswith(f"Paused by {paused.paused_by}, ")
    assert f": {paused.pause_reason}." in text


@pytest.mark.slow
def test_dead_letters_of_one_error_are_redriven(operator: Operator, shop: psycopg.Connection):
    of_type = "select count(*) from sluice.dead_letter where queue_name = 'mails' and error_type"
    dead = scalar(shop, f"{of_type} = 'TimeoutError'")
    others = scalar(shop, f"{of_type} <> 'TimeoutError'")

    operator.open()
    operator.click(row(operator.tab, "mails").locator("a[href*=dead-letters]"))
    operator.arrive("Dead letters of mails")
    group = table(operator.tab, "Dead letters by error").locator("tbody tr")
    group = group.filter(has_text="TimeoutError")
    shown = cells(group)
    operator.click(act(group, "Redrive"))
    operator.arrive("Redrive dead letters")
    _dead_letter(shop, "mails", "TimeoutError", "no answer from smtp.example.org within 10 s")
    asked = confirm(operator)
    operator.tab.wait_for_function("document.querySelector('main').innerText.includes(', ended ')")
    result = operator.tab.get_by_role("status").last.inner_text()
    operator.done(2)

    assert shown["Dead letters"] == str(dead) != "0"
    assert asked.startswith(f"Redrive {dead} messages of the dead letters of queue mails")
    assert f"{dead} of {dead} redriven" in result
    assert scalar(shop, f"{of_type} = 'TimeoutError'") == 1  # that of after the question
    assert scalar(shop, f"{of_type} <> 'TimeoutError'") == others
    redriven = "select count(*) from pgmq.q_mails where headers ? 'x-pgmq-replayed-from'"
    assert scalar(shop, redriven) == dead


def _dead_letter(connection: psycopg.Connection, queue: str, error_type: str, error: str) -> None:
    work = WorkQueue(connection)
    (message,) = work.read(queue, 600, 1)
    failed = FailedMessage(message, error_type=error_type, error=error)
    work.fail(queue, [failed], policy={"max_attempts": 1})


@pytest.mark.slow
def test_messages_of_a_customer_are_found(operator: Operator, shop: psycopg.Connection):
    work = WorkQueue(shop)
    work.send_batch("orders", [{"customer": CUSTOMER, "order": 1}, {"customer": "c-1008"}])
    work.send("stock", {"customer": CUSTOMER, "order": 2}, delay=600)
    work.archive("payments", work.send("payments", {"customer": CUSTOMER, "order": 3}))
    dead = work.send("invoices", {"customer": CUSTOMER, "order": 4})
    (claimed,) = [each for each in work.read("invoices", 600, 100) if each.msg_id == dead]
    work.reject("invoices", dead, claimed.read_ct, "invalid")

    operator.open()
    operator.fill(operator.tab.get_by_label("Search all messages"), CUSTOMER, sends=True)
    operator.arrive(f"Search for {CUSTOMER}")
    found = table(operator.tab, "Found").locator("tbody tr")
    found.first.wait_for()
    shown = sorted((row["Where"], row["Message"]) for row in map(cells, found.all()))
    operator.done(3)

    held = [
        (queue, str(msg_id))
        for queue in ("orders", "stock", "payments")
        for (msg_id,) in shop.execute(
            f"select msg_id from pgmq.q_{queue} where message ->> 'customer' = %(customer)s "
            f"union all select msg_id from pgmq.a_{queue} where message ->> 'customer' = %(customer)s",
            {"customer": CUSTOMER},
        )
    ]
    assert shown == sorted([*held, ("invoices", str(dead))])
    assert len(shown) == 4
    searched = [
        cells(each) for each in table(operator.tab, "What was searched").locator("tbody tr").all()
    ]
    names = {each.queue_name for each in work.list_queues()}
    assert names <= {each["Where"] for each in searched}
    assert {each["Left out"] for each in searched} == {""}
    assert all("all" in each["Searched"].split() for each in searched)


@pytest.mark.slow
def test_reader_that_holds_a_log_is_found(operator: Operator, shop: psycopg.Connection):
    operator.open()
    operator.click(row(operator.tab, "billing").get_by_role("link", name="changes"))
    operator.arrive("Log changes")
    shown = cells(row(table(operator.tab, "Consumers"), "billing"))
    segments = [cells(each) for each in table(operator.tab, "Segments").locator("tbody tr").all()]
    operator.done(4)

    (billing,) = (
        each for each in EventLog(shop).list_consumers("changes") if each.consumer_name == "billing"
    )
    assert billing.lag_events
    assert shown["Events behind"] == number(billing.lag_events)
    assert shown["Pinned"] == size(billing.pinned_bytes)
    assert shown["Position"] == number(billing.last_tick)
    needed = {
        str(segment)
        for segment, consumers in shop.execute(
            "select segment, consumers from sluice.list_segments('changes')"
        )
        if "billing" in (consumers or ())
    }
    assert needed
    assert {
        each["Segment"] for each in segments if "billing" in each["Needed by"].split(", ")
    } == needed


@pytest.mark.slow
def test_message_that_blocks_a_key_is_found(operator: Operator, shop: psycopg.Connection):
    operator.open()
    operator.click(row(operator.tab, "stock").get_by_role("link", name="stock"))
    operator.arrive("Queue stock")
    blocked = [
        cells(each) for each in table(operator.tab, "Blocked keys").locator("tbody tr").all()
    ]
    operator.done(4)

    held = Operations(shop).list_blocked_messages("stock")
    assert held
    assert {(each["Key"], each["Blocking message"], each["Waiting"]) for each in blocked} == {
        (each.key, str(each.msg_id), number(each.waiting)) for each in held
    }


@pytest.mark.slow
def test_queue_is_paused_with_a_reason_and_resumed(operator: Operator, shop: psycopg.Connection):
    operator.open()
    operator.click(row(operator.tab, "orders").get_by_role("link", name="orders"))
    operator.arrive("Queue orders")
    operator.click(act(operator.tab, "Pause"))
    operator.arrive("Pause the queue")
    operator.fill(operator.tab.get_by_label("Reason"), REASON)
    confirm(operator)
    shown = operator.tab.get_by_text("Workers claim none of its messages").inner_text()
    paused = WorkQueue(shop).queue_options("orders")
    operator.click(act(operator.tab, "Resume"))
    operator.arrive("Resume the queue")
    asked = operator.tab.locator("main").inner_text()
    confirm(operator)
    operator.tab.get_by_text("Queue orders is resumed.").wait_for()
    operator.done(5)

    assert paused.paused_at is not None
    assert paused.pause_reason == REASON
    assert shown.startswith(f"Paused by {paused.paused_by}, ")
    assert f": {REASON}." in shown
    assert f"It was paused by {paused.paused_by}: {REASON}." in asked
    assert WorkQueue(shop).queue_options("orders").paused_at is None
    assert operator.tab.get_by_text("Workers claim none of its messages").count() == 0
    resumed, pausing = Operations(shop).list_actions("orders", qty=2)
    assert (resumed.action, pausing.action) == ("set_queue_options", "set_queue_options")
    assert pausing.note == REASON
    recorded = operator.tab.locator("main li", has_text="set_queue_options")
    assert REASON in recorded.nth(1).inner_text()
