"""The examples, run as documented: each command in order, with the output that is shown."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import without_server

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = re.compile(
    r'^"""(?P<before>.*?)The last command prints\n\n(?P<shown>.*?)\n(?:\n\S|""")', re.DOTALL
)
INDENT = "    "


def commands_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith(INDENT)]


@pytest.fixture
def run(database_18, tmp_path):
    environ = without_server()
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)

    def run(command: str) -> str:
        program, *arguments = shlex.split(command, comments=True)
        status = 1 if "# exit code 1" in command else 0
        program_of = {
            "python": [sys.executable],
            "pgsluice": [sys.executable, "-c", "from pgsluice.cli.main import main; main()"],
            "touch": ["touch"],
        }
        done = subprocess.run(
            [*program_of[program], *arguments],
            env=environ | {"PGSLUICE_DSN": database_18.url, "PYTHONPATH": ":".join(sys.path)},
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == status, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_an_example_does_what_it_says(run, example):
    found = TEXT.match((EXAMPLES / f"{example}.py").read_text(encoding="utf-8"))
    assert found is not None
    commands = commands_of(found["before"])
    assert len(commands) > 3

    *_, printed = map(run, commands)

    shown = [line.removeprefix(INDENT) for line in found["shown"].splitlines() if line.strip()]
    assert printed.splitlines() == shown


def test_the_readme_names_each(tmp_path):
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")

    assert set(re.findall(r"\((\w+)\.py\)", readme)) == {
        path.stem for path in EXAMPLES.glob("*.py")
    }
