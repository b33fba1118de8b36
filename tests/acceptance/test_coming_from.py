"""Pages for users of other job queues: programs before and after, and the move, print what the pages show."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

PAGES = Path(__file__).parents[2] / "docs" / "coming-from"
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"```(bash|python|text)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")
# Sections whose blocks use the other package.
THEIRS = {"Before", "Move the waiting jobs"}
INSTALL = "pgsluice schema install\n"  # prints one line for each schema, and another if they are there
VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD", "dbname": "PGDATABASE"}  # fmt: skip
# kombu's transport for tests: a broker that is a folder.
FILES_AS_BROKER = """
broker_url = "filesystem://"
broker_transport_options = {{"data_folder_in": "{0}", "data_folder_out": "{0}", "control_folder": "{0}-control"}}
"""


@pytest.fixture
def environ(database_18, tmp_path):
    """An environment whose server is set by libpq's variables, with the commands of this Python first."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in (("python", ""), ("pgsluice", "-m pgsluice")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PG", "PYTEST")) and name != "DATABASE_URL"
    }
    server = conninfo_to_dict(database_18.url)
    return kept | {
        **{variable: str(server[name]) for name, variable in VARIABLES.items() if name in server},
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }


@pytest.fixture
def run(environ, tmp_path):
    """Run the blocks of a page in an empty folder, and compare what they print with the page."""
    work = tmp_path / "work"
    work.mkdir()

    def run(page: str, *, with_theirs: bool) -> None:
        ran = 0
        for kind, block, shown in blocks_of(page, with_theirs=with_theirs):
            if kind == "python" and (name := FILE.match(block)):
                (work / name[1]).write_text(block, encoding="utf-8")
                continue
            command = ["bash", "-e", "-c", block] if kind == "bash" else ["python", "-c", block]
            done = subprocess.run(
                command, cwd=work, env=environ, capture_output=True, text=True, timeout=60, check=False
            )  # fmt: skip
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            if block != INSTALL:
                assert done.stdout == shown, f"{block}\n{done.stderr}"
            ran += 1
        assert ran > 2

    return run


def blocks_of(page: str, *, with_theirs: bool) -> list[tuple[str, str, str]]:
    """Return kind, text and shown output of each block that runs, in order."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    sections = [body for title, body in SECTION.findall(text) if with_theirs or title not in THEIRS]
    blocks = [block for body in sections for block in BLOCK.findall(body)]
    return [
        (kind, block, shown if next_kind == "text" else "")
        for (kind, block), (next_kind, shown) in itertools.pairwise([*blocks, ("", "")])
        if kind != "text"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["celery", "pgqueuer", "procrastinate"])
def test_our_program_of_a_page_prints_what_it_shows(run, page):
    run(page, with_theirs=False)


@pytest.mark.slow
def test_page_on_celery_runs_with_tasks_in_files(run, tmp_path):
    pytest.importorskip("celery", reason="Celery is not installed; pip install 'pgsluice[celery]'")
    folder = tmp_path / "broker"
    folder.mkdir()
    (tmp_path / "work" / "celeryconfig.py").write_text(FILES_AS_BROKER.format(folder))

    run("celery", with_theirs=True)


@pytest.mark.slow
def test_page_on_pgqueuer_runs_with_pgqueuer(run):
    pytest.importorskip("pgqueuer", reason="pgqueuer is in the dependency group bench")

    run("pgqueuer", with_theirs=True)


@pytest.mark.slow
def test_page_on_procrastinate_runs_with_procrastinate(run):
    pytest.importorskip("procrastinate", reason="procrastinate is in the dependency group bench")

    run("procrastinate", with_theirs=True)
