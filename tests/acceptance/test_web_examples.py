"""The examples with a web server: their tests, and the requests of their README in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from support import wait_until
from support.object_store import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVERS = {"fastapi": ["uvicorn", "shop:web"], "flask": ["flask", "--app", "shop:web", "run"]}
WORKERS = {"flask": ["pgsluice", "worker", "run", "shop:app"]}
PROGRAM = "from pgsluice.cli.main import main; main()"


@pytest.mark.slow
@pytest.mark.parametrize("example", SERVERS)
def test_tests_of_an_example_pass(example):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider",
         "-o", "asyncio_mode=auto", "test_shop.py"],
        cwd=EXAMPLES / example, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", SERVERS)
def test_requests_of_an_example_have_the_shown_answers(example, database, tmp_path):
    readme = (EXAMPLES / example / "README.md").read_text()
    requests = re.findall(r"^curl (?:-X (\w+) )?'?(http://[^'\s]+)'?$", readme, re.MULTILINE)
    shown = [
        json.loads(line)
        for line in re.search(r"```text\n(.*?)```", readme, re.DOTALL)[1].splitlines()
    ]
    environ = os.environ | {"PGSLUICE_DSN": database.url}
    subprocess.run([sys.executable, "shop.py"], cwd=EXAMPLES / example, env=environ, check=True)
    port = free_port()
    assert f"{' '.join(SERVERS[example])} --port" in readme
    commands = [["-m", *SERVERS[example], "--port", str(port)]]
    if example in WORKERS:
        assert " ".join(WORKERS[example]) in readme
        commands.append(["-c", PROGRAM, *WORKERS[example][1:]])

    with ExitStack() as stack:
        for command in commands:
            process = stack.enter_context(
                subprocess.Popen([sys.executable, *command], cwd=EXAMPLES / example, env=environ)
            )
            stack.callback(process.terminate)
        for (method, url), answer in zip(requests, shown, strict=True):
            there = re.sub(r"(?<=127\.0\.0\.1:)\d+", str(port), url)
            wait_until(lambda: _answer(method or "GET", there) == answer, url)  # noqa: B023


def _answer(method: str, url: str) -> object:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as got:
            return json.load(got)
    except (urllib.error.URLError, ConnectionError):  # not listening yet
        return None
