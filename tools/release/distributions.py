"""The wheel and the sdist: build, contents, metadata, sizes."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Upper limits in bytes; a release that needs more raises them here, with the reason in its commit.
WHEEL_BYTES_MAX = 3_000_000
SDIST_BYTES_MAX = 3_500_000
_SDIST_FILES = (
    *("README.md", "LICENSE", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("STYLE.md", "Makefile", "pyproject.toml", "docs/index.md", "docs/conf.py"),
    *("examples/docker/compose.yaml", "src/pgsluice/__init__.py"),
)
_NOT_IN_WHEEL = re.compile(
    r"(^|/)(tests?|conftest\.py|__pycache__)(/|$)|\.py[co]$|(^|/)test_[^/]*\.py$|(^|/)\."
)
_NOT_IN_SDIST = re.compile(r"(^|/)(__pycache__|\.git|\.venv|build|dist)/|\.py[co]$|\.whl$")


def project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table: dict[str, Any] = found["project"]
    return table


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Build a wheel and an sdist, or one of them, from the sources.

    Args:
        source: Folder of pyproject.toml.
        target: Folder to write to.
        kinds: `--wheel` or `--sdist`; without one, the sdist, and the wheel from the sources.

    Returns:
        The files.
    """
    command = [
        sys.executable,
        "-m",
        "build",
        "--outdir",
        str(target),
        *(kinds or ("--wheel", "--sdist")),
    ]
    subprocess.run([*command, str(source)], check=True, capture_output=True, text=True)
    return sorted(path for path in target.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def wheel_problems(wheel: Path) -> list[str]:
    """Return what is wrong with the files in a wheel."""
    problems = _too_large(wheel, WHEEL_BYTES_MAX)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    problems += [f"has {name}" for name in sorted(names) if _NOT_IN_WHEEL.search(name)]
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    problems += [f"lacks {name}" for name in sorted(expected - names)]
    problems += [
        f"has {name}, which is not in src"
        for name in sorted(names - expected)
        if ".dist-info/" not in name
    ]
    return problems


def sdist_problems(sdist: Path) -> list[str]:
    """Return what is wrong with the files in an sdist."""
    problems = _too_large(sdist, SDIST_BYTES_MAX)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    problems += [f"lacks {name}" for name in sorted({*_SDIST_FILES, *pages} - names)]
    problems += [f"has {name}" for name in sorted(names) if _NOT_IN_SDIST.search(name)]
    return problems


def _too_large(path: Path, limit: int) -> list[str]:
    size = path.stat().st_size
    return [f"has {size:,} bytes, more than {limit:,}"] if size > limit else []


def metadata_of(wheel: Path) -> Message:
    """Return the core metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode("utf-8"))


def metadata_problems(wheel: Path, sdist: Path) -> list[str]:
    """Return what PyPI would refuse, and what differs from pyproject.toml."""
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", "check", "--strict", str(wheel), str(sdist)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    problems = [checked.stdout + checked.stderr] if checked.returncode else []
    found, declared = metadata_of(wheel), project()
    if found["Version"] != declared["version"]:
        problems.append(f"the version is {found['Version']}, not {declared['version']}")
    extras = set(found.get_all("Provides-Extra") or ())
    if extras != set(declared["optional-dependencies"]):
        problems.append(f"the extras are {sorted(extras)}")
    if f"\n## {declared['version']}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        problems.append(f"CHANGELOG.md has no section ## {declared['version']}")
    return problems


def sdist_wheel_problems(sdist: Path, wheel: Path, target: Path) -> list[str]:
    """Build a wheel from the sdist into `target`; return its differences from the wheel of the sources."""
    with tempfile.TemporaryDirectory() as folder:
        (rebuilt,) = build(unpacked(sdist, Path(folder)), target, "--wheel")
    ours, theirs = _contents(wheel), _contents(rebuilt)
    return [
        f"{name} differs" for name in sorted(ours | theirs) if ours.get(name) != theirs.get(name)
    ]


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def unpacked(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist; return the folder of its pyproject.toml."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    return top


def site_problems(sdist: Path) -> list[str]:
    """Return the warnings of a build of the site from the sdist."""
    with tempfile.TemporaryDirectory() as folder:
        top = unpacked(sdist, Path(folder))
        options = ["--quiet", "--fail-on-warning", "--keep-going", "--jobs", "2", "-b", "html"]
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", *options, "docs", "build/site"],
            cwd=top, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return done.stderr.splitlines()
        missing = [
            name for name in ("index.html", "llms.txt") if not (top / "build/site" / name).exists()
        ]
    return [f"the site lacks {name}" for name in missing]
