"""The metadata that PyPI shows."""

from __future__ import annotations

import re
from importlib.metadata import metadata


def test_description_on_pypi_has_no_relative_link():
    description = metadata("pgsluice").get_payload()

    assert description.startswith("# pgsluice\n")
    assert "](https://" in description
    assert re.findall(r"\]\((?!https?:|#)[^)]+\)", description) == []


def test_project_urls_are_public_addresses_of_this_package():
    urls = dict(text.split(", ") for text in metadata("pgsluice").get_all("Project-URL"))

    assert set(urls) >= {"Homepage", "Releases"}
    assert all(url.startswith("https://") and "pgsluice" in url for url in urls.values())
