"""Programs that tests start by name and that a machine may lack."""

from __future__ import annotations

import shutil

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
