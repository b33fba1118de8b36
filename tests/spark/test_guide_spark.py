"""docs/guides/spark.md: its programs run in order and print what it shows."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from conftest import Database
from pgsluice.cli.main import cli
from support.processes import GUIDES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCK = re.compile(r"```(bash|python|text)\n(.*?)```", re.DOTALL)


@pytest.mark.slow
def test_the_guide_does_what_it_shows(
    spark: SparkSession,
    database_18: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("PGSLUICE_DSN", database_18.url)
    text = (GUIDES / "spark.md").read_text(encoding="utf-8")
    text = text.replace("postgresql://app@db.example/shop", database_18.url)
    names: dict[str, object] = {}

    blocks = BLOCK.findall(text)
    for (kind, block), (next_kind, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "bash":
            for line in block.splitlines():
                done = CliRunner().invoke(cli, shlex.split(line)[1:], catch_exceptions=False)
                assert done.exit_code == 0, f"{line}\n{done.output}"
        elif kind == "python":
            exec(block, names)
            printed = capsys.readouterr().out
            assert printed.rstrip() == (shown.rstrip() if next_kind == "text" else ""), block
