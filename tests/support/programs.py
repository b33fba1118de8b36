"""Programs that tests start by name and that a machine may lack."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def require(*names: str, purpose: str) -> None:
    """Skip the test if a program is not on PATH; the reason names it.

    Args:
        names: The programs; each is needed.
        purpose: The subject of the reason, such as "a small disk".
    """
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{purpose} needs on PATH: {', '.join(missing)}")


def installed(name: str, purpose: str) -> str:
    """Return the path of a program that a package installs beside this Python; skip the test without it.

    `make test` runs with the PATH of the caller, which need not have that folder.
    """
    folders = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = shutil.which(name, path=folders)
    if found is None:
        pytest.skip(f"{purpose} needs {name} on PATH or beside {sys.executable}")
    return found
