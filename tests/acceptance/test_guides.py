"""Guides whose examples and commands run unchanged: in order, with the output that they show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pgsluice.ops.doctor import CHECKS, IN_EXPLAIN
from support.processes import without_server

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
BLOCK = re.compile(r"```(bash|python|text)\n(.*?)```", re.DOTALL)


@pytest.fixture
def run(database_18, tmp_path):
    environ = without_server()

    def run(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environ | {"PGSLUICE_DSN": database_18.url},
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == status, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


FILE = re.compile(r"# (\w+\.py)\n")


@pytest.mark.parametrize("guide", ["command-line", "explain"])
def test_commands_of_a_guide_exit_as_it_says(command, guide):
    text = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    blocks = [block for kind, block in BLOCK.findall(text) if kind == "bash"]
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 5

    for line in lines:
        name, *arguments = shlex.split(line, comments=True)
        assert name == "pgsluice"
        code = re.search(r"# exits with (\d)", line)
        command(*arguments, code=int(code[1]) if code else 0)


@pytest.mark.slow
def test_commands_of_the_production_guide_run(command, database_18):
    text = (GUIDES / "production.md").read_text(encoding="utf-8")
    ran = 0
    for kind, block in re.findall(r"```(bash|sql)\n(.*?)```", text, re.DOTALL):
        if kind == "sql":
            with database_18.connect() as connection:
                connection.execute("create role worker")  # the role in the guide
                try:
                    connection.execute(block)
                finally:
                    connection.execute("drop role worker")
            continue
        for line in block.splitlines():
            name, *arguments = shlex.split(line, comments=True)
            assert name == "pgsluice"
            command(*arguments)
            ran += 1
    assert ran > 15


@pytest.mark.slow
def test_tests_of_the_testing_guide_pass(run, tmp_path):
    for kind, text in BLOCK.findall((GUIDES / "testing.md").read_text(encoding="utf-8")):
        if kind == "python":
            (tmp_path / FILE.match(text)[1]).write_text(text, encoding="utf-8")
    plugins = ("-p", "pgsluice_pytest", "-p", "no:cacheprovider", "-p", "no:asyncio")

    printed = run("-m", "pytest", "-q", "-W", "error", *plugins)

    assert "7 passed" in printed


@pytest.mark.slow
def test_the_example_of_the_first_page_prints_what_it_shows(run):
    blocks = BLOCK.findall((GUIDES.parent / "index.md").read_text(encoding="utf-8"))

    assert [kind for kind, _ in blocks] == ["bash", "python", "text"]
    assert run("-c", blocks[1][1]) == blocks[2][1]


@pytest.mark.slow
def test_commands_of_the_page_on_installation_run(command):
    text = (GUIDES.parent / "install.md").read_text(encoding="utf-8")
    lines = [line for kind, block in BLOCK.findall(text) for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines]

    assert [words[:3] for words in commands[:4]] == [
        ["make", "dist"],  # tests/acceptance/test_distributions.py runs it and the next two lines
        ["export", "PIP_FIND_LINKS=$PWD/dist"],
        ["pip", "install", "pgsluice"],
        ["pgsluice", "embedded", "start"],  # tests/acceptance/test_tutorial.py starts it
    ]
    for name, *arguments in commands[4:]:
        assert name == "pgsluice"
        command(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["share-groups", "sqlalchemy", "tracing", "workers"])
def test_a_guide_does_what_it_shows(run, tmp_path, guide):
    shown, printed = [], []
    for kind, text in BLOCK.findall((GUIDES / f"{guide}.md").read_text(encoding="utf-8")):
        if kind == "text":
            shown.append(text)
        elif kind == "python" and (name := FILE.match(text)):
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
        elif kind == "python":
            printed += filter(None, [run("-c", text)])
        else:
            for line in text.splitlines():
                command = shlex.split(line, comments=True)
                assert command[0] == "pgsluice"
                status = 1 if "# exits with 1" in line else 0
                run("-c", "from pgsluice.cli.main import main; main()", *command[1:], status=status)

    assert len(shown) > 1
    assert printed == shown


@pytest.mark.slow
def test_commands_of_the_troubleshooting_guide_run(command, database_18):
    text = (GUIDES / "troubleshooting.md").read_text(encoding="utf-8")
    lines = [line for kind, block in BLOCK.findall(text) for line in block.splitlines()]
    command("queue", "create", "orders")
    command("log", "create", "changes")
    command("log", "consume", "changes", "lake", "--register")

    for line in lines:
        name, *arguments = shlex.split(line)
        assert name == "pgsluice"
        command(*arguments)

    assert set(re.findall(r"\| `(pgsluice [^`]+)`", text)) <= {*lines}


def test_troubleshooting_guide_lists_every_check_and_those_that_fix_runs():
    text = (GUIDES / "troubleshooting.md").read_text(encoding="utf-8")
    symptoms, _, checks = text.partition("## Checks")

    listed = re.findall(r"^\| `(\w+)` \| .+ \| (yes )?\|$", checks, re.MULTILINE)

    assert listed == [(check.name, "yes " if check.is_fixable else "") for check in CHECKS]
    assert [check.name for check in CHECKS if f"`{check.name}`" not in symptoms] == [
        "prepared_transactions",
        "autovacuum",
        "slow_counts",
        "partitions",
        "parked_group_keys",
    ]


@pytest.mark.slow
def test_commands_of_the_dashboard_guide_serve(database_18, tmp_path):
    blocks = BLOCK.findall((GUIDES / "dashboard.md").read_text(encoding="utf-8"))
    lines = [line for kind, block in blocks if kind == "bash" for line in block.splitlines()]
    commands = [line for line in lines if "pgsluice dashboard" in line]
    assert len(commands) > 5

    for command in commands:
        words = shlex.split(command, comments=True)
        variables = dict(word.split("=") for word in words if word.startswith("PGSLUICE_"))
        arguments = words[words.index("pgsluice") + 1 :]
        process = subprocess.Popen(
            [sys.executable, "-m", "pgsluice", *arguments, "--port", "0", "--dsn", database_18.url],
            env=os.environ | variables, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr.readline().startswith("serving http://"), command
        process.terminate()
        assert process.communicate(timeout=30)[1] == ""
        assert process.returncode == 0


def test_role_and_redaction_of_the_dashboard_guide_work(database_18):
    text = (GUIDES / "dashboard.md").read_text(encoding="utf-8")
    [role] = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    with database_18.connect(autocommit=False) as connection:
        connection.execute(role)
        connection.execute("set role dashboard")
        assert connection.execute("select * from sluice.list_queue_states()").fetchall() == []
        connection.rollback()  # roles belong to the server
    [redaction] = [block for kind, block in BLOCK.findall(text) if "redact=" in block]
    variables: dict[str, object] = {}
    exec(redaction, variables)
    dashboard = variables["dashboard"].state.dashboard
    dashboard.database.close()
    assert dashboard.redaction.apply("hr_mails", {"password": 1}) == "hidden"
    assert dashboard.redaction.apply("mails", {"Password": 1}) == {"Password": "•••"}


def test_explain_guide_lists_the_checks_that_each_command_runs():
    text = (GUIDES / "explain.md").read_text(encoding="utf-8")
    listed: dict[bool, set[str]] = {True: set(), False: set()}
    for by_whom, checks in re.findall(
        r"^\| .+ \| (.+) \| ((?:`\w+`(?:, )?)+) \|$", text, re.MULTILINE
    ):
        listed[by_whom == "each command"].update(re.findall(r"`(\w+)`", checks))

    assert listed[True] == {*IN_EXPLAIN}
    others = {check.name for check in CHECKS} - {*IN_EXPLAIN}
    assert others - listed[False] == {"message_times", "partitions", "stages"}
    assert listed[False] <= others
