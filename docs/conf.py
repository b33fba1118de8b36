"""Settings of the site: `make site` writes it to build/site. Decision 19 has the reasons.

Set `PGSLUICE_SOURCE_URL` to the address of a commit's files, such as https://example.org/pgsluice/blob/main, to link to
source files there; otherwise the linked files are copied into the site. Set `PGSLUICE_SITE_URL` to the address of the
site for absolute links in llms.txt.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.slugs import github_slugify
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

DOCS = Path(__file__).parent
ROOT = DOCS.parent
SOURCE_URL = os.environ.get("PGSLUICE_SOURCE_URL", "").rstrip("/")
SITE_URL = os.environ.get("PGSLUICE_SITE_URL", "").rstrip("/")
_INCLUDE = re.compile(
    r"^```\{(include|literalinclude)\} (\S+)\n(?::language: (\w+)\n)?```$", re.MULTILINE
)
# Files of the repository that are pages of the site, by the page that begins with them.
INCLUDED = {
    page.relative_to(DOCS).with_suffix("").as_posix(): (page.parent / found[2])
    .resolve()
    .relative_to(ROOT)
    .as_posix()
    for page in DOCS.rglob("*.md")
    if (found := _INCLUDE.match(page.read_text(encoding="utf-8")))
}
_PAGES = {path: page for page, path in INCLUDED.items()}
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r".+?\.(?=\s|$)", re.DOTALL)
_log = logging.getLogger(__name__)

project = "pgsluice"
author = "The pgsluice authors"
project_copyright = author
release = version = version_of("pgsluice")
extensions = ["myst_parser"]
exclude_patterns = ["**/README.md"]
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # examples have commands of psql, and omissions
myst_heading_anchors = 4  # the anchors of GitHub, so that links are valid in both places
html_theme = "furo"
html_title = f"pgsluice {release}"
html_baseurl = SITE_URL
html_copy_source = False
html_search_scorer = str(DOCS / "search.js")
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the links to the repository and llms.txt."""
    app.connect("doctree-read", link_to_repository)
    app.connect("build-finished", copy_linked_files)
    app.connect("build-finished", write_for_machines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_to_repository(app: Sphinx, doctree: nodes.document) -> None:
    """Resolve links that leave docs: to the page that includes the file, to the source, or to a copy of it.

    A file or heading that does not exist is a warning, which fails the build.
    """
    page = app.env.docname
    base = ROOT / INCLUDED[page] if page in INCLUDED else DOCS / f"{page}.md"
    for node in list(doctree.findall(_is_link)):
        target, _, anchor = _target(node).partition("#")
        anchor = anchor or node.get("reftargetid") or ""
        path = (base.parent / target).resolve()
        if not target or not (path.exists() or path.is_relative_to(ROOT)):
            continue
        if not path.exists() and target.removesuffix(".md") in app.env.found_docs:
            continue  # MyST resolved it, as the included file is as deep as the page
        if path.is_relative_to(DOCS):
            if page in INCLUDED:  # MyST read the link as relative to the page
                _point_to(node, path.relative_to(DOCS).with_suffix("").as_posix(), anchor)
            continue
        name = path.relative_to(ROOT).as_posix()
        if path.is_dir():
            path, name = path / "README.md", f"{name}/README.md"
        if not path.exists() or (anchor and anchor not in _anchors(path)):
            _log.warning("link to a missing file or heading: %s", target, location=node)
            node.replace_self(node.children)
        elif name in _PAGES:
            _point_to(node, _PAGES[name], anchor)
        else:
            link = nodes.reference("", "", *node.children, internal=False)
            if SOURCE_URL:
                link["refuri"] = f"{SOURCE_URL}/{name}" + (f"#{anchor}" if anchor else "")
            else:
                link["copied"] = name
                link["refuri"] = f"{'../' * page.count('/')}source/{name}.txt"
            node.replace_self(link)


def _is_link(node: nodes.Node) -> bool:
    return (
        isinstance(node, addnodes.pending_xref | addnodes.download_reference)
        and node.get("reftype") == "myst"
    )


def _target(node: Any) -> str:
    """Return the target of a link as the page has it, with the suffix that MyST removes."""
    return node["reftarget"] + (".md" if node.get("refdomain") == "doc" else "")


def _point_to(node: Any, page: str, anchor: str) -> None:
    link = addnodes.pending_xref(
        "", *node.children, refdomain="doc", reftype="myst", reftarget=page,
        reftargetid=anchor or None, refdoc=node["refdoc"], refexplicit=True,
    )  # fmt: skip
    node.replace_self(link)


def _anchors(path: Path) -> set[str]:
    return {github_slugify(title) for title in _HEADING.findall(_FENCE.sub("", path.read_text()))}


def copy_linked_files(app: Sphinx, error: Exception | None) -> None:
    """Copy the source files that pages link to, also those of pages that did not change since the last build."""
    if error is not None or app.builder.format != "html":
        return
    for page in app.env.found_docs:
        for link in app.env.get_doctree(page).findall(nodes.reference):
            if "copied" in link:
                copy = Path(app.outdir) / "source" / f"{link['copied']}.txt"
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / link["copied"], copy)


def write_for_machines(app: Sphinx, error: Exception | None) -> None:
    """Write each page as Markdown next to its HTML, and llms.txt, the navigation with a sentence for each page."""
    if error is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for page in app.env.found_docs:
        (out / page).parent.mkdir(parents=True, exist_ok=True)
        (out / f"{page}.md").write_text(_whole(DOCS / f"{page}.md"), encoding="utf-8")
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    lines = [f"# {project}\n\n> {about}\n"]
    for caption, pages in _navigation(app):
        lines.append(f"\n## {caption}\n\n")
        for page in pages:
            title = app.env.titles[page].astext()
            address = f"{SITE_URL}/{page}.md" if SITE_URL else f"{page}.md"
            lines.append(f"- [{title}]({address}): {_summary(app, page)}\n")
    (out / "llms.txt").write_text("".join(lines), encoding="utf-8")


def _whole(page: Path) -> str:
    """Return a page with the files that it includes."""

    def included(found: re.Match[str]) -> str:
        text = (page.parent / found[2]).read_text(encoding="utf-8")
        return text if found[1] == "include" else f"```{found[3]}\n{text}```"

    return _INCLUDE.sub(included, page.read_text(encoding="utf-8"))


def _navigation(app: Sphinx) -> Iterator[tuple[str, list[str]]]:
    for tree in app.env.get_doctree("index").findall(addnodes.toctree):
        yield tree["caption"], [below for _, page in tree["entries"] for below in _pages(app, page)]


def _pages(app: Sphinx, page: str) -> Iterator[str]:
    yield page
    for below in app.env.toctree_includes.get(page, ()):
        yield from _pages(app, below)


def _summary(app: Sphinx, page: str) -> str:
    paragraph = next(app.env.get_doctree(page).findall(nodes.paragraph), None)
    text = "" if paragraph is None else " ".join(paragraph.astext().split())
    sentence = _SENTENCE.match(text)
    return (sentence[0] if sentence else text).removesuffix(":")
