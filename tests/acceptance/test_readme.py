"""README: its examples in order, with the output that it shows, and its commands."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.processes import without_server

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
EXAMPLES = [
    (code, output)
    for (kind, code), (next_kind, output) in itertools.pairwise(BLOCKS)
    if (kind, next_kind) == ("python", "text")
]
COMMANDS = [
    line.split("#")[0].strip()
    for kind, text in BLOCKS
    if kind == "bash"
    for line in text.splitlines()
    if line.strip()
]


@pytest.fixture
def run(database_18, tmp_path):
    environ = without_server() | {"PGSLUICE_DSN": database_18.url}

    def run(*command: str) -> str:
        done = subprocess.run(
            command,
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def run_command(run, command: str) -> None:
    """Run a command of the README in the environment of these tests."""
    program, *arguments = command.split()
    if program == "python":
        run(sys.executable, *arguments)
    else:
        assert program == "pgsluice", command
        run(sys.executable, "-c", "from pgsluice.cli.main import main; main()", *arguments)


def test_the_first_example_with_its_output_stands_before_line_35():
    lines = README[: README.index(EXAMPLES[0][1])].count("\n")

    assert lines < 35


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=["work queue", "event log"])
def test_an_example_prints_what_it_shows(run, code, output):
    assert run(sys.executable, "-c", code) == output


def test_worker_example_handles_the_message_that_it_sends(run, database_18, tmp_path):
    start = next(
        position
        for position, (kind, text) in enumerate(BLOCKS)
        if kind == "python" and text.startswith("# shop.py\n")
    )
    (tmp_path / "shop.py").write_text(BLOCKS[start][1], encoding="utf-8")
    for line in BLOCKS[start + 1][1].splitlines():
        run_command(run, line.split("#")[0].strip())

    with database_18.connect() as connection:
        assert connection.execute("select parcel from packed").fetchall() == [(1,)]
        assert connection.execute("select count(*) from pgmq.a_parcels").fetchall() == [(1,)]
        assert connection.execute("select count(*) from sluice.dead_letter").fetchall() == [(0,)]


@pytest.mark.spark
@pytest.mark.slow
def test_the_commands_work_in_their_order(run, tmp_path):
    for kind, text in BLOCKS:
        if kind == "python" and (name := re.match(r"# (\w+\.py)\n", text)):
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
    run(sys.executable, "-c", EXAMPLES[1][0])
    commands = [
        c for c in COMMANDS if c.startswith(("pgsluice ", "python ")) and "embedded" not in c
    ]
    assert len(commands) >= 3
    for command in commands:
        run_command(run, command)


def test_every_make_target_and_every_extra_that_is_named_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    pages = [README, (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")]
    targets = {
        target
        for page in pages
        for target in re.findall(r"^make ([\w-]+)|`make ([\w-]+)", page, re.MULTILINE)
        for target in target
        if target
    }
    assert targets >= {"demo", "test", "setup", "check", "generate"}
    for target in targets:
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE), f"make {target}"

    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(re.findall(r"pgsluice\[([\w-]+)\]", README))
    parts = {"report", "verify"}  # named in the documentation of their commands
    assert extras == tomllib.loads(project)["project"]["optional-dependencies"].keys() - parts
    for extra in extras:
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra
