"""The examples of the guides about pipelines, unchanged, in this process with its Spark session."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pgsluice.cli.main import cli
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
BLOCK = re.compile(r"```(bash|python|toml|text)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\w+\.toml)\n")


def call(line: str) -> None:
    program, *arguments = shlex.split(line, comments=True)
    assert program == "pgsluice"
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception}"


def execute(text: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(text, "guide", "exec"), {"__name__": "__main__"})
    return output.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["change-capture", "queue-to-lake", "replay"])
def test_a_guide_does_what_it_shows(
    spark: SparkSession,
    database_18: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    guide: str,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGSLUICE_DSN", database_18.url)
    shown, printed = [], []

    for kind, text in BLOCK.findall((GUIDES / f"{guide}.md").read_text(encoding="utf-8")):
        if kind == "text":
            shown.append(text.replace("FOLDER", str(tmp_path)))
        elif kind == "toml" and (name := FILE.match(text)):
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
        elif kind == "bash":
            for line in text.splitlines():
                call(line)
        elif output := execute(text):
            printed.append(output)

    assert shown
    assert printed == shown
