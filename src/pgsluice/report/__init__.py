"""What reports have in common: one file of HTML with everything in it, to be opened without a network."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from string import Template


def fill(package: str, name: str, **parts: str) -> str:
    """The template of this name in a package, with the style of all reports and its parts put in as they are."""
    style = (resources.files("pgsluice.report") / "style.css").read_text(encoding="utf-8")
    template = (resources.files(package) / name).read_text(encoding="utf-8")
    return Template(template).substitute(style=style, **parts)


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    draft = path.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
