"""Force to disk what must outlive a power failure: Spark forgets a micro-batch once we say that it is there."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Force a folder's list of names to disk."""
    _sync(folder)


def sync_file(path: Path) -> None:
    """Force a file to disk; nothing where it has gone meanwhile."""
    try:
        _sync(path)
    except FileNotFoundError:
        return


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
