"""The metadata that PyPI shows."""

from __future__ import annotations

import re
import sys
from importlib.metadata import metadata
from pathlib import Path


def test_description_on_pypi_has_no_relative_link():
    description = metadata("pgsluice").get_payload()

    assert description.startswith("# pgsluice\n")
    assert "](https://" in description
    assert re.findall(r"\]\((?!https?:|#)[^)]+\)", description) == []


def test_project_urls_are_public_addresses_of_this_package():
    urls = dict(text.split(", ") for text in metadata("pgsluice").get_all("Project-URL"))

    assert set(urls) >= {"Homepage", "Releases"}
    assert all(url.startswith("https://") and "pgsluice" in url for url in urls.values())


def test_no_module_of_the_support_for_tests_hides_one_of_the_standard_library():
    """Some of them are programs, whose folder comes first in `sys.path`."""
    names = {path.stem for path in (Path(__file__).parents[1] / "support").glob("*.py")}

    assert names
    assert names & sys.stdlib_module_names == set()
