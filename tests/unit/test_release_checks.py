"""Parts of `make release-check`: each kind of problem is found."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
METADATA = "Metadata-Version: 2.4\nName: pgsluice\nVersion: 0.1.0\nLicense-Expression: {}\nLicense-File: LICENSE\n"


@pytest.fixture(autouse=True)
def _tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


def wheel_with(folder, *names, licence="PostgreSQL"):
    """Write a wheel with empty files, and metadata."""
    path = folder / "pgsluice-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pgsluice-0.1.0.dist-info/METADATA", METADATA.format(licence))
        for name in names:
            archive.writestr(name, "")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "tests/test_a.py",
        "pgsluice/test_a.py",
        "pgsluice/__pycache__/a.cpython-311.pyc",
        "pgsluice/.cache",
        "other.py",
    ],
)
def test_wheel_with_a_test_bytecode_or_a_file_outside_of_src_is_refused(tmp_path, name):
    from release.distributions import wheel_problems

    assert any(name in problem for problem in wheel_problems(wheel_with(tmp_path, name)))


def test_wheel_without_a_file_of_src_is_refused(tmp_path):
    from release.distributions import wheel_problems

    assert "lacks pgsluice/__init__.py" in wheel_problems(wheel_with(tmp_path))


def test_sdist_without_pages_and_with_bytecode_is_refused(tmp_path):
    from release.distributions import sdist_problems

    (tmp_path / "a.pyc").write_bytes(b"")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.pyc", "pgsluice-0.1.0/src/a.pyc")

    problems = sdist_problems(tmp_path / "a.tar.gz")

    assert {"lacks docs/install.md", "lacks SECURITY.md", "has src/a.pyc"} <= {*problems}


def test_distribution_above_its_limit_is_refused(tmp_path, monkeypatch):
    from release import distributions

    monkeypatch.setattr(distributions, "WHEEL_BYTES_MAX", 10)

    assert "more than 10" in distributions.wheel_problems(wheel_with(tmp_path))[0]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("PostgreSQL AND MIT AND 0BSD", True),
        ("GPL-3.0-only OR MIT", True),
        ("(GPL-3.0-only OR MIT) AND BSD-3-Clause", True),
        ("GPL-3.0-only AND MIT", False),
        ("LGPL-3.0-only", False),
        ("MIT AND", False),
        ("", False),
    ],
)
def test_expression_is_allowed_if_allowed_licences_meet_it(expression, allowed):
    from release.licences import is_allowed

    assert is_allowed(expression) is allowed


def test_licence_of_a_package_is_its_expression_its_field_or_its_classifier():
    from release.licences import Licensed, expression_of

    assert expression_of(Licensed("a", "1", "MIT", "GPL", [])) == "MIT"
    assert expression_of(Licensed("a", "1", "", "Apache 2.0", [])) == "Apache-2.0"
    assert expression_of(Licensed("a", "1", "", "A text\nof lines", ["MIT License"])) == "MIT"
    assert expression_of(Licensed("a", "1", "", "", ["Other/Proprietary License"])) == ""


def test_unknown_licence_and_unused_review_are_problems_and_a_reviewed_one_is_none():
    from release.licences import Licensed, dependency_problems

    packages = [Licensed("A", "1", "SSPL-1.0", "", []), Licensed("b", "1", "", "", [])]

    assert dependency_problems(packages, {"a": ("SSPL-1.0", "read"), "c": ("MIT", "read")}) == [
        "b 1: none stated",
        "c: reviewed, and not installed",
    ]


def test_wheel_with_a_licence_that_is_not_allowed_or_a_vendored_file_without_text_is_refused(
    tmp_path,
):
    from release.licences import file_problems

    wheel = wheel_with(tmp_path, "pgsluice/static/pico.min.css", licence="GPL-3.0-only")

    assert file_problems(wheel) == [
        "the licence 'GPL-3.0-only' is not allowed",
        "LICENSE is not in the wheel",
        "pgsluice/static/pico.min.css has no licence file pico.LICENSE.txt",
    ]


def test_extra_without_a_smoke_test_is_a_problem_and_no_extra_is():
    from release.environments import coverage_problems

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = list(project["optional-dependencies"])

    assert coverage_problems(extras) == []
    assert coverage_problems([*extras, "new-one"]) == [
        "the extra new_one has no tools/release/smoke/new_one.py"
    ]
    assert coverage_problems(extras[1:]) == [f"tools/release/smoke/{extras[0]}.py is of no extra"]


def test_python_that_no_classifier_names_is_not_supported():
    from release.environments import find_python, supports

    assert supports("3.11")
    assert not supports("3.9")
    assert find_python("2.99") is None
