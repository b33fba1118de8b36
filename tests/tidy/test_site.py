"""The build of the site: which broken links fail it, and what it writes for machines."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tidy.test_text import ROOT

pytest.importorskip("furo")

INDEX = """# Pages

First sentence. Second sentence.

```{toctree}
:caption: Start

page
concepts/architecture
```
"""
PAGE = "# Page\n\nAbout it: [roles](../ARCHITECTURE.md#roles), [code](../tools/run.py), [tools](../tools/).\n"


@pytest.fixture
def build(tmp_path):
    docs = tmp_path / "docs"
    (docs / "concepts").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    for name in ("conf.py", "search.js"):
        shutil.copy(ROOT / "docs" / name, docs)
    shutil.copy(ROOT / "docs" / "concepts" / "architecture.md", docs / "concepts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tools" / "run.py").write_text("print(1)\n")
    (tmp_path / "tools" / "README.md").write_text("# Tools\n")
    (tmp_path / "ARCHITECTURE.md").write_text(
        "# Architecture\n\n## Roles\n\n[the page](docs/page.md#page)\n"
    )
    (docs / "index.md").write_text(INDEX)

    def build(page: str, builder: str = "dummy") -> str:
        (docs / "page.md").write_text(page)
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "-q", "-W", "-b", builder, docs, tmp_path / "site"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == bool(done.stderr), done.stderr
        return done.stderr

    return build


BROKEN = (
    "none.md",
    "index.md#none",
    "../tools/none.py",
    "../ARCHITECTURE.md#none",
    "../NONE.md",
    "#none",
)


def test_each_broken_link_is_a_warning_that_fails_the_build(build):
    warnings = build("# Page\n\n" + "".join(f"[link]({link})\n\n" for link in BROKEN))

    lines = re.findall(r"page.md:(\d+): WARNING: ", warnings)
    assert sorted(map(int, lines)) == [3, 5, 7, 9, 11, 13], warnings


def test_links_to_source_files_lead_to_their_page_or_copy(build, tmp_path):
    assert build(PAGE, "html") == ""

    html = (tmp_path / "site" / "page.html").read_text()
    assert 'href="concepts/architecture.html#roles"' in html
    assert 'href="../page.html#page"' in (tmp_path / "site/concepts/architecture.html").read_text()
    for copy in ("source/tools/run.py.txt", "source/tools/README.md.txt"):
        assert f'href="{copy}"' in html
        assert (tmp_path / "site" / copy).exists()


def test_llms_txt_lists_the_pages_of_the_navigation(build, tmp_path):
    assert build(PAGE, "html") == ""

    listed = (tmp_path / "site" / "llms.txt").read_text()
    assert (
        "## Start\n\n- [Page](page.md): About it: roles, code, tools.\n- [Architecture](" in listed
    )
    assert (tmp_path / "site" / "page.md").read_text() == PAGE
    assert "## Roles" in (tmp_path / "site" / "concepts" / "architecture.md").read_text()
