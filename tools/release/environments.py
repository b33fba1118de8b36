"""Clean environments with one extra each, and the programs that run in them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import psycopg

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from release.distributions import project

SMOKE = Path(__file__).parent / "smoke"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_PYENV = Path.home() / ".pyenv" / "versions"
_numbers = count(1)
# These install the schemas into an empty database; the others find them installed, which saves seconds each.
_FROM_EMPTY = frozenset({"base", "alembic", "django"})


def prepare(server: EmbeddedServer) -> None:
    """Install the schemas into the template of new databases."""
    with psycopg.connect(server.url("template1")) as connection:
        schema.install(connection)


def program_of(extra: str) -> Path:
    """Return the smoke test of an extra; `base` is that of none."""
    return SMOKE / f"{extra.replace('-', '_')}.py"


def coverage_problems(extras: list[str]) -> list[str]:
    """Return extras without a smoke test, and smoke tests without an extra."""
    programs = {path.stem for path in SMOKE.glob("*.py")} - {"__init__", "base"}
    known = {extra.replace("-", "_") for extra in extras}
    return [
        *(
            f"the extra {name} has no tools/release/smoke/{name}.py"
            for name in sorted(known - programs)
        ),
        *(f"tools/release/smoke/{name}.py is of no extra" for name in sorted(programs - known)),
    ]


def find_python(version: str) -> Path | None:
    """Return an interpreter of pyenv or PATH that runs and has this version."""
    candidates = sorted(_PYENV.glob(f"{version}.*/bin/python{version}"), reverse=True)
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        candidates.append(Path(on_path))
    for candidate in candidates:
        asked = subprocess.run(
            [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if asked.stdout.strip() == version:
            return candidate
    return None


def supports(python: str) -> bool:
    """Return True if the classifiers of the package name this version of Python."""
    classifiers: list[str] = project()["classifiers"]
    return f"Programming Language :: Python :: {python}" in classifiers


def conflicts_in(python: Path) -> str:
    """Return the complaints of `pip check`, run by the pip of the tools, as uv installs none."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()


def create(interpreter: Path, folder: Path, requirement: str, *, by_pip: bool = False) -> Path:
    """Create an environment with a requirement; return its interpreter.

    Args:
        interpreter: The Python of the environment.
        folder: Folder of the environment.
        requirement: What to install, such as `pgsluice[metrics] @ file:///…`.
        by_pip: True for pip, which users have; False for uv, which shares files between environments.

    Raises:
        subprocess.CalledProcessError: The requirement cannot be installed; `stderr` has the reason.
    """
    python = folder / "bin" / "python"
    if by_pip:
        commands = [
            [str(interpreter), "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", requirement],
        ]
    else:
        uv = shutil.which(
            "uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        assert uv is not None, "uv is not installed: pip install --group release"
        commands = [
            [uv, "venv", "--quiet", "--python", str(interpreter), str(folder)],
            [uv, "pip", "install", "--quiet", "--python", str(python), requirement],
        ]
    for command in commands:
        subprocess.run(command, capture_output=True, text=True, check=True)
    return python


def smoke_problems(python: Path, extra: str, server: EmbeddedServer, *, slow: bool) -> list[str]:
    """Run the smoke test of an extra on a database of its own; return its errors."""
    name = f"smoke_{next(_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        template = "template0" if extra in _FROM_EMPTY else "template1"
        connection.execute(f"create database {name} template {template}".encode())
    kept = {
        key: text
        for key, text in os.environ.items()
        if not re.match(r"(PG|PYTHON|DATABASE_URL$)", key)
    }
    variables = {"PGSLUICE_DSN": server.url(name), **({"SMOKE_SLOW": "1"} if slow else {})}
    try:
        done = subprocess.run(
            [str(python), "-I", str(program_of(extra))],
            env=kept | variables, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)".encode())
    return [] if done.returncode == 0 else [f"{extra}: {(done.stdout + done.stderr)[-1500:]}"]


def folder_of(folder: Path, interpreter: Path, extra: str) -> Path:
    """Return the folder of the environment with an extra."""
    return folder / f"{interpreter.name}-{extra}"


def extra_problems(
    interpreter: Path, wheel: Path, extra: str, folder: Path, server: EmbeddedServer, *, slow: bool
) -> list[str]:
    """Install the wheel with one extra, or none for `base`; check and use it; return what is wrong."""
    marker = "" if extra == "base" else f"[{extra}]"
    target = folder_of(folder, interpreter, extra)
    try:
        python = create(
            interpreter, target, f"pgsluice{marker} @ {wheel.as_uri()}", by_pip=extra == "base"
        )
    except subprocess.CalledProcessError as error:
        return [f"cannot be installed: {error.stderr[-1500:]}"]
    if conflicts := conflicts_in(python):
        return [f"pip check: {conflicts}"]
    if extra != "all":
        problems = smoke_problems(python, extra, server, slow=slow)
        shutil.rmtree(target)
        return problems
    programs = ["base", *project()["optional-dependencies"]]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda each: smoke_problems(python, each, server, slow=slow), programs)
        return [problem for problems in found for problem in problems]
