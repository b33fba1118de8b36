"""docs/guides/lake.md: its programs run in order and print what it shows, its commands succeed."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pgsluice.cli.main import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "lake.md"
BLOCK = re.compile(r"```(bash|python|text|yaml)\n(.*?)```", re.DOTALL)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not importlib.util.find_spec("pyiceberg"), reason="needs pgsluice[iceberg]")
def test_the_guide_does_what_it_shows(
    spark: SparkSession,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    # Spark's own processes are elsewhere: the folders get their full names.
    text = GUIDE.read_text(encoding="utf-8")
    for name in ("lake/orders", "lake/stock"):
        text = re.sub(rf"(?<=[\"' ]){name}(?=[\"'\s])", str(tmp_path / name), text)
    text = text.replace("////lake/", f"///{tmp_path}/").replace(": /lake", f": {tmp_path}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = 0

    blocks = BLOCK.findall(text)
    for (kind, block), (next_kind, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "yaml":
            (home / ".pyiceberg.yaml").write_text(block)
            from pyiceberg import catalog
            from pyiceberg.utils.config import Config

            monkeypatch.setattr(
                catalog, "_ENV_CONFIG", Config()
            )  # which it reads once, at its import
        elif kind == "bash":
            for line in block.splitlines():
                done = CliRunner().invoke(cli, shlex.split(line)[1:], catch_exceptions=False)
                assert done.exit_code == 0, f"{line}\n{done.output}"
        elif kind == "python":
            exec(block, names)
            ran += 1
            printed = capsys.readouterr().out
            assert printed.rstrip() == (shown.rstrip() if next_kind == "text" else ""), block

    assert ran >= 7
