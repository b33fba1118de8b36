"""docs/guides/spark.md: its programs run in order and print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from click.testing import CliRunner

from pgsluice.cli.main import cli
from pgsluice.spark.java import find_java
from support.processes import GUIDES
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = re.compile(r"# (\w+\.py)\n")
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
BLOCK = re.compile(r"```(bash|python|text)\n(.*?)```", re.DOTALL)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_guide_does_what_it_shows(
    spark: SparkSession,
    database_18: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
):
    monkeypatch.setenv("PGSLUICE_DSN", database_18.url)
    text = (GUIDES / "spark.md").read_text(encoding="utf-8")
    text = text.replace("postgresql://app@db.example/shop", database_18.url)
    text = text.replace("/lake/", f"{tmp_path}/")
    names: dict[str, object] = {}

    blocks = BLOCK.findall(text)
    for (kind, block), (next_kind, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "text":
            continue
        if kind == "python" and (name := FILE.match(block)):
            (tmp_path / name[1]).write_text(block, encoding="utf-8")
            continue
        printed = ""
        if kind == "bash":
            for line in block.splitlines():
                printed = run(shlex.split(line), tmp_path)
        else:
            exec(block, names)
            printed = capsys.readouterr().out
        expected = shown if next_kind == "text" else ""
        if expected or kind == "python":
            assert printed.rstrip() == expected.rstrip(), block


def run(command: list[str], folder: Path) -> str:
    """Run `pgsluice` in this process, or `spark-submit`; return its standard output."""
    program, *arguments = command
    if program == "pgsluice":
        done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert done.exit_code == 0, f"{command}\n{done.output}"
        return done.output
    assert program == "spark-submit"
    environ = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}
    submitted = subprocess.run(
        [SPARK_SUBMIT, *arguments], cwd=folder, env=os.environ | environ,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert submitted.returncode == 0, submitted.stderr[-4000:]
    return submitted.stdout
