"""Files of other projects are unchanged, and their licences are in the package."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src/pgsluice/dashboard/static"
VENDORED = tomllib.loads((STATIC / "VENDORED.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", VENDORED)
def test_vendored_file_is_that_of_its_package(name: str):
    entry = VENDORED[name]

    assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == entry["sha256"]
    assert entry["source"].endswith(f"{entry['package']}/v/{entry['version']}")
    assert (STATIC / entry["licence_file"]).read_text(encoding="utf-8").strip()


def test_every_vendored_file_is_listed():
    assert {path.name for path in STATIC.glob("*.min.*")} == set(VENDORED)


def test_licences_of_vendored_files_are_in_the_metadata():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    named = set(project["license"].split(" AND "))
    files = {path for pattern in project["license-files"] for path in ROOT.glob(pattern)}

    assert named == {"PostgreSQL", *(entry["licence"] for entry in VENDORED.values())}
    assert files >= {STATIC / entry["licence_file"] for entry in VENDORED.values()}
