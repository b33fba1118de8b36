"""The search of the site finds a section by the word that another system has for its topic."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page

from support.browsing import chromium

DOCS = Path(__file__).parents[2] / "docs"
NAMES = DOCS / "names-of-others.md"
ROW = re.compile(r"^\| (`[^|]*) \| [^|]* \| (.*) \|$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)\.md(?:#[^)]*)?\)")
FIRST = 5
# Functions of the browser, over the script of Sphinx's search.
FINISHED = "() => /^(Search finished|Your search)/.test(Search.status?.textContent ?? '')"
SHOWN = (
    "() => [...Search.output.querySelectorAll(':scope > li > a')].map(a => a.getAttribute('href'))"
)
# What a search shows, without its pause of 5 ms before each result.
FOUND = """word => Search._performSearch(...Search._parseQuery(word)).reverse().map(
    ([page, , anchor]) => `${page}.html${anchor}`)"""


def rows() -> list[tuple[list[str], str]]:
    """Return the words of each row, and its text about pgsluice."""
    found = ROW.findall(NAMES.read_text(encoding="utf-8"))
    return [(re.findall(r"`([^`]+)`", words), here) for words, here in found]


def pages_by_word() -> dict[str, set[str]]:
    """Return the page that each word leads to; for a "no" also the list itself, which has the reason."""
    return {
        word: {*LINK.findall(here), *([NAMES.stem] if here.startswith("no: ") else [])}
        for words, here in rows()
        for word in words
    }


def test_each_word_of_another_system_has_a_link_or_a_reason():
    words = [word for words, _ in rows() for word in words]

    assert len(words) == len(set(words)) >= 40
    assert [here for _, here in rows() if not re.match(r"no: \w|\[", here)] == []


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of the site, in a theme that is built in a third of the time; the search is the same."""
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-D", "html_theme=basic"]
    without_summaries = ["-D", "html_show_search_summary=0"]  # for which it fetches each page found
    subprocess.run([*command, *without_summaries, DOCS, tmp_path / "site"], check=True, timeout=300)
    handler = partial(_Quiet, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def tab() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_page()


def first_pages(links: list[str]) -> list[str]:
    return [link.partition("#")[0].removesuffix(".html") for link in links[:FIRST]]


@pytest.mark.slow
def test_search_finds_the_page_by_the_word_of_another_system(site, tab):
    expected = pages_by_word()

    tab.goto(f"{site}/search.html?q=countdown")
    tab.wait_for_function(FINISHED)
    assert tab.evaluate(SHOWN) == tab.evaluate(FOUND, "countdown")

    found = {word: first_pages(tab.evaluate(FOUND, word)) for word in expected}
    assert {
        word: found[word] for word, pages in expected.items() if pages.isdisjoint(found[word])
    } == {}
