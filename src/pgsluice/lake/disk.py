"""Fsync files and folders. Spark never replays a micro-batch after its commit, so it must survive a power failure."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Fsync the entries of a folder."""
    _sync(folder)


def sync_file(path: Path) -> None:
    """Fsync a file; do nothing if it no longer exists."""
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
