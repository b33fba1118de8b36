"""Modules import only what lies below them, as pyproject.toml says."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_imports_go_one_way():
    command = "import sys; from importlinter.cli import lint_imports_command as c; c(sys.argv[1:])"
    answer = subprocess.run(
        [sys.executable, "-c", command, "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )

    assert answer.returncode == 0, answer.stdout + answer.stderr
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert f"Contracts: {len(settings['contracts'])} kept, 0 broken" in answer.stdout
