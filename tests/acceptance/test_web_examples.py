"""The examples with a web server: their tests, and the requests of their README in processes of their own."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from support import wait_until
from support.object_store import free_port
from support.processes import environment

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"
# On PostgreSQL 15: the plugin of the package has an embedded server only.
ON_SERVER = ["-p", "no:pgsluice_pytest", "-p", "support.example_server"]


@dataclass(frozen=True)
class Example:
    """Commands of an example, as in its README.

    Attributes:
        server: The command that serves, followed there by a port.
        worker: None if the web server runs the handlers.
    """

    set_up: tuple[str, ...]
    server: str
    worker: str | None
    tests: str


SET_UP = ("pgsluice schema install", "python shop.py")
NAMED = {
    "fastapi": Example(
        SET_UP, "uvicorn shop:web --port", None, "pytest -o asyncio_mode=auto test_shop.py"
    ),
    "flask": Example(
        SET_UP,
        "flask --app shop run --port",
        "pgsluice worker run shop:app",
        "pytest test_shop.py",
    ),
    "django": Example(
        ("python manage.py migrate",),
        "python manage.py runserver",
        "python manage.py pgsluice_worker",
        "python manage.py test",
    ),
}
EXAMPLE = pytest.mark.parametrize("example", NAMED)


@pytest.mark.slow
@EXAMPLE
def test_tests_of_an_example_pass(example, database_18):
    run_tests(example, database_18.url)


@pytest.mark.slow
@EXAMPLE
def test_tests_of_an_example_pass_on_postgresql_15(example, servers):
    server = servers.get("15")
    with empty_database(server, f"tests_of_{example}") as dsn:
        run_tests(example, dsn, *ON_SERVER, EXAMPLE_SERVER=server.url())


def run_tests(example, dsn, *options, **variables):
    command = words(NAMED[example].tests)
    if "pytest" in command:
        command[3:3] = ["-q", "-c", "/dev/null", "--rootdir=.", "-p", "no:cacheprovider", *options]
    run(command, example, PGSLUICE_DSN=dsn, **variables)


@pytest.mark.slow
@EXAMPLE
def test_requests_of_an_example_have_the_shown_answers(example, servers, tmp_path):
    check_requests(example, servers.get("18"), tmp_path)


@pytest.mark.slow
@EXAMPLE
def test_requests_of_an_example_have_the_shown_answers_on_postgresql_15(example, servers, tmp_path):
    check_requests(example, servers.get("15"), tmp_path)


def check_requests(example, server, folder):
    commands = NAMED[example]
    readme = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    requests = re.findall(r"^curl (?:-X (\w+) )?'?(http://[^'\s]+)'?$", readme, re.MULTILINE)
    shown = re.search(r"```text\n(.*?)```", readme, re.DOTALL)[1].splitlines()
    for command in (*commands.set_up, commands.server, commands.worker or "", commands.tests):
        assert command in readme
    port = free_port()
    serving = [words(f"{commands.server} {port}")]
    if example == "django":
        serving[0].append("--noreload")  # serve in the process that is terminated
    if commands.worker:
        serving.append(words(commands.worker))

    with empty_database(server, f"requests_to_{example}") as dsn, ExitStack() as stack:
        for command in commands.set_up:
            run(words(command), example, PGSLUICE_DSN=dsn)
        for command in serving:
            process = stack.enter_context(
                subprocess.Popen(
                    command, cwd=EXAMPLES / example, env=environment(TESTS, PGSLUICE_DSN=dsn)
                )
            )
            stack.callback(process.terminate)
        for (method, url), answer in zip(requests, map(json.loads, shown), strict=True):
            address = re.sub(r"(?<=127\.0\.0\.1:)\d+", str(port), url)
            wait_until(lambda: _answer(method or "GET", address) == answer, url)  # noqa: B023


@contextmanager
def empty_database(server, name) -> Iterator[str]:
    """Create a database without the schemas; yield its connection string."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"create database {name} template template0")
        try:
            yield server.url(name)
        finally:
            admin.execute(f"drop database {name} with (force)")


def words(command):
    """Return a command of a README with the interpreter of the tests."""
    program, *arguments = shlex.split(command)
    return [sys.executable, *(() if program == "python" else ("-m", program)), *arguments]


def run(command, example, **variables):
    done = subprocess.run(
        command, cwd=EXAMPLES / example, env=environment(TESTS, **variables),
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def _answer(method: str, url: str) -> object:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=20) as got:
            return json.load(got)
    except (urllib.error.URLError, ConnectionError):  # not listening yet
        return None
