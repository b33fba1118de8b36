"""Shared parts of HTML reports: self-contained files that open offline."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from string import Template


def fill(package: str, name: str, **parts: str) -> str:
    """Fill a template of a package with the shared style and the given parts, which are not escaped."""
    style = (resources.files("pgsluice.report") / "style.css").read_text(encoding="utf-8")
    template = (resources.files(package) / name).read_text(encoding="utf-8")
    return Template(template).substitute(style=style, **parts)


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically."""
    draft = path.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
