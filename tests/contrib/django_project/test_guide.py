"""The guide of Django: its files, commands and examples run in order, with the output that it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import GUIDES, environment

BLOCK = re.compile(r"```(bash|python|text)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# ([\w/]+\.py)(, below what is there)?\n")
SET_UP = "import django\ndjango.setup()\n"


@pytest.mark.slow
def test_guide_of_django_does_what_it_shows(make_database_18, tmp_path):
    url = make_database_18().url

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment(
                tmp_path,
                DJANGO_SETTINGS_MODULE="mysite.settings",
                PGSLUICE_DSN=url,
            ),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    shown, printed = [], []
    for kind, text in BLOCK.findall((GUIDES / "django.md").read_text(encoding="utf-8")):
        if kind == "text":
            shown.append(text)
        elif kind == "bash":
            for line in text.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "python"
                run(*arguments)
        elif (name := FILE.match(text)) is None:
            printed.append(run("-c", SET_UP + text))
        else:
            write(tmp_path / name[1], text, is_below=name[2] is not None)

    assert len(shown) == 7
    assert [each for each in printed if each] == shown


def write(file: Path, text: str, *, is_below: bool) -> None:
    """Write a file of the guide; what it adds to the settings, or below what is there, is appended."""
    is_below = is_below or file.name == "settings.py"
    before = file.read_text(encoding="utf-8") if is_below else ""
    file.write_text(before + text, encoding="utf-8")
