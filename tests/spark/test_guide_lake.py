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
from support.object_store import ObjectStore
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "lake.md"
BLOCK = re.compile(r"```(bash|python|text|yaml)\n(.*?)```", re.DOTALL)


@pytest.mark.slow
def test_the_commands_for_an_object_store_succeed(
    spark: SparkSession,
    object_store: ObjectStore,
    database_18: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGSLUICE_DSN", database_18.url)
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('orders')")
        connection.execute("select pgq.insert_event('orders', 'order.created', '1')")
    lines = [line for line in _commands(GUIDE.read_text(encoding="utf-8")) if "s3://" in line]

    outputs = [_invoke(line) for line in lines]

    assert len(outputs) == 3
    assert re.search(r"^ delta +\d+ +1 +1 ", outputs[-1], re.MULTILINE), outputs[-1]


@pytest.mark.slow
def test_the_commands_for_pipelines_into_iceberg_succeed(
    spark: SparkSession,
    iceberg: str,
    database_18: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGSLUICE_DSN", database_18.url)
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('changes')")
        connection.execute("create table account (id int primary key, name text)")
        connection.execute("insert into account values (1, 'before')")
        connection.execute("select sluice.capture('account', 'changes')")
        connection.execute("select pgmq.create('orders')")
        connection.execute("select pgmq.archive('orders', pgmq.send('orders', '{}'))")
    lines = [line for line in _commands(GUIDE.read_text(encoding="utf-8")) if "pipeline" in line]

    outputs = [_invoke(line) for line in lines if "iceberg:" in line]

    assert len(outputs) == 5
    assert "public.account: complete since 20" in outputs[-1]


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
    # Spark's processes have another working directory, so paths are absolute.
    text = GUIDE.read_text(encoding="utf-8")
    for name in ("orders", "returns", "stock", "copy", "copy-checkpoint"):
        text = re.sub(rf"(?<=[\"' ])lake/{name}(?=[\"'\s])", str(tmp_path / "lake" / name), text)
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
            )  # which it reads only once, at its import
        elif kind == "bash":
            for line in block.splitlines():
                if "s3://" not in line and "pipeline" not in line and "rebuild" not in line:
                    _invoke(line)
        elif kind == "python":
            exec(block, names)
            ran += 1
            printed = capsys.readouterr().out
            assert printed.rstrip() == (shown.rstrip() if next_kind == "text" else ""), block

    assert ran >= 7


def _commands(text: str) -> list[str]:
    return [
        line for kind, block in BLOCK.findall(text) if kind == "bash" for line in block.splitlines()
    ]


def _invoke(line: str) -> str:
    done = CliRunner().invoke(cli, shlex.split(line)[1:], catch_exceptions=False)
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.output
